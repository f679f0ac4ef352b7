from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from nanopace.corpus.prepare.shard_writer import OpenShard, SplitWriter
from nanopace.errors import InputError


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
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train-00000.bin.part", "train-00001.bin.part"]
    split.finish()
    split.publish()
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
    split.sync()  # which is nothing any more
    split.close()


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
    split.finish()
    split.publish()
    assert split.finished == []
    assert list(tmp_path.iterdir()) == []


def test_what_the_journal_does_not_know_is_cut_off(tmp_path: Path) -> None:
    split = writer(tmp_path)
    split.add(ids(1, 2), 2, begins=True)
    split.sync()
    known = split.begun()
    split.add(ids(3, 4, 5), 3, begins=True)
    split.add(ids(6, 7), 2, begins=True)  # in a second shard
    split.sync()
    split.close()
    again = SplitWriter(tmp_path, "train", "uint16", shard_tokens=5, end_of_text=9, begun=known)
    again.add(ids(8, 8, 8), 3, begins=True)
    again.add(ids(7), 1, begins=True)
    again.finish()
    again.publish()
    assert tokens(tmp_path / "train-00000.bin") == [9, 1, 2, 9, 8, 8, 8]
    assert tokens(tmp_path / "train-00001.bin") == [9, 7]


def test_names_are_given_after_the_journal_by_the_next_run_too(tmp_path: Path) -> None:
    split = writer(tmp_path, shard_tokens=1)
    split.add(ids(1), 1, begins=True)
    split.add(ids(2), 1, begins=True)
    split.sync()
    split.close()
    assert not (tmp_path / "train-00000.bin").exists()
    SplitWriter(
        tmp_path, "train", "uint16", shard_tokens=1, end_of_text=9, finished=tuple(split.finished), begun=split.begun()
    ).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train-00000.bin", "train-00001.bin.part"]


def test_a_file_that_lacks_something(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"train-00000\.bin\.part: is damaged; start anew with --restart"):
        SplitWriter(tmp_path, "train", "uint16", shard_tokens=5, end_of_text=9, begun=OpenShard(tokens=3))
