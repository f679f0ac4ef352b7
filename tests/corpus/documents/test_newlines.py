"""Line ends are read as Python, and thus nanoGPT, reads them: the same tokens, wherever a chunk ends."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.corpus.documents.newlines import with_plain_newlines
from nanopace.corpus.prepare import intake, recipe
from nanopace.corpus.prepare.prepare import Recipe, prepare
from nanopace.corpus.shards.corpus import open_corpus
from nanopace.errors import InputError

from ..conftest import contents
from .test_read import texts

CHARS = Recipe(name="x", tokenizer="chars")


class Mouthfuls(io.BytesIO):
    """Returns three bytes at a time, whatever is requested."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(3 if size is None or size < 0 else min(size, 3))


def as_python_reads(data: bytes) -> bytes:
    return io.TextIOWrapper(io.BytesIO(data), encoding="latin-1", newline=None).read().encode("latin-1")


@given(st.lists(st.sampled_from([b"\r", b"\n", b"a", b"\xc3"]), max_size=40).map(b"".join))
def test_any_mixture_wherever_a_chunk_ends(data: bytes) -> None:
    assert with_plain_newlines(Mouthfuls(data)).read() == as_python_reads(data)
    assert with_plain_newlines(io.BytesIO(data)).read() == as_python_reads(data)


@pytest.mark.parametrize("in_memory", [0, 1 << 20])
def test_the_bytes_of_train_bin_are_those_of_nanogpts_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    """A streamed text is read 8 kB at a time, and some chunks end between \\r and \\n."""
    monkeypatch.setattr("nanopace.corpus.documents.pieces._IN_MEMORY", in_memory)
    data = b"To be,\r\nor not\rto be.\n\r\n\r" * 20_000
    path = tmp_path / "input.txt"
    path.write_bytes(data)
    prepare([path], tmp_path / "out", CHARS)
    with open(path) as file:  # as its data/shakespeare_char/prepare.py does
        text = file.read()
    assert "\r" not in text
    letters = sorted(set(text))
    ids = np.array([letters.index(each) for each in text], dtype=np.uint16)
    cut = int(len(text) * 0.9)
    corpus = open_corpus(tmp_path / "out")
    assert corpus.vocab_size == len(letters)
    assert (tmp_path / "out" / "train-00000.bin").read_bytes() == ids[:cut].tobytes()
    assert (tmp_path / "out" / "val-00000.bin").read_bytes() == ids[cut:].tobytes()


def test_texts_in_archives_too_and_strings_not(tmp_path: Path) -> None:
    row = json.dumps({"text": "a\r\nb\r"}).encode()
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"a\r\nb\r"))
    (tmp_path / "a.jsonl").write_bytes(row + b"\r\n")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.txt", b"a\r\nb\r")
        archive.writestr("b.jsonl", row)
    assert texts(tmp_path / "a.txt.gz") == ["a\nb\n"]
    assert texts(tmp_path / "a.jsonl") == ["a\r\nb\r"]
    assert texts(tmp_path / "a.zip") == ["a\nb\n", "a\r\nb\r"]


def test_the_same_text_with_other_line_ends_is_a_duplicate(tmp_path: Path) -> None:
    for name, data in (("a.txt", b"a\nb\n" * 99), ("b.txt", b"a\r\nb\r\n" * 99), ("c.txt", b"a\rb\r" * 99)):
        (tmp_path / name).write_bytes(data)
    summary = prepare([tmp_path / f"{name}.txt" for name in "abc"], tmp_path / "out", CHARS)
    assert summary.counts.duplicates == 4  # of three texts, whose ends count as texts, too


def test_what_an_earlier_version_began_is_not_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise half of it would keep its \\r. What it finished stays: somebody may be training on it."""
    path, out = tmp_path / "input.txt", tmp_path / "out"
    path.write_bytes(b"To be,\r\nor not to be.\r\n" * 400)
    monkeypatch.setattr(intake, "BATCH", 1000)
    monkeypatch.setattr("nanopace.corpus.documents.pieces.PIECE", 500)
    with monkeypatch.context() as earlier:
        earlier.setattr(recipe, "_VERSION", recipe._EARLIER)
        earlier.setattr("nanopace.corpus.prepare.encode.CorpusWriter.complete", lambda _: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            prepare([path], out, CHARS)
    begun = contents(out)
    with pytest.raises(InputError, match=r"was started by an older nanopace, .* --restart"):
        prepare([path], out, CHARS)
    assert contents(out) == begun
    with monkeypatch.context() as earlier:
        earlier.setattr(recipe, "_VERSION", recipe._EARLIER)
        prepare([path], out, CHARS, restart=True)
    finished = contents(out)
    assert prepare([path], out, CHARS).resumed
    assert contents(out) == finished
