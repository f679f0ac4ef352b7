"""llm.c's header: the file contains what it promises, or is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.corpus.shards.llmc_shards import has_header, headed_shard
from nanopace.corpus.shards.manifest import Dtype
from nanopace.errors import InputError

UINT16 = (20240520, 1)
UINT32 = (20240801, 7)


def headed(magic: int, version: int, count: int, tokens: bytes) -> bytes:
    header = np.zeros(256, dtype="<i4")
    header[:3] = magic, version, count
    return header.tobytes() + tokens


@pytest.mark.parametrize(("kind", "dtype", "ids"), [(UINT16, "uint16", [50256, 1]), (UINT32, "uint32", [128_000, 1])])
def test_tokens_come_after_the_header(kind: tuple[int, int], dtype: Dtype, ids: list[int], tmp_path: Path) -> None:
    path = tmp_path / "edu_train_000001.bin"
    path.write_bytes(headed(*kind, len(ids), np.array(ids, dtype=np.dtype(dtype).newbyteorder("<")).tobytes()))
    assert has_header(path)
    shard = headed_shard(path)
    assert (shard.tokens, shard.dtype, shard.offset) == (2, dtype, 1024)
    assert shard.read(0, shard.tokens).tolist() == ids


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (headed(*UINT16, 1, b"")[:1000], "has 1000 bytes, less than an llm.c header"),
        (headed(20240522, 1, 1, b"\0\0"), "starts with 20240522, version 1"),
        (headed(20240520, 2, 1, b"\0\0"), "starts with 20240520, version 2"),
        (headed(20240520, 7, 1, b"\0\0"), "starts with 20240520, version 7"),
        (headed(*UINT16, 2, b"\0\0"), "promises 2 tokens, or 1028 bytes, but it has 1026"),
        (headed(*UINT16, 1, b"\0\0\0"), "promises 1 tokens, or 1026 bytes, but it has 1027"),
        (headed(*UINT32, 1, b"\0\0"), "promises 1 tokens, or 1028 bytes"),
        (headed(*UINT16, 0, b""), "promises 0 tokens"),
        (headed(*UINT16, -1, b""), "promises -1 tokens"),
    ],
)
def test_a_file_that_is_not_what_it_says_is_refused(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "edu_train_000001.bin"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message) as error:
        headed_shard(path)
    assert str(path) in str(error.value)


@given(st.binary(max_size=1100), st.booleans())
def test_no_bytes_break_the_reading(tmp_path_factory: pytest.TempPathFactory, data: bytes, magic: bool) -> None:
    path = tmp_path_factory.mktemp("llmc") / "a_train.bin"
    path.write_bytes(headed(*UINT16, 1, b"")[:12] + data if magic else data)
    try:
        shard = headed_shard(path)
    except InputError:
        return
    assert len(shard.read(0, shard.tokens)) == shard.tokens


def test_raw_tokens_have_no_header(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    for tokens in ([], [1], [50256] * 600):
        path.write_bytes(np.array(tokens, dtype="<u2").tobytes())
        assert not has_header(path)
