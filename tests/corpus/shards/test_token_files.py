"""Windows are read as they were written, whatever the files look like."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.corpus.shards.manifest import Dtype
from nanopace.corpus.shards.token_files import Shard, Split
from nanopace.errors import InputError

DTYPES: tuple[Dtype, Dtype] = ("uint16", "uint32")


def write(directory: Path, name: str, tokens: list[int], dtype: Dtype = "uint16", header: bytes = b"") -> Shard:
    path = directory / name
    path.write_bytes(header + np.array(tokens, dtype=np.dtype(dtype).newbyteorder("<")).tobytes())
    return Shard(path, len(tokens), dtype, len(header))


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 65535), min_size=1, max_size=40), st.sampled_from(DTYPES), st.integers(0, 9)),
        min_size=1,
        max_size=4,
    ),
    st.data(),
)
def test_windows_are_the_tokens_of_one_shard(
    tmp_path_factory: pytest.TempPathFactory, shards: list[tuple[list[int], Dtype, int]], data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("split")
    split = Split(
        write(directory, f"{number}.bin", tokens, dtype, b"x" * header)
        for number, (tokens, dtype, header) in enumerate(shards)
    )
    everything = [token for tokens, _, _ in shards for token in tokens]
    assert split.tokens == len(everything)
    length = data.draw(st.integers(1, min(len(tokens) for tokens, _, _ in shards)))
    allowed = [
        int(first) + begin
        for first, (tokens, _, _) in zip(split.first, shards, strict=False)
        for begin in range(len(tokens) - length + 1)
    ]
    starts = data.draw(st.lists(st.sampled_from(allowed), max_size=6))
    for dtype in (np.int64, np.int32, np.uint16):
        out = np.zeros((len(starts), length + 2), dtype=dtype)  # a wider array keeps what lies beyond
        split.gather(np.array(starts, dtype=np.int64), length, out)
        assert out[:, :length].tolist() == [everything[start : start + length] for start in starts]
        assert not out[:, length:].any()


def test_large_ids_are_kept(tmp_path: Path) -> None:
    split = Split([write(tmp_path, "a.bin", [128_255, 70_000, 3], "uint32")])
    for dtype in (np.int64, np.int32):
        out = np.empty((1, 3), dtype=dtype)
        split.gather(np.array([0]), 3, out)
        assert out.tolist() == [[128_255, 70_000, 3]]


def test_rows_and_starts_must_be_as_many(tmp_path: Path) -> None:
    split = Split([write(tmp_path, "a.bin", [1, 2, 3])])
    with pytest.raises(ValueError, match="longer"):
        split.gather(np.array([0, 1]), 1, np.empty((1, 1), dtype=np.int64))


@pytest.mark.parametrize(("start", "length"), [(2, 2), (2, 5), (0, 4), (5, 2), (1, 3)])
def test_a_window_does_not_reach_into_the_next_shard(start: int, length: int, tmp_path: Path) -> None:
    split = Split([write(tmp_path, "a.bin", [1, 2, 3]), write(tmp_path, "b.bin", [4, 5, 6])])
    with pytest.raises(AssertionError, match="one shard"):
        split.gather(np.array([start]), length, np.empty((1, length), dtype=np.int64))


def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    split = Split([write(tmp_path, "a.bin", [1, 2]), Shard(tmp_path / "missing.bin", 5, "uint16")])
    out = np.empty((1, 2), dtype=np.int64)
    split.gather(np.array([0]), 2, out)
    assert out.tolist() == [[1, 2]]
    with pytest.raises(InputError, match=r"missing\.bin: can no longer be read: No such file"):
        split.gather(np.array([2]), 2, out)
