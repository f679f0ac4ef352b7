"""A page is written completely or not at all, and never over something else."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from nanopace.cli.html import check_target, write_page
from nanopace.errors import InputError

PAGE = "<!doctype html><p>à bientôt"


def test_a_new_page_an_old_page_and_an_empty_file(tmp_path: Path) -> None:
    for before in (None, PAGE, "  <HTML>", ""):
        target = tmp_path / "page.html"
        if before is not None:
            target.write_text(before)
        check_target(str(target))
        write_page(str(target), PAGE)
        assert target.read_text(encoding="utf-8") == PAGE
        assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize("content", [b"iter 0: loss 4.0, time 100.00ms\n", b"batch_size = 8\n", b"\x1f\x8b\x08"])
def test_whatever_is_no_page_stays(content: bytes, tmp_path: Path) -> None:
    target = tmp_path / "train.log"
    target.write_bytes(content)
    with pytest.raises(InputError, match="was not overwritten"):
        check_target(str(target))


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.html").write_text(PAGE)
    (tmp_path / "latest.html").symlink_to("real.html")
    write_page(str(tmp_path / "latest.html"), "<html>new")
    assert (tmp_path / "latest.html").is_symlink()
    assert (tmp_path / "real.html").read_text() == "<html>new"


def test_a_pipe_is_written_to() -> None:
    reading, writing = os.pipe()
    write_page(f"/dev/fd/{writing}", PAGE)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        assert pipe.read() == PAGE


def test_a_full_disk_leaves_the_old_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "page.html"
    target.write_text(PAGE)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError, match=r"page\.html: No space left on device"):
        write_page(str(target), "<html>new")
    assert target.read_text() == PAGE
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    """A log's name may contain bytes that are not UTF-8; they must not keep the page from being written."""
    write_page(str(tmp_path / "page.html"), "<html>\udcff")
    assert (tmp_path / "page.html").read_bytes() == b"<html>?"
