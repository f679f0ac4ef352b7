from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nanopace.corpus.prepare.provenance import PROVENANCE, Counts, Provenance
from nanopace.errors import InputError

FULL = Provenance("print", "hash", Counts(1, 2, 3))


def test_there_and_back(tmp_path: Path) -> None:
    assert Provenance.read(tmp_path) is None
    for provenance in (Provenance("print", "hash"), FULL):
        provenance.write(tmp_path)
        assert Provenance.read(tmp_path) == provenance


@pytest.mark.parametrize(
    "change",
    [{"fingerprint": 1}, {"tokenizer_hash": None}, {"counts": [1, 2, 3]}, {"counts": {"documents": 1}}],
)
def test_a_damaged_file(tmp_path: Path, change: dict[str, Any]) -> None:
    FULL.write(tmp_path)
    path = tmp_path / PROVENANCE
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=r"prepare\.json: is damaged; start over with --restart"):
        Provenance.read(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_no_description_at_all(tmp_path: Path, content: bytes) -> None:
    (tmp_path / PROVENANCE).write_bytes(content)
    with pytest.raises(InputError, match="is damaged"):
        Provenance.read(tmp_path)
