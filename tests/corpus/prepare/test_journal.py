from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nanopace.corpus.prepare.journal import JOURNAL, Counts, Journal, Place
from nanopace.corpus.prepare.shard_writer import OpenShard
from nanopace.corpus.shards.manifest import ShardEntry
from nanopace.errors import InputError

ENTRY = ShardEntry("train-00000.bin", 10, 20, "0" * 64, 7, 2)
FULL = replace(
    Journal.new("print", "hash"),
    place=Place(3, 5, True),
    counts=Counts(1, 2, 3),
    seen=4,
    finished={"train": (ENTRY,), "val": ()},
    begun={"train": OpenShard(1, 2, 3, 4), "val": OpenShard()},
)


def test_there_and_back(tmp_path: Path) -> None:
    assert Journal.read(tmp_path) is None
    for journal in (Journal.new("print", "hash"), FULL):
        journal.write(tmp_path)
        assert Journal.read(tmp_path) == journal


@pytest.mark.parametrize(
    "change",
    [
        {"place": {"file": 1}},
        {"place": [1, 2]},
        {"place": {"file": 1, "pieces": 1, "dropping": 1}},
        {"place": {"file": 1, "pieces": 1, "dropping": True, "more": 1}},
        {"seen": "many"},
        {"finished": {"train": [{"file": "x"}], "val": []}},
        {"begun": None},
    ],
)
def test_a_damaged_journal(tmp_path: Path, change: dict[str, Any]) -> None:
    FULL.write(tmp_path)
    path = tmp_path / JOURNAL
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=r"prepare\.json: is damaged; start anew with --restart"):
        Journal.read(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_no_journal_at_all(tmp_path: Path, content: bytes) -> None:
    (tmp_path / JOURNAL).write_bytes(content)
    with pytest.raises(InputError, match="is damaged"):
        Journal.read(tmp_path)
