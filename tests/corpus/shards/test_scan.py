"""Scanning complete files gives the same result as looking at every token."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.corpus.shards import scan
from nanopace.corpus.shards.scan import first_beyond, positions_of
from nanopace.corpus.shards.token_files import Shard

tokens = st.lists(st.integers(0, 20), min_size=1, max_size=60)


def write(path: Path, ids: list[int]) -> Shard:
    path.write_bytes(np.array(ids, dtype="<u2").tobytes())
    return Shard(path, len(ids), "uint16")


@given(tokens, st.integers(0, 21), st.integers(1, 70))
def test_both_scans_are_those_of_python(
    tmp_path_factory: pytest.TempPathFactory, ids: list[int], wanted: int, piece: int
) -> None:
    shard = write(tmp_path_factory.mktemp("scan") / "a.bin", ids)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "_PIECE", piece)
        beyond = first_beyond(shard, wanted)
        positions = positions_of(shard, wanted)
    assert beyond == next(((place, each) for place, each in enumerate(ids) if each >= wanted), None)
    assert positions.dtype == np.int64
    assert positions.tolist() == [place for place, each in enumerate(ids) if each == wanted]
