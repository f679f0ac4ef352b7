"""Corpora of every format on a real disk: opened as they are, or refused with the name of the file."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nanopace.corpus.shards.corpus import Corpus, find_corpus, open_corpus
from nanopace.corpus.shards.manifest import Manifest, ShardEntry, read_manifest, write_manifest
from nanopace.corpus.tokenizers.tokenizer import bytes_tokenizer, chars
from nanopace.errors import InputError

VOCABULARY = 257
IDS = [256, *b"a first document", 256, *b"and a second one"]


def raw(path: Path, ids: list[int], dtype: str = "<u2") -> None:
    path.write_bytes(np.array(ids, dtype=dtype).tobytes())


def headed(path: Path, ids: list[int], dtype: str = "<u2") -> None:
    header = np.zeros(256, dtype="<i4")
    header[:3] = (20240520, 1, len(ids)) if dtype == "<u2" else (20240801, 7, len(ids))
    path.write_bytes(header.tobytes() + np.array(ids, dtype=dtype).tobytes())


def entry(path: Path) -> ShardEntry:
    data = path.read_bytes()
    ids = np.frombuffer(data, dtype="<u2")
    return ShardEntry(path.name, len(ids), len(ids), hashlib.sha256(data).hexdigest(), int(ids.max(initial=0)), 1)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A corpus as `nanopace prepare` makes it, with two training shards."""
    for name, ids in (("train-00000", IDS), ("train-00001", IDS[:20]), ("val-00000", IDS[:10])):
        raw(tmp_path / f"{name}.bin", ids)
    tokenizer = bytes_tokenizer()
    tokenizer.save(tmp_path)
    train = (entry(tmp_path / "train-00000.bin"), entry(tmp_path / "train-00001.bin"))
    val = (entry(tmp_path / "val-00000.bin"),)
    write_manifest(
        tmp_path, Manifest("tiny", tokenizer.kind, tokenizer.hash, VOCABULARY, "uint16", train, val, complete=True)
    )
    return tmp_path


@pytest.fixture
def nanogpt(tmp_path: Path) -> Path:
    raw(tmp_path / "train.bin", IDS)
    raw(tmp_path / "val.bin", IDS[:10])
    return tmp_path


@pytest.fixture
def llmc(tmp_path: Path) -> Path:
    for name, ids in (("train_000002", IDS[:20]), ("train_000001", IDS), ("val_000000", IDS[:10])):
        headed(tmp_path / f"edu_fineweb_{name}.bin", ids)
    return tmp_path


def tokens(corpus: Corpus) -> tuple[list[int], list[int]]:
    """All tokens, read as windows of one token."""
    found = []
    for split in (corpus.train, corpus.val):
        out = np.empty((split.tokens, 1), dtype=np.int64)
        split.gather(np.arange(split.tokens), 1, out)
        found.append(out[:, 0].tolist())
    return found[0], found[1]


def refused(directory: Path) -> str:
    with pytest.raises(InputError) as error:
        open_corpus(directory)
    assert str(directory) in str(error.value)
    return str(error.value)


# --- formats ---------------------------------------------------------------------------------------------------------


def test_nanopaces_own(own: Path) -> None:
    corpus = open_corpus(own)
    assert (corpus.name, corpus.format, corpus.vocab_size) == ("tiny", "nanopace", VOCABULARY)
    assert corpus.tokenizer.kind == "bytes"
    assert tokens(corpus) == (IDS + IDS[:20], IDS[:10])
    assert [shard.max_id for shard in corpus.train.shards] == [256, 256]


def test_nanogpts(nanogpt: Path) -> None:
    corpus = open_corpus(nanogpt)
    assert (corpus.name, corpus.format, corpus.vocab_size) == (nanogpt.name, "nanogpt", None)
    assert corpus.tokenizer is None
    assert tokens(corpus) == (IDS, IDS[:10])


def test_nanogpts_with_an_alphabet(nanogpt: Path) -> None:
    letters = {"a": 0, "b": 1}
    (nanogpt / "meta.pkl").write_bytes(
        pickle.dumps({"vocab_size": 2, "stoi": letters, "itos": dict(enumerate(letters))})
    )
    corpus = open_corpus(nanogpt)
    assert corpus.vocab_size == 2
    assert corpus.tokenizer.hash == chars("ab").hash


