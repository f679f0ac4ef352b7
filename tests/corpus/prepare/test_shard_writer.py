from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from nanopace.corpus.documents.pieces import Piece
from nanopace.corpus.prepare.shard_writer import SplitWriter


def ids(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.uint16)


def writer(folder: Path, shard_tokens: int = 5, end_of_text: int | None = 9) -> SplitWriter:
    return SplitWriter(folder, "train", "uint16", shard_tokens=shard_tokens, end_of_text=end_of_text)


def tokens(path: Path) -> list[int]:
    return np.fromfile(path, "<u2").tolist()


def test_a_shard_ends_with_the_document_that_fills_it(tmp_path: Path) -> None:
    split = writer(tmp_path)
    split.add(ids(1, 2), 20, begins=True)
    split.add(ids(3, 4), 10, begins=True)  # six tokens: full
    split.add(ids(5), 1, begins=True)
    assert split.tokens == 8
    split.flush()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train-00000.bin", "train-00001.bin.part"]
    split.finish()
    assert tokens(tmp_path / "train-00000.bin") == [9, 1, 2, 9, 3, 4]
    assert tokens(tmp_path / "train-00001.bin") == [9, 5]
    first, second = split.finished
    assert (first.file, first.tokens, first.text_bytes, first.max_id, first.documents) == (
        "train-00000.bin",
        6,
        30,
        9,
        2,
    )
    assert first.sha256 == hashlib.sha256((tmp_path / first.file).read_bytes()).hexdigest()
    assert (second.tokens, second.documents) == (2, 1)


def test_a_long_document_fills_several(tmp_path: Path) -> None:
    split = writer(tmp_path, end_of_text=None)
    for begins in (True, False, False):
        split.add(ids(1, 2, 3, 4, 5), 5, begins=begins)
    split.finish()
    assert [(entry.tokens, entry.documents, entry.max_id) for entry in split.finished] == [
        (5, 1, 5),
        (5, 0, 5),
        (5, 0, 5),
    ]


def test_an_empty_split_leaves_nothing(tmp_path: Path) -> None:
    split = writer(tmp_path)
    split.add(ids(), 0, begins=False)
    split.finish()
    assert split.finished == []
    assert list(tmp_path.iterdir()) == []


def piece(size: int, *, begins: bool = True) -> Piece:
    return Piece("", size, begins, 0, None, 0, 0)


def test_what_is_in_finished_shards_is_skipped(tmp_path: Path) -> None:
    first = writer(tmp_path)
    for length, begins in ((2, True), (0, True), (3, True), (2, False), (1, True)):
        first.add(ids(*[1] * length), length, begins=begins)
    first.close()
    [finished] = first.finished  # 9 1 1, 9, 9 1 1 1: what follows, a long document's second piece, is not in it
    again = SplitWriter(tmp_path, "train", "uint16", shard_tokens=5, end_of_text=9, finished=[finished])
    assert again.tokens == 8
    assert not again.skipped_exactly
    pieces = [piece(2), piece(0), piece(3), piece(2, begins=False), piece(0), piece(1)]
    assert [again.skip(each) for each in pieces] == [True, True, True, False, False, False]
    assert again.skipped_exactly


def test_a_file_that_is_there_already_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "train-00000.bin.part").write_bytes(b"mine")
    split = writer(tmp_path)
    split.add(ids(1), 1, begins=True)
    with pytest.raises(FileExistsError):
        split.flush()
    assert (tmp_path / "train-00000.bin.part").read_bytes() == b"mine"
