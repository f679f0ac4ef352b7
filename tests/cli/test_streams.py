"""Standard output and standard error that really fail: a full disk, a reader that quit, a terminal that is gone."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from nanopace.literals import Value

from ..train.conftest import TINY, write_corpus
from ..train.fork_server import Popen
from .conftest import WriteLog, unmeasured

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full and a shell")

NANOPACE = f"{shlex.quote(sys.executable)} -m nanopace"


def shell(words: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**unmeasured(), "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8", **more}
    return subprocess.run(
        ["bash", "-c", words], env=environment, capture_output=True, text=True, timeout=100, check=False
    )


# --- an answer that nobody gets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["> /dev/full", ">&-"])
@pytest.mark.parametrize(
    "words", ["", "--help", "--version", "explain --help", "cards", "explain {log}", "explain {log} --json"]
)
def test_a_lost_answer_is_one_line_and_no_success(write_log: WriteLog, words: str, where: str) -> None:
    ran = shell(f"{NANOPACE} {words.format(log=write_log())} {where}")
    assert ran.returncode == 2
    reason = "it is closed" if where == ">&-" else "No space left on device"
    assert ran.stderr == f"nanopace: standard output: cannot be written: {reason}\n"


def test_a_lost_answer_is_noticed_where_nothing_is_buffered() -> None:
    """argparse ignores it if its print fails."""
    for words in ("--help", "cards"):
        command = f"{NANOPACE} {words}"
        assert shell(f"{command} > /dev/full", PYTHONUNBUFFERED="1").returncode == 2
        left = shell(f"set -o pipefail; (sleep 0.3; exec {command}) | true", PYTHONUNBUFFERED="1")
        assert left.returncode == 141


@pytest.mark.parametrize("where", ["2>&-", "2> /dev/full"])
def test_without_stderr_the_answer_and_the_exit_code_are_the_same(write_log: WriteLog, where: str) -> None:
    whole, without = (shell(f"{NANOPACE} explain {write_log()} {each}") for each in ("", where))
    assert (without.returncode, without.stdout, without.stderr) == (0, whole.stdout, "")
    refused = shell(f"{NANOPACE} explain nothing-here {where}")
    assert (refused.returncode, refused.stdout, refused.stderr) == (2, "", "")
    assert shell(f"{NANOPACE} cards > /dev/full {where}").returncode == 2


def test_a_closed_stdin_is_one_line() -> None:
    ran = shell(f"{NANOPACE} explain - <&-")
    assert ran.returncode == 2
    assert ran.stderr == "nanopace: standard input is closed; name a file or pipe in a log\n"


def test_a_reader_who_leaves_is_no_error_with_a_line() -> None:
    ran = shell(f"set -o pipefail; (sleep 0.3; exec {NANOPACE} cards) | true")
    assert ran.returncode == 141
    assert ran.stderr == ""


def test_a_pipe_that_keeps_nobody_waiting_gets_everything() -> None:
    """Such as a terminal that another program has set to non-blocking."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    words = [sys.executable, "-c", "import sys; from nanopace.cli.streams import guard; guard(); print('x' * 10**6)"]
    process = subprocess.Popen(words, stdout=writing, stderr=subprocess.PIPE, env=unmeasured())
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        got = file.read()
    _, said = process.communicate()
    assert (process.returncode, said, len(got)) == (0, b"", 10**6 + 1)


def test_a_closed_stream_gives_its_number_to_no_file() -> None:
    """Otherwise a warning printed by C code would end up in the next opened file."""
    program = "from nanopace.cli.streams import guard; guard(); import os; assert os.open('/dev/null', 0) > 2"
    assert shell(f"{shlex.quote(sys.executable)} -c {shlex.quote(program)} <&- >&- 2>&-").returncode == 0


# --- a training that goes on -----------------------------------------------------------------------------------------


def training(room: Path, last: int = 20) -> list[str]:
    own: dict[str, Value] = {"dataset": str(write_corpus(room / "corpus")), "out_dir": str(room / "out")}
    given = {**TINY, **own, "log_interval": 1, "max_iters": last}
    return [sys.executable, "-m", "nanopace", "train", *(f"--{name}={value}" for name, value in given.items())]


def assert_came_to_its_end(out: Path, reason: str, last: int = 20) -> None:
    events = [json.loads(line) for line in (out / "ledger.jsonl").read_text().splitlines()]
    assert (events[-1]["event"], events[-1]["reason"]) == ("end", "finished")
    note, *others = [each["text"] for each in events if each["event"] == "note"]
    assert all(each.startswith("standard error: ") for each in others)
    assert note == f"standard output: {reason}; training continues without printing there"
    assert (out / "checkpoints" / f"step-{last + 1:08}" / "state.json").exists()


@pytest.mark.parametrize("reason", ["No space left on device", "Broken pipe"])
def test_training_goes_on_without_a_stdout(tmp_path: Path, reason: str) -> None:
    """`> /full/train.log` and `| head`: the exit code is training's, and stderr says why nothing more is printed."""
    if reason == "Broken pipe":
        process = Popen(training(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=unmeasured())
        process.stdout.readline()
        process.stdout.close()
        said, code = process.stderr.read(), process.wait(100)
    else:
        ran = shell(f"{shlex.join(training(tmp_path))} > /dev/full")
        said, code = ran.stderr, ran.returncode
    assert code == 0
    assert said.count("\n") == 1
    assert said.startswith(f"nanopace: standard output: {reason}; ")
    assert_came_to_its_end(tmp_path / "out", reason)


def test_training_goes_on_without_its_terminal(tmp_path: Path) -> None:
    """A terminal other than the controlling one: no SIGHUP comes, and the live display has nowhere to draw. It notices
    four times a second, so the training takes longer than that."""
    ours, theirs = os.openpty()
    environment = {**unmeasured(), "OMP_NUM_THREADS": "1", "TERM": "xterm-256color"}
    process = Popen(
        training(tmp_path, 500), stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    try:
        os.close(theirs)
        written = b""
        while b"nanopace" not in written:
            written += os.read(ours, 65536)
        os.close(ours)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    assert_came_to_its_end(tmp_path / "out", "Input/output error", 500)
