"""Which files are read: named ones always, others by suffix."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nanopace.corpus.documents.inputs import find_inputs, holds_text, is_json_lines
from nanopace.errors import InputError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "b.txt", "a.jsonl.zst", "deep/er/c.PY", "deep/d.parquet", "e.zip", "f.md.gz",
        ".hidden/g.txt", ".h.txt", "__pycache__/i.py", "node_modules/j.js", "k.bin", "l.gz", "m",
    ):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (tmp_path / "deep" / "loop").symlink_to(tmp_path)
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.txt")
    return tmp_path


def names(folder: Path, *arguments: str) -> list[str]:
    return [str(path.relative_to(folder)) for path in find_inputs([str(folder / each) for each in arguments])]


def test_a_directory(folder: Path) -> None:
    assert names(folder, "") == ["a.jsonl.zst", "b.txt", "deep/d.parquet", "deep/er/c.PY", "e.zip", "f.md.gz"]


def test_named_files_in_their_order_and_once(folder: Path) -> None:
    assert names(folder, "m", "b.txt", "k.bin", "m") == ["m", "b.txt", "k.bin"]
    assert names(folder, "deep", "deep/d.parquet") == ["deep/d.parquet", "deep/er/c.PY"]


def test_patterns(folder: Path) -> None:
    assert names(folder, "[bk].*") == ["b.txt", "k.bin"]
    assert names(folder, "deep/**") == ["deep/d.parquet"] or "deep/er/c.PY" in names(folder, "deep/**")
    assert names(folder, "dee?") == ["deep/d.parquet", "deep/er/c.PY"]
    strange = folder / "a[1].txt"
    strange.write_text("x")
    assert names(folder, "a[1].txt") == ["a[1].txt"]  # a file of that name takes precedence over the pattern


def test_what_is_not_there(folder: Path) -> None:
    with pytest.raises(InputError, match=r"none\.txt: there is no file or corpus of that name"):
        names(folder, "none.txt")
    with pytest.raises(InputError, match=r"\*\.none: no file matches"):
        names(folder, "*.none")
    for impossible in ("a\0b", "a\0*", "x" * 5000):
        with pytest.raises(InputError, match="there is no file"):
            find_inputs([impossible])


def test_a_directory_without_text(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("x")
    with pytest.raises(InputError, match=r"contains no text, \.jsonl, \.parquet or \.zip"):
        find_inputs([str(tmp_path)])


def test_members_of_archives() -> None:
    assert holds_text("../../etc/a.txt")
    assert holds_text("/a.jsonl.gz")
    assert not any(map(holds_text, ("a.zip", "b.parquet", "__MACOSX/c.txt", ".d.txt", ".git/e.txt", "f", "g.png")))
    assert is_json_lines("a.NDJSON.xz")
    assert not is_json_lines("jsonl.txt")