def test_nanogpts_with_a_number_only(nanogpt: Path) -> None:
    (nanogpt / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": 300}))
    corpus = open_corpus(nanogpt)
    assert (corpus.vocab_size, corpus.tokenizer) == (300, None)


def test_a_dangerous_meta_stops_it(nanogpt: Path) -> None:
    (nanogpt / "meta.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    assert "nothing is executed" in refused(nanogpt)


def test_llmcs_in_the_order_of_their_names(llmc: Path) -> None:
    corpus = open_corpus(llmc)
    assert (corpus.name, corpus.format, corpus.vocab_size) == ("edu_fineweb", "llmc", None)
    assert tokens(corpus) == (IDS + IDS[:20], IDS[:10])


def test_llmcs_large_tokens_and_a_corpus_of_one_file(tmp_path: Path) -> None:
    headed(tmp_path / "TinyStories_train.bin", [128_000, 5, 70_000], "<u4")
    headed(tmp_path / "TinyStories_val.bin", [128_000], "<u4")
    assert tokens(open_corpus(tmp_path)) == ([128_000, 5, 70_000], [128_000])


def test_a_header_is_seen_in_nanogpts_names_too(tmp_path: Path) -> None:
    headed(tmp_path / "train.bin", IDS)
    headed(tmp_path / "val.bin", IDS)
    corpus = open_corpus(tmp_path)
    assert corpus.format == "llmc"
    assert tokens(corpus) == (IDS, IDS)


def test_nanogpts_pair_goes_before_other_files(nanogpt: Path) -> None:
    headed(nanogpt / "other_train_000001.bin", [1])
    (nanogpt / "pytorch_model.bin").write_bytes(b"weights")
    assert open_corpus(nanogpt).format == "nanogpt"


# --- what is refused when it is opened -------------------------------------------------------------------------------


def listing(own: Path, **changes: Any) -> None:
    write_manifest(own, replace(read_manifest(own), **changes))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda own: listing(own, complete=False), "is not finished; run nanopace prepare again"),
        (lambda own: os.truncate(own / "train-00000.bin", 67), "train-00000.bin: has"),
        (lambda own: (own / "val-00000.bin").unlink(), "val-00000.bin: is missing"),
        (lambda own: listing(own, val=()), "has no val tokens"),
        (lambda own: raw(own / "none.bin", []) or listing(own, val=(entry(own / "none.bin"),)), "has no val tokens"),
        (lambda own: chars("abc").save(own), "not the one that made these tokens"),
        (lambda own: (own / "tokenizer.json").unlink(), "not the one that made these tokens"),
    ],
)
def test_a_corpus_that_is_not_whole(own: Path, change: Callable[[Path], object], said: str) -> None:
    change(own)
    assert said in refused(own)


def test_an_empty_shard_among_others_is_left_out(own: Path) -> None:
    raw(own / "empty.bin", [])
    manifest = read_manifest(own)
    write_manifest(own, replace(manifest, train=(entry(own / "empty.bin"), *manifest.train)))
    assert tokens(open_corpus(own)) == (IDS + IDS[:20], IDS[:10])


@pytest.mark.parametrize("missing", ["train", "val"])
def test_a_missing_split(missing: str, nanogpt: Path) -> None:
    (nanogpt / f"{missing}.bin").unlink()
    assert f"has no {missing} tokens" in refused(nanogpt)


def test_llmcs_name_without_its_header(llmc: Path) -> None:
    raw(llmc / "edu_fineweb_train_000003.bin", IDS * 50)
    assert "edu_fineweb_train_000003.bin: starts with" in refused(llmc)


def test_several_corpora_in_one_directory(llmc: Path) -> None:
    headed(llmc / "TinyStories_train.bin", IDS)
    assert "contains several corpora (TinyStories, edu_fineweb)" in refused(llmc)


def test_a_directory_without_tokens(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"weights")
    assert "contains no corpus" in refused(tmp_path)
    assert "contains no corpus" in refused(tmp_path / "missing")


