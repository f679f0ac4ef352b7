"""From text to shards: what is in them, and that nothing that happens in between changes a byte."""

from __future__ import annotations

import errno
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nanopace.corpus.prepare import intake
from nanopace.corpus.prepare.prepare import Recipe, Status, ensure, prepare
from nanopace.corpus.prepare.provenance import PROVENANCE
from nanopace.corpus.shards.corpus import open_corpus
from nanopace.corpus.shards.manifest import MANIFEST, read_manifest
from nanopace.errors import InputError

from ..conftest import contents

BYTES = Recipe(name="rows", tokenizer="bytes", shard_tokens=4000)
END = 256


def tokens_of(directory: Path, split: str) -> list[int]:
    manifest = read_manifest(directory)
    files = manifest.train if split == "train" else manifest.val
    return [token for entry in files for token in np.fromfile(directory / entry.file, manifest.dtype).tolist()]


def documents_of(directory: Path, split: str) -> list[str]:
    parts: list[list[int]] = []
    for token in tokens_of(directory, split):
        if token == END:
            parts.append([])
        else:
            parts[-1].append(token)
    return [bytes(part).decode() for part in parts]


def texts_in(files: list[Path]) -> list[str]:
    return [json.loads(line)["text"] for path in files for line in path.read_text().splitlines()]


# --- what comes out --------------------------------------------------------------------------------------------------


