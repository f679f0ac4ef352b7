"""Documents from every kind of file, intact and broken."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from nanopace.corpus.documents import read as module
from nanopace.corpus.documents.pieces import pieces_of
from nanopace.corpus.documents.read import documents
from nanopace.errors import InputError

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": zstandard.ZstdCompressor().compress,
}
ROWS = ["first", "second\nline", "", "dritte Zeile äöü 😀", "last"]


def texts(path: Path, field: str = "text") -> list[str]:
    return ["".join(piece.text for piece in pieces_of(document)) for document in documents(path, field)]


def json_lines(rows: list[str]) -> bytes:
    return "".join(json.dumps({"id": 1, "text": row}) + "\n" for row in rows).encode()


# --- text ------------------------------------------------------------------------------------------------------------


def test_a_text_is_one_document(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\r\ntwo\n")
    assert texts(path) == ["one\ntwo\n"]
    path.write_bytes(b"")
    assert texts(path) == [""]


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_compressed_whatever_its_name(kind: str, tmp_path: Path) -> None:
    text = b"".join(b"line %d\n" % number for number in range(50_000))
    packed = COMPRESSORS[kind](text)
    path = tmp_path / "a.txt"
    path.write_bytes(packed)
    assert texts(path) == [text.decode()]
    path.write_bytes(packed + COMPRESSORS[kind](b"more"))
    assert texts(path) == [text.decode() + "more"]
    path.write_bytes(packed[: len(packed) * 3 // 4])
    with pytest.raises(InputError, match=r"a\.txt: (is truncated; download it again|cannot be read: Truncated)"):
        texts(path)
    path.write_bytes(packed[:6] + b"\xff" * 500)
    with pytest.raises(InputError, match=r"a\.txt: (cannot be read|is cut off)"):
        texts(path)


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.txt: cannot be read: No such file"):
        texts(tmp_path / "none.txt")
    with pytest.raises(InputError, match="cannot be read"):
        texts(Path("a\0b"))


# --- JSONL -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["", ".gz", ".xz", ".bz2", ".zst"])
def test_rows_of_json(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.jsonl{kind}"
    data = json_lines(ROWS)
    path.write_bytes(COMPRESSORS[kind[1:]](data) if kind else data)
    assert texts(path) == ROWS
    places = [document.at() for document in documents(path)]
    assert places == sorted(places)
    assert places[-1] == path.stat().st_size


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=30), max_size=5))
def test_every_text_comes_back(rows: list[str]) -> None:
    found = module._json_lines(io.BytesIO(json_lines(rows)), "x", "text", lambda: 0)
    assert [document.content.decode() for document in found if isinstance(document.content, bytes)] == rows


def test_empty_lines_and_nulls_are_no_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\n  \n{"text": null}\r\n{"text": "a"}')
    assert texts(path) == ["a"]


def test_rows_that_are_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "\xff."}\n{"text": "\\ud800."}\n{"text": "\\ud83d\\ude00"}\n')
    assert [text.lstrip("\ufffd") for text in texts(path)] == [".", ".", "😀"]
    replaced = [piece.replaced > 0 for document in documents(path) for piece in pieces_of(document)]
    assert replaced == [True, True, False]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 2 is not a JSON object"),
        ("[1]", "line 2 is not a JSON object"),
        ("[" * 100_000, "line 2 is not a JSON object"),
        (
            '{"a": 1, "body": 2}',
            r"line 2 has no 'text'; use --text_field to name the field with the text: 'a', 'body'$",
        ),
        (json.dumps(dict.fromkeys("abcdefghij")), r".*the field with the text: 'a', .* 'h', \.\.\.$"),
        ('{"text": 5}', "line 2: 'text' is not text"),
    ],
)
def test_bad_rows_are_named_by_their_line(line: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "good"}\n' + line + "\n")
    with pytest.raises(InputError, match=r"a\.jsonl: " + complaint):
        texts(path)


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST_ROW", 100)
    path = tmp_path / "a.jsonl"
    path.write_bytes(json_lines(["a" * 50, "b" * 200]))
    with pytest.raises(InputError, match="line 2 is longer than 32 MB"):
        texts(path)


def test_another_field(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_text('{"body": "x"}\n')
    assert texts(path, "body") == ["x"]


# --- archives --------------------------------------------------------------------------------------------------------


def archive(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def test_an_archive_is_read_and_never_unpacked(tmp_path: Path) -> None:
    folder = tmp_path / "deep"
    folder.mkdir()
    path = archive(
        folder / "a.zip",
        {
            "../../evil.txt": b"up",
            "/etc/passwd.txt": b"root",
            "b.jsonl": json_lines(["one", "two"]),
            "c.md.gz": gzip.compress(b"packed"),
            "picture.png": b"\0",
            "folder/": b"",
            "__MACOSX/b.txt": b"junk",
            "d/deep.py": b"pass\n",
        },
    )
    assert texts(path) == ["up", "root", "one", "two", "packed", "pass\n"]
    assert [path.name for path in tmp_path.rglob("*")] == ["deep", "a.zip"]
    assert 0 < [document.at() for document in documents(path)][-1] <= path.stat().st_size


def test_a_member_without_a_name_is_passed_over(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", {"b.txt": b"text"})
    data = path.read_bytes().replace(b"b.txt", b"\0.txt")  # names end at a NUL
    path.write_bytes(data)
    assert texts(path) == []


def test_a_member_whose_name_is_no_text(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", {"é.txt": b"text"})
    path.write_bytes(path.read_bytes().replace("é".encode(), b"\xff\xff"))
    with pytest.raises(InputError, match=r"a\.zip: cannot be read"):
        texts(path)


def test_an_archive_without_members(tmp_path: Path) -> None:
    assert texts(archive(tmp_path / "a.zip", {})) == []


def test_a_bomb_is_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path / "a.zip", {"bomb.txt": b"boom " * 4_000_000})  # 20 MB in 20 kB
    monkeypatch.setattr("nanopace.corpus.documents.pieces._IN_MEMORY", 1 << 20)
    sizes = [piece.size for document in documents(path) for piece in pieces_of(document)]
    assert sum(sizes) == 20_000_000
    assert max(sizes) <= 1 << 20


def test_broken_archives(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", {"b.txt": b"some text that is long enough " * 20})
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    with pytest.raises(InputError, match=r"a\.zip: cannot be read"):
        texts(path)
    broken = bytearray(whole)
    broken[45] ^= 0xFF
    path.write_bytes(broken)
    with pytest.raises(InputError, match=r"a\.zip: b\.txt: cannot be read"):
        texts(path)


def test_an_encrypted_member(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", {"b.txt": b"text"})
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"a\.zip: b\.txt: is encrypted"):
        texts(path)


# --- parquet ---------------------------------------------------------------------------------------------------------


def test_rows_of_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"id": list(range(300)), "text": [*ROWS, None, *["x"] * 294]})
    pq.write_table(table, path, row_group_size=70)
    assert texts(path) == [*ROWS, *["x"] * 294]
    places = [document.at() for document in documents(path)]
    assert places == sorted(places)
    assert places[-1] == path.stat().st_size
    renamed = path.rename(tmp_path / "without-suffix")
    assert len(texts(renamed)) == 299


def test_parquet_that_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    broken = pa.array([b"a\xff"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": broken}), path)
    assert texts(path) == ["a\ufffd"]


def test_the_other_type_of_text(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": pa.array(["a", "b"], pa.large_string())}), path)
    assert texts(path) == ["a", "b"]


def test_bad_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"body": ["x"], "number": [1]}), path)
    with pytest.raises(InputError, match=r"has no column 'text'; use --text_field .*: 'body', 'number'$"):
        texts(path)
    with pytest.raises(InputError, match="column 'number' is not text"):
        texts(path, "number")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"a\.parquet: cannot be read: [^\n]+$"):
        texts(path)


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"needs pyarrow: pip install nanopace\[train\]"):
        texts(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x")
    path.chmod(0)
    with pytest.raises(InputError, match="Permission denied"):
        texts(path)


def test_a_page_of_parquet_is_looked_at_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    from nanopace.corpus.documents.parquet import texts_of_parquet

    for name, text in (("dense", "a" * (40 << 20)), ("large", "".join(map(str, range(2000))))):
        table = pa.table({"text": [text]})
        pq.write_table(table, tmp_path / name, compression="zstd", use_dictionary=False, write_statistics=False)
    monkeypatch.delattr("pyarrow.parquet.ParquetFile.iter_batches")
    with pytest.raises(InputError, match="dense: unpacks to more than 500 times its size"):
        list(texts_of_parquet(tmp_path / "dense", "text"))
    monkeypatch.setattr("nanopace.corpus.documents.parquet._LARGEST_PAGE", 5000)
    with pytest.raises(InputError, match="large: has a 0 MB page"):
        list(texts_of_parquet(tmp_path / "large", "text"))