def test_a_file_that_cannot_be_read(nanogpt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path, *_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", denied)
    assert "train.bin: cannot be read: Permission denied" in refused(nanogpt)


# --- what is refused before training ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["own", "nanogpt", "llmc"])
def test_a_corpus_that_can_be_trained_on(kind: str, request: pytest.FixtureRequest) -> None:
    open_corpus(request.getfixturevalue(kind)).check(VOCABULARY, block_size=9)


@pytest.mark.parametrize("kind", ["own", "nanogpt", "llmc"])
def test_a_token_beyond_the_vocabulary(kind: str, request: pytest.FixtureRequest) -> None:
    corpus = open_corpus(request.getfixturevalue(kind))
    with pytest.raises(InputError) as error:
        corpus.check(256, block_size=9)
    path = corpus.train.shards[0].path
    assert str(error.value) == f"{path}: token 0 is 256, but the model's vocabulary ends at 255; set vocab_size"


def test_the_first_such_token_is_named(nanogpt: Path) -> None:
    raw(nanogpt / "val.bin", [1] * 5000 + [300, 2, 400])
    with pytest.raises(InputError, match=r"val\.bin: token 5000 is 300,"):
        open_corpus(nanogpt).check(VOCABULARY, block_size=8)


def test_what_the_manifest_knows_is_not_looked_up(own: Path) -> None:
    corpus = open_corpus(own)
    (own / "train-00000.bin").write_bytes(b"\xff" * 2 * len(IDS))
    corpus.check(VOCABULARY, block_size=9)


def test_nor_is_what_cannot_be(nanogpt: Path) -> None:
    corpus = open_corpus(nanogpt)
    (nanogpt / "train.bin").unlink()
    corpus.check(1 << 16, block_size=9)


@pytest.mark.parametrize(("block_size", "fits"), [(9, True), (10, False), (100, False)])
def test_a_corpus_shorter_than_a_block(block_size: int, fits: bool, nanogpt: Path) -> None:
    corpus = open_corpus(nanogpt)
    if fits:
        corpus.check(VOCABULARY, block_size)
    else:
        with pytest.raises(InputError) as error:
            corpus.check(VOCABULARY, block_size)
        assert f"{nanogpt}: too few " in str(error.value)
        assert f"block_size = {block_size} needs one more" in str(error.value)


# --- names and fingerprints ------------------------------------------------------------------------------------------


def test_a_corpus_is_found_by_path_and_by_name(nanogpt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_corpus(str(nanogpt)) == nanogpt
    (nanogpt / "data").mkdir()
    monkeypatch.chdir(nanogpt)
    hint = "shakespeare: no such corpus; create one from your own text with: nanopace prepare"
    with pytest.raises(InputError, match=f"{hint} FILE$"):
        find_corpus("shakespeare")
    (nanogpt / "shakespeare").mkdir()  # somebody's texts: no tokens in it
    with pytest.raises(InputError, match=f"{hint} shakespeare$"):
        find_corpus("shakespeare")
    (nanogpt / "data" / "shakespeare").mkdir()
    raw(nanogpt / "data" / "shakespeare" / "train.bin", IDS)
    assert find_corpus("shakespeare") == Path("data/shakespeare")


def test_own_corpora_are_found_by_their_manifest(own: Path) -> None:
    assert find_corpus(str(own)) == own


@pytest.mark.parametrize("kind", ["own", "nanogpt", "llmc"])
def test_a_fingerprint_goes_with_the_data(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    directory: Path = request.getfixturevalue(kind)
    before = open_corpus(directory).fingerprint
    assert open_corpus(directory).fingerprint == before
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in directory.glob("*.*"):
        path.rename(moved / path.name)
    assert open_corpus(moved).fingerprint == before


@pytest.mark.parametrize("kind", ["nanogpt", "llmc"])
def test_other_data_has_another_fingerprint(kind: str, request: pytest.FixtureRequest) -> None:
    directory: Path = request.getfixturevalue(kind)
    corpus = open_corpus(directory)
    before = corpus.fingerprint
    path = corpus.val.shards[0].path
    data = bytearray(path.read_bytes())
    data[-1] ^= 1  # the same length, but another token
    path.write_bytes(data)
    assert open_corpus(directory).fingerprint != before


def test_other_hashes_make_another_fingerprint(own: Path) -> None:
    before = open_corpus(own).fingerprint
    manifest = read_manifest(own)
    write_manifest(own, replace(manifest, val=(replace(manifest.val[0], sha256="0" * 64),)))
    assert open_corpus(own).fingerprint != before