def test_every_document_is_there_once(rows: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    told: list[Status] = []
    summary = prepare(rows, out, BYTES, on_progress=told.append)
    train, val = documents_of(out, "train"), documents_of(out, "val")
    found = train + val
    assert sorted(found) == sorted(set(texts_in(rows)))
    assert train == [text for text in dict.fromkeys(texts_in(rows)) if text not in val]  # in their order
    assert summary.counts.documents == len(found)
    assert summary.counts.duplicates == len(texts_in(rows)) - len(found)
    assert summary.text_bytes == sum(len(text.encode()) for text in found)
    assert summary.tokens["train"] == len(tokens_of(out, "train"))
    assert told[-1].done == told[-1].total == sum(path.stat().st_size for path in rows)
    assert (told[-1].documents, told[-1].tokens) == (len(found), sum(summary.tokens.values()))


def test_the_manifest_says_what_is_there(rows: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    summary = prepare(rows, out, BYTES)
    manifest = read_manifest(out)
    assert len(manifest.train) > 10
    assert all(4000 <= entry.tokens < 8000 for entry in manifest.train[:-1])
    assert sum(entry.documents for entry in manifest.train) == len(documents_of(out, "train"))
    corpus = open_corpus(out)
    corpus.check(vocab_size=257, block_size=64)
    assert (corpus.name, corpus.train.tokens, corpus.val.tokens) == ("rows", *summary.tokens.values())
    assert sorted(path.name for path in out.iterdir()) == sorted(
        [MANIFEST, PROVENANCE, "tokenizer.json", *(entry.file for entry in manifest.train + manifest.val)]
    )


@pytest.mark.parametrize("tokenizer", ["gpt2", "chars", "bpe"])
def test_other_tokenizers(tokenizer: str, rows: list[Path], tmp_path: Path) -> None:
    recipe = Recipe(name="x", tokenizer=tokenizer, vocab_size=300 if tokenizer == "bpe" else None)
    stages: list[str] = []
    prepare(rows, tmp_path / "out", recipe, on_progress=lambda status: stages.append(status.stage))
    assert ("tokenizer" in stages) == (tokenizer in ("chars", "bpe"))
    corpus = open_corpus(tmp_path / "out")
    decoded = [corpus.tokenizer.decode(tokens_of(tmp_path / "out", split)) for split in ("train", "val")]
    assert sum(map(len, decoded)) >= sum(map(len, set(texts_in(rows))))
    assert max(texts_in(rows), key=len) in "".join(decoded)


def test_a_large_vocabulary_takes_four_bytes(rows: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nanopace.corpus.prepare.prepare.smallest_dtype", lambda _: "uint32")
    prepare(rows, tmp_path / "out", BYTES)
    assert read_manifest(tmp_path / "out").dtype == "uint32"
    assert len(documents_of(tmp_path / "out", "val")) > 1


def test_one_text_is_cut_as_nanogpt_cuts_it(tmp_path: Path) -> None:
    text = "To be, or not to be.\n" * 100
    (tmp_path / "input.txt").write_text(text)
    prepare([tmp_path / "input.txt"], tmp_path / "out", Recipe(name="x", tokenizer="chars"))
    letters = sorted(set(text))
    assert tokens_of(tmp_path / "out", "train") == [letters.index(each) for each in text[: int(len(text) * 0.9)]]
    assert tokens_of(tmp_path / "out", "val") == [letters.index(each) for each in text[int(len(text) * 0.9) :]]


def test_a_text_of_many_pieces_is_one_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nanopace.corpus.documents.pieces.PIECE", 128)
    monkeypatch.setattr(intake, "BATCH", 1000)
    text = "".join(f"line {number}\n" for number in range(3000))
    (tmp_path / "a.txt").write_text(text)
    prepare([tmp_path / "a.txt"], tmp_path / "out", BYTES)
    [train], [val] = documents_of(tmp_path / "out", "train"), documents_of(tmp_path / "out", "val")
    assert train + val == text
    assert len(read_manifest(tmp_path / "out").train) > 5


# --- what goes wrong -------------------------------------------------------------------------------------------------


def test_nothing_to_read(tmp_path: Path) -> None:
    for name in ("a.txt", "b.jsonl"):
        (tmp_path / name).write_text("")
        with pytest.raises(InputError, match=f"{name}: contains no text"):
            prepare([tmp_path / name], tmp_path / "out", BYTES)
    with pytest.raises(InputError, match=f"^{tmp_path}: contains no text"):
        prepare([tmp_path / "a.txt", tmp_path / "b.jsonl"], tmp_path / "out", BYTES)


def test_too_few_documents_for_a_split(tmp_path: Path) -> None:
    path = tmp_path / "same.jsonl"
    path.write_text('{"text": "same"}\n' * 200)
    with pytest.raises(
        InputError, match=r"1 distinct documents leave no text for (val|train); choose another --val_frac"
    ):
        prepare([path], tmp_path / "out", BYTES)
    assert not (tmp_path / "out").exists()  # so that another --val_fraction finds nothing there
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes").touch()
    with pytest.raises(InputError, match="leave no text"):
        prepare([path], tmp_path / "out", BYTES)
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["notes"]
    prepare([path], tmp_path / "out", Recipe(name="x", tokenizer="bytes", val_fraction=0.04))  # the end of each: few


def test_other_files_or_settings_are_refused(rows: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    prepare(rows, out, BYTES)
    before = contents(out)
    for files, recipe in ((rows[:1], BYTES), (rows, Recipe(name="rows", tokenizer="gpt2"))):
        with pytest.raises(InputError, match=r"contains a corpus made from other files or settings; .* --restart"):
            prepare(files, out, recipe)
    assert contents(out) == before
    prepare(rows[:1], out, BYTES, restart=True)
    assert contents(out) != before


def test_a_finished_corpus_is_left_alone(rows: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = prepare(rows, out, BYTES)
    before = contents(out)
    again = prepare(rows, out, BYTES)
    assert (again.tokens, again.counts, again.resumed) == (first.tokens, first.counts, True)
    assert again.encoded.text_bytes == 0
    assert contents(out) == before
    (out / "train-00000.bin").unlink()
    with pytest.raises(InputError, match=r"train-00000\.bin: is missing"):
        prepare(rows, out, BYTES)


def test_the_corpus_of_another_program_is_left_alone(rows: list[Path], tmp_path: Path) -> None:
    for name in ("train.bin", MANIFEST):
        out = tmp_path / name.replace(".", "-")
        out.mkdir()
        (out / name).write_text("precious")
        with pytest.raises(InputError, match=f"contains another corpus \\({name}\\); choose another --out"):
            prepare(rows, out, BYTES)
        assert contents(out) == {name: b"precious"}


def test_restart_removes_only_its_own(rows: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    prepare(rows, out, BYTES)
    (out / "notes.txt").write_text("mine")
    (out / "train-99999.bin").write_text("left over")
    prepare(rows, out, BYTES, restart=True)
    assert (out / "notes.txt").read_text() == "mine"
    assert not (out / "train-99999.bin").exists()


def test_a_tokenizer_that_is_another_one(rows: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    prepare(rows, out, BYTES)
    (out / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"tokenizer\.json: is damaged; start over with --restart"):
        prepare(rows, out, BYTES)


def test_two_at_once(rows: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    held, done = threading.Event(), threading.Event()

    def hold(_: Status) -> None:
        held.set()
        done.wait(20)

    first = threading.Thread(target=prepare, args=(rows, out, BYTES), kwargs={"on_progress": hold})
    first.start()
    assert held.wait(20)
    with pytest.raises(InputError, match="another nanopace prepare is running there"):
        prepare(rows, out, BYTES)
    done.set()
    first.join()
    assert read_manifest(out).complete


def test_a_file_system_without_locks(rows: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    prepare(rows, tmp_path / "out", BYTES)
    assert read_manifest(tmp_path / "out").complete


def test_a_full_disk(rows: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(InputError, match="out: cannot be written: No space left on device; fix that and run"):
            prepare(rows, tmp_path / "out", BYTES)
    prepare(rows, tmp_path / "out", BYTES)


def test_a_bad_line_late_in_the_input(rows: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "BATCH", 1000)
    with rows[1].open("a") as file:
        file.write("broken\n")
    with pytest.raises(InputError, match=r"1\.jsonl: line 91 is not a JSON object"):
        prepare(rows, tmp_path / "out", BYTES)
    with pytest.raises(InputError, match="is not finished; run nanopace prepare again"):
        open_corpus(tmp_path / "out")


# --- the embedded corpus ---------------------------------------------------------------------------------------------


@pytest.fixture
def small_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A standard library of one module, and how often it was requested."""
    asked: list[int] = []
    path = tmp_path / "module.py"
    path.write_text("def f():\n    return 1\n" * 200)

    def files() -> list[Path]:
        asked.append(1)
        return [path]

    monkeypatch.setattr("nanopace.corpus.prepare.prepare.python_files", files)
    monkeypatch.chdir(tmp_path)
    return asked


def test_the_embedded_corpus_is_made_once(small_library: list[int]) -> None:
    told: list[Status] = []
    assert ensure("python", told.append) == Path("data/python")
    assert open_corpus(Path("data/python")).vocab_size is not None
    assert told
    assert ensure("python") == Path("data/python")
    assert len(small_library) == 1


def test_an_embedded_corpus_that_was_interrupted(small_library: list[int]) -> None:
    def stop(_: Status) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure("python", stop)
    ensure("python")
    assert open_corpus(Path("data/python")).name == "python"
    manifest: dict[str, Any] = json.loads(Path("data/python/corpus.json").read_text())
    Path("data/python/corpus.json").write_text(json.dumps({**manifest, "complete": False}))
    ensure("python")
    assert read_manifest(Path("data/python")).complete
    assert len(small_library) == 3


def test_other_corpora_are_found_and_never_made(small_library: list[int], rows: list[Path]) -> None:
    with pytest.raises(InputError, match="shakespeare: no such corpus; create it with: nanopace prepare shakespeare"):
        ensure("shakespeare")
    prepare(rows, Path("data/rows"), BYTES)
    assert ensure("rows") == Path("data/rows")
    Path("data/python").mkdir()
    Path("data/python/train.bin").write_bytes(b"\0" * 10)  # nanoGPT's, of the same name
    assert ensure("python") == Path("data/python")
    assert small_library == []
