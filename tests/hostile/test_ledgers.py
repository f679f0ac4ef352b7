"""Logs that an attacker would pipe in or leave in a directory, and ledgers made to take forever."""

from __future__ import annotations

import gzip
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ..cli.conftest import unmeasured
from .bombs import PACKERS, ROW, bombs
from .limits import Answer, answers, is_one_line

ROWS = b"".join(ROW.replace(b" 0:", b" %d:" % n) for n in range(200))
RUN = '{"event":"run","ledger":"1.3","started":"","nanopace":"1","config":{}}\n'


def piped(data: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """The answer to data piped to standard input."""
    return subprocess.run(
        [sys.executable, "-m", "nanopace", *arguments],
        input=data,
        capture_output=True,
        check=False,
        timeout=60,
        env=unmeasured(),
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", PACKERS)
def test_a_bomb_on_standard_input_is_refused_and_a_log_is_read(kind: str, tmp_path: Path) -> None:
    (name,) = bombs(tmp_path, "train.log", ROW, (kind,))
    done = piped((tmp_path / name).read_bytes(), "explain", "-")
    assert done.returncode == 2
    assert done.stderr == b"nanopace: stdin: unpacks to more than 500 times its size, which no log does\n"
    log = tmp_path / "good.log"
    log.write_bytes(ROWS)
    both = piped(PACKERS[kind](ROWS), "compare", str(log), "-")
    assert both.returncode == 0, both.stderr


def test_gzip_members_and_padding_are_read_as_one(tmp_path: Path) -> None:
    half = len(ROWS) // 2
    (tmp_path / "train.log").write_bytes(gzip.compress(ROWS[:half]) + gzip.compress(ROWS[half:]) + b"\0" * 5000)
    (given,) = answers([["explain", "train.log"]], tmp_path)
    assert given.code == 0
    assert "200 rows" in given.out
    assert "ends before" not in given.out


def test_a_gzip_header_of_many_megabytes_takes_no_time(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_bytes(b"\x1f\x8b\x08\x08\0\0\0\0\0\xff" + b"n" * (64 << 20))
    (given,) = answers([["explain", "train.log"]], tmp_path)
    assert is_one_line(given)
    assert given.seconds < 12  # it was 25


def test_what_is_no_file_in_a_run_directory_is_not_waited_for(tmp_path: Path) -> None:
    for name in ("pipe", "socket", "device", "loop", "sparse"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "pipe" / "ledger.jsonl")
    with socket.socket(socket.AF_UNIX) as bound:
        here = Path.cwd()
        os.chdir(tmp_path / "socket")  # the path of a socket has to be short
        try:
            bound.bind("ledger.jsonl")
        finally:
            os.chdir(here)
    (tmp_path / "device" / "ledger.jsonl").symlink_to("/dev/zero")
    (tmp_path / "loop" / "again").symlink_to(".")
    (tmp_path / "loop" / "ledger.jsonl").symlink_to("ledger.jsonl")
    with (tmp_path / "sparse" / "ledger.jsonl").open("wb") as file:
        file.truncate(1 << 40)
    named = ["socket/ledger.jsonl", "device/ledger.jsonl", "loop/ledger.jsonl", "sparse/ledger.jsonl"]
    given = _given(tmp_path, *("pipe", "socket", "device", "loop", "sparse"), *named)
    assert all(is_one_line(each) for each in given), given
    assert all(each.seconds < 10 and each.mb < 500 for each in given)


def _given(room: Path, *paths: str) -> list[Answer]:
    return answers([["explain", path] for path in paths], room)


def test_a_directory_of_any_depth_and_names_of_any_bytes(tmp_path: Path) -> None:
    (tmp_path / "names").mkdir()
    for name in (b"a\xff\xfe.log", b"b\nc.log", b"\x1b[31mred.log"):
        Path(os.fsdecode(os.fsencode(tmp_path / "names") + b"/" + name)).write_bytes(ROWS)
    deep_room = tempfile.mkdtemp()  # not in pytest's directory: pytest could not remove it after a killed run
    handle = os.open(deep_room, os.O_RDONLY)
    for _ in range(1300):
        os.mkdir("x" * 20, dir_fd=handle)
        below = os.open("x" * 20, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(handle)
    try:
        deep, both, names = answers(
            [["explain", deep_room], ["compare", deep_room, "names"], ["explain", "names"]], tmp_path
        )
    finally:
        subprocess.run(["rm", "-rf", deep_room], check=True)  # deeper than Python can remove
    assert is_one_line(deep)
    assert is_one_line(both)
    assert names.code == 0
    assert "\x1b" not in names.out + names.err


def _step(iteration: int) -> str:
    return f'{{"event":"step","iteration":{iteration},"ms":100.0,"loss":3.0}}\n'


SHAPES: dict[str, Callable[[int], str]] = {
    "rollbacks": lambda n: _step(n) + f'{{"event":"rollback","iteration":{n},"failed_at":{n}}}\n',
    "back to the beginning": lambda _: _step(0) + _step(1) + '{"event":"rollback","iteration":0,"failed_at":1}\n',
    "resumes": lambda n: RUN + f'{{"event":"resume","iteration":{n}}}\n' + _step(n) + _step(n + 1),
    "samples and resumes": lambda n: (
        f'{RUN}{{"event":"resume","iteration":{n}}}\n{_step(n)}'
        f'{{"event":"gpu","iteration":{n},"watts":300,"throttle":"x{n}"}}\n'
    ),
    "runs": lambda _: RUN + _step(0) + _step(1),
    "the same step": lambda n: _step(5).replace("100.0", f"{100 + n % 7}.0"),
    "zigzag": lambda n: _step(2 * n + 3 * (n % 2)),
    "torn": lambda n: '{"event":"step","iteration":1,"ms":[1,' + "\n" * (n % 50 == 0),
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_storm_of_half_a_megabyte_takes_no_longer_than_its_lines(shape: str, tmp_path: Path) -> None:
    from nanopace import diagnose, open_runs, render

    lines, size, count = [RUN, _step(0), _step(1)], 0, 0
    while size < 500_000:
        lines.append(SHAPES[shape](count))
        size, count = size + len(lines[-1]), count + 1
    (tmp_path / "ledger.jsonl").write_text("".join(lines))
    begin = time.process_time()
    render([diagnose(run) for run in open_runs(tmp_path / "ledger.jsonl")])
    assert time.process_time() - begin < 10  # it was up to a minute, and takes half a second
