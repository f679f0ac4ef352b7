"""Files that an attacker would send."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import torch
import zstandard

MARK = "the-file-that-a-bomb-would-leave"
ROW = b"iter 0: loss 4.0000, time 100.00ms, mfu 10.00%\n"
_LUMP = b" " * (4 << 20)
_LUMPS = 1024  # 4 GB in all, from less than a few MB


class Bomb:
    """Unpickling it runs a command."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {MARK}",)


class EvalBomb:
    """The same with Python's own means."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return eval, (f"open({MARK!r}, 'w')",)


def torch_bomb(path: Path, *, archive: bool = True) -> None:
    torch.save({"model": Bomb(), "model_args": EvalBomb()}, path, _use_new_zipfile_serialization=archive)


def pickle_in_zip(path: Path) -> None:
    """As torch.save lays it out, but the pickle is not torch's."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Bomb(), 2))
        archive.writestr("archive/version", "3\n")


def zip_bomb(path: Path, name: str) -> None:
    """64 MB from 64 kB: torch would read all of it, and trusts the length in the header."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(name, "w") as file:
        for _ in range(16):
            file.write(_LUMP)


PACKERS = {"gz": gzip.compress, "zst": zstandard.ZstdCompressor().compress, "xz": lzma.compress, "bz2": bz2.compress}


def bombs(directory: Path, name: str, start: bytes, kinds: Iterable[str] = PACKERS) -> list[str]:
    """Write `start` followed by gigabytes of spaces, compressed in every way; return the names."""
    for kind in kinds:
        pack = PACKERS[kind]
        (directory / f"{name}.{kind}").write_bytes(pack(start) + pack(_LUMP) * _LUMPS)
    return [f"{name}.{kind}" for kind in kinds]


def greedy(directory: Path, name: str) -> list[str]:
    """Small files whose headers ask for gigabytes of memory: the window of a zst, the dictionary of an xz."""
    frame = b"\x28\xb5\x2f\xfd" + bytes([0b0000_0000, (41 - 10) << 3]) + struct.pack("<I", 1 | 2 << 1 | 9 << 3)[:3]
    (directory / f"{name}.zst").write_bytes(frame + b" ")
    (directory / f"{name}.xz").write_bytes(_with_a_large_dictionary(lzma.compress(ROW)))
    return [f"{name}.zst", f"{name}.xz"]


def _with_a_large_dictionary(data: bytes) -> bytes:
    """A block header with 4 GB and a corrected checksum: compressing with such a dictionary would need that much."""
    size = (data[12] + 1) * 4
    header = bytearray(data[12 : 12 + size - 4])
    header[header.index(b"\x21\x01") + 2] = 40
    return data[:12] + bytes(header) + zlib.crc32(header).to_bytes(4, "little") + data[12 + size :]


def safetensors(path: Path, header: bytes, values: int = 16, *, length: int | None = None) -> None:
    path.write_bytes((len(header) if length is None else length).to_bytes(8, "little") + header + bytes(values))


def tensor(begin: int, end: int, shape: list[int]) -> dict[str, object]:
    return {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}


LYING_HEADERS: dict[str, tuple[bytes, int | None]] = {
    "longer than everything": (b"{}", 1 << 60),
    "longer than the file": (b"{}", 4096),
    "beyond the end": (json.dumps({"a": tensor(0, 1 << 50, [1 << 48])}).encode(), None),
    "overlapping": (json.dumps({"a": tensor(0, 16, [4]), "b": tensor(8, 16, [2])}).encode(), None),
    "backwards": (json.dumps({"a": tensor(16, 0, [4])}).encode(), None),
    "negative": (b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[-16,0]}}', None),
    "a shape that overflows": (json.dumps({"a": tensor(0, 16, [1 << 62, 8])}).encode(), None),
    "the same name twice": (
        b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
        None,
    ),
    "nested": (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", None),
}


def parquet_bombs(directory: Path) -> list[str]:
    """Kilobytes for which a parquet reader takes gigabytes."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    def referred(megabytes: int) -> pa.Array:
        long_text = pa.array(["a" * (megabytes << 20)])
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(10_000, dtype=np.int32)), long_text)

    def write(name: str, column: pa.Array, **options: object) -> None:
        pq.write_table(
            pa.table({"text": column}),
            directory / name,
            compression="zstd",
            store_schema=False,
            write_statistics=False,
            **options,
        )

    long = "a" * (1 << 20)
    write("one-long-text.parquet", referred(50))
    write("one-text.parquet", referred(20))
    write("pages.parquet", pa.array(["a" * (100 << 20)]), use_dictionary=False)
    prefixes = {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}}
    write("prefixes.parquet", pa.array([f"{long}{number}" for number in range(100)]), **prefixes)
    write("nothing.parquet", pa.nulls(5_000_000, pa.string()))
    write("empty.parquet", pa.array([""] * 1_500_000))
    return sorted(path.name for path in directory.glob("*.parquet"))


def overlapping_zip(path: Path, members: int = 200) -> None:
    """Many members, all in the same bytes."""
    content = b"some text " * 200_000
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", content)
    data = path.read_bytes()
    at = data.index(b"PK\x01\x02")
    entry, end = data[at : data.index(b"PK\x05\x06")], bytearray(data[data.index(b"PK\x05\x06") :])
    end[8:12] = struct.pack("<HH", members, members)
    end[12:16] = struct.pack("<I", len(entry) * members)
    path.write_bytes(data[:at] + entry * members + bytes(end))


def many_little_zip_bombs(path: Path) -> None:
    """Each member is harmless, but all together are not; one is compressed twice."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(8):
            archive.writestr(f"{number}.txt", b" " * (30 << 20))


def zip_of_gz(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt.gz", gzip.compress(b" " * (4 << 20)) * 100)
