"""`nanopace watch` with real processes, and what may happen to them: the training always finishes."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanopace.cli.main import main
from nanopace.live.printer import PREFIX

from .conftest import HEADER, WriteLog, training, unmeasured
from .refused import refused

pytestmark = pytest.mark.slow

PATIENCE_S = 60.0
TRAINER = Path(__file__).with_name("trainer.py")
NANOPACE = f"{shlex.quote(sys.executable)} -m nanopace"


def trainer(iterations: int, each_s: float) -> str:
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(TRAINER))} {iterations} {each_s} done"


def expected(iterations: int) -> str:
    """What the trainer prints."""
    found = subprocess.run(shlex.split(trainer(iterations, 0.0)), stdout=subprocess.PIPE, text=True, check=True)
    return found.stdout


def without_comments(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(PREFIX))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Shell:
    """A pipeline in its own process group, as a terminal would start it."""

    def __init__(self, line: str) -> None:
        self.process = subprocess.Popen(
            ["bash", "-c", f"set -o pipefail; {line}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=unmeasured(),
        )

    def wait(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out.decode(), err.decode()

    def interrupt(self) -> None:
        """Ctrl-C."""
        os.killpg(self.process.pid, signal.SIGINT)


def wait_for(condition: object, *, file: Path) -> str:
    """The text of a file, as soon as it contains the expected text."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        text = file.read_text() if file.exists() else ""
        if str(condition) in text:
            return text
        time.sleep(0.02)
    raise AssertionError(f"{condition} is not in {file}: {text}")


# --- lines -----------------------------------------------------------------------------------------------------------


def test_lines_pass_and_what_they_leave_out_stands_under_them() -> None:
    code, out, err = Shell(f"{trainer(61, 0.02)} | {NANOPACE} watch --gpu 4070").wait()
    assert (code, err) == (0, "")
    assert without_comments(out) == expected(61)
    lines = out.splitlines()
    row = lines.index(next(line for line in lines if line.startswith("iter 40:")))
    said = lines.index(
        f"{PREFIX}Iteration 40 is slow, but not because of training: evaluation 4.00 s, the step 100 ms."
    )
    assert row < said
    assert any(
        re.match(rf"{PREFIX}iteration \d+ of 60, .* left.*, 81\.\dk tokens/s, 100\.\d ms per step, ", x) for x in lines
    )
    assert lines[-1] == f"{PREFIX}The run has finished."


def test_the_comments_are_nothing_to_a_reader(write_log: WriteLog, capfd: pytest.CaptureFixture[str]) -> None:
    """A log saved with watch's comments still reads as the same log."""
    log = write_log()
    with log.open() as file:
        watched = subprocess.run(
            [*shlex.split(NANOPACE), "watch"], stdin=file, stdout=subprocess.PIPE, check=True
        ).stdout
    assert watched.count(PREFIX.encode()) >= 8
    answers = []
    for text in (log.read_bytes(), watched):
        log.write_bytes(text)
        assert main(["explain", str(log), "--json"]) == 0
        answers.append(capfd.readouterr().out)
    assert answers[0] == answers[1]


def test_bytes_of_any_kind_pass_untouched() -> None:
    odd = bytes(range(256)) * 50 + b"\r 10%|##\r 20%|####\x1b[31m half a li"
    found = subprocess.run([*shlex.split(NANOPACE), "watch"], input=odd, stdout=subprocess.PIPE, check=True).stdout
    assert found.startswith(odd)
    assert found[len(odd) :].startswith(b"\n# nanopace: No training log found in these lines")


@pytest.mark.parametrize("lang", ["de", "fr", "es"])
def test_every_language_says_something(write_log: WriteLog, lang: str) -> None:
    with write_log().open() as file:
        command = [*shlex.split(NANOPACE), "watch", "--lang", lang]
        out = subprocess.run(command, stdin=file, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert out.count(PREFIX) >= 8


# --- what must not harm the training ---------------------------------------------------------------------------------


def test_control_c_reaches_the_trainer_which_saves_and_is_heard(here: Path) -> None:
    shell = Shell(f"{trainer(2000, 0.02)} | {NANOPACE} watch > out.log")
    wait_for("iter 30:", file=here / "out.log")
    shell.interrupt()
    shell.interrupt()
    shell.wait()
    out = (here / "out.log").read_text()
    assert "interrupted: saved a checkpoint" in out
    assert int((here / "done").read_text()) < 1999
    assert f"{PREFIX}The log ends at iteration " in out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_do_not_end_it_before_the_pipe_closes(here: Path, number: int) -> None:
    shell = Shell(f"{trainer(80, 0.02)} | ({NANOPACE} watch & echo $! > pid; wait $!) > out.log")
    wait_for("iter 20:", file=here / "out.log")
    os.kill(int((here / "pid").read_text()), number)
    shell.wait()
    assert (here / "done").read_text() == "79"
    assert "iter 79:" in (here / "out.log").read_text()


@pytest.mark.parametrize("output", ["> /dev/full", "| head -n 5", ">&-"])
def test_an_output_that_takes_nothing_does_not_end_the_training(here: Path, output: str) -> None:
    code, _, err = Shell(f"{trainer(120, 0.005)} | {NANOPACE} watch {output}").wait()
    assert code == 0
    assert (here / "done").read_text() == "119"
    assert ("output that cannot be printed is dropped, and training continues" in err) == (output != ">&-")


def test_a_started_command_outlives_a_watch_that_is_killed(here: Path) -> None:
    watch = subprocess.Popen(
        [*shlex.split(NANOPACE), "watch", "--log", "train.log", "--", *shlex.split(trainer(150, 0.02))],
        stdout=subprocess.PIPE,
        env=unmeasured(),
    )
    wait_for("iter 20:", file=here / "train.log")
    watch.kill()
    assert watch.wait(PATIENCE_S) == -signal.SIGKILL
    assert not (here / "done").exists()
    wait_for("149", file=here / "done")
    assert (here / "train.log").read_text() == expected(150)


@pytest.mark.parametrize("how", ["{trainer} > train.log & {nanopace} watch train.log", "{trainer} | {nanopace} watch"])
def test_a_watch_that_is_killed_ends_a_trainer_that_prints_into_it_and_no_other(here: Path, how: str) -> None:
    """As docs/watch.md says: a pipe without a reader breaks, whatever the reader was."""
    command = how.format(trainer=trainer(500, 0.02), nanopace=f"(echo $BASHPID > pid; exec {NANOPACE}")
    shell = Shell(f"{command}) > out.log; wait")
    wait_for(f"{PREFIX}iteration ", file=here / "out.log")
    os.kill(int((here / "pid").read_text()), signal.SIGKILL)
    _, _, err = shell.wait()
    piped = "|" in how
    assert ("BrokenPipeError" in err) == piped
    assert (here / "done").exists() != piped


def test_a_started_command_outlives_control_c(here: Path) -> None:
    shell = Shell(f"{NANOPACE} watch --log train.log -- {trainer(300, 0.02)} > out.log")
    wait_for("iter 20:", file=here / "out.log")
    shell.interrupt()
    code, _, err = shell.wait()
    assert code == 0
    assert "For more: nanopace explain train.log" in (here / "out.log").read_text()
    pid = re.search(r"Training continues as process (\d+)\.", err)
    assert pid is not None
    os.kill(int(pid[1]), 0)
    wait_for("299", file=here / "done")


@pytest.mark.parametrize(("command", "code"), [("exit 3", 3), ("kill -9 $$", 137), ("true", 0)])
def test_the_exit_code_of_a_started_command(here: Path, command: str, code: int) -> None:
    script = here / "train.sh"
    script.write_text(f"{trainer(30, 0.0)}\n{command}\n")
    (here / "train.log").write_text("before\n" * 50)
    found, out, _ = Shell(f"{NANOPACE} watch --log train.log -- bash train.sh").wait()
    assert found == code
    assert (here / "train.log").read_text() == "before\n" * 50 + expected(30)
    assert without_comments(out) == "before\n" * 10 + expected(30), "all of its lines pass, however quick it was"


def test_alerts_and_the_end_are_told(here: Path) -> None:
    """And a hanging program delays no line."""
    (here / "hook.sh").write_text('echo "$NANOPACE_EVENT $NANOPACE_ITERATION" >> told\n')
    log = HEADER + training(60).replace("iter 43: loss", "iter 43: loss nan, was")
    (here / "train.log").write_text(re.sub(r"nan, was [\d.]+", "nan", log))
    code, out, err = Shell(f"cat train.log | {NANOPACE} watch --notify 'bash hook.sh'").wait()
    assert (code, err) == (0, "")
    assert "The loss is NaN or infinite at iteration 43." in out
    assert (here / "told").read_text() == "nan 43\nended 59\n"


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_file_that_grows_is_followed_until_its_run_is_finished(here: Path) -> None:
    log = here / "out" / "train.log"
    log.parent.mkdir()
    log.write_text(HEADER.replace("log_interval", "max_iters = 59\nlog_interval") + training(30))
    (here / "out" / "older.log").write_text(HEADER + training(30))
    os.utime(here / "out" / "older.log", (1, 1))
    shell = Shell(f"{NANOPACE} watch out/ > out.log")
    rest = training(60).splitlines(keepends=True)
    rest = rest[rest.index(next(line for line in rest if line.startswith("step 30:"))) :]
    wait_for("iteration 29", file=here / "out.log")
    with log.open("a") as file:
        for line in rest:
            file.write(line)
            file.flush()
            time.sleep(0.01)
    code, _, err = shell.wait()
    out = (here / "out.log").read_text()
    assert code == 0
    assert err == "nanopace: out/train.log\n"
    printed = without_comments(out).splitlines(keepends=True)
    assert printed[-len(rest) :] == rest
    assert len(printed) == len(rest) + 10, "and the last lines of what was there"
    assert (
        f"{PREFIX}Iteration 50 is slow, but not because of training: evaluation + checkpoint 4.00 s, the step 0.50 s."
        in out
    )
    assert out.endswith(f"{PREFIX}The run has finished.\n")


@pytest.mark.parametrize("name", ["train.log", "out/", "out"])
def test_what_is_not_there_yet_is_waited_for(here: Path, name: str) -> None:
    shell = Shell(f"{NANOPACE} watch {name} 2> err.log")
    wait_for(f"{name}: does not exist yet; waiting for it", file=here / "err.log")
    log = here / name / "train.log" if name != "train.log" else here / name
    log.parent.mkdir(exist_ok=True)
    if name != "train.log":
        wait_for("contains no log yet; waiting for one", file=here / "err.log")
    log.write_text(HEADER.replace("log_interval", "max_iters = 59\nlog_interval") + training(60))
    code, out, _ = shell.wait()
    assert code == 0
    assert out.endswith(f"{PREFIX}The run has finished.\n")


def test_control_c_ends_the_watching_of_a_file(here: Path) -> None:
    (here / "train.log").write_text(HEADER + training(30))
    shell = Shell(f"{NANOPACE} watch train.log -q > out.log")
    wait_for("iteration 29", file=here / "out.log")
    shell.interrupt()
    code, _, _ = shell.wait()
    out = (here / "out.log").read_text()
    assert code == 0
    assert without_comments(out) == ""
    assert "A normal step takes 0.50 s." in out
    assert "The log ends" not in out


def test_the_footer_on_a_terminal() -> None:
    lines = list(_on_terminal(f"{trainer(61, 0.06)} | {NANOPACE} watch --gpu 4070", "iteration 4"))
    assert any(re.match(r"iteration \d+ of 60 ━+─+ \d+%, [\d.]+ s left", line) for line in lines)
    assert any(re.match(r"81\.\dk tokens/s, 100\.\d ms per step.*, evaluation at 60 in", line) for line in lines)
    assert any(
        re.match(r"start-up and compilation [\d.]+%, |evaluation [\d.]+%, |training [\d.]+%, ", line) for line in lines
    )
    assert any(re.match(r"loss [\d.]+ [\d.]+ [▁▂▃▄▅▆▇█]+ [\d.]+ validation [\d.]+ at 40", line) for line in lines)


def _on_terminal(command: str, until: str) -> Iterator[str]:
    """What a terminal of 100 columns received, line by line, without colours."""
    pid, fd = pty.fork()
    if not pid:
        os.environ.update(TERM="xterm", PYTHONPATH=os.pathsep.join(sys.path))
        os.execvp("bash", ["bash", "-c", command])
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    seen = b""
    try:
        while chunk := os.read(fd, 1 << 16):
            seen += chunk
    except OSError:
        pass  # the end of a terminal
    os.waitpid(pid, 0)
    os.close(fd)
    assert until.encode() in seen
    return iter(re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", seen.decode()).replace("\r", "").split("\n"))


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["watch", "a.log", "b.log"], "b.log: one log at a time can be watched"),
        (["watch", "nowhere/train.log"], "nowhere/train.log: no such file"),
        (["watch", "packed.log.gz"], "packed.log.gz: is compressed and cannot grow; try nanopace explain"),
        (["watch", "--log", "x.log"], "--log x.log: which command? nanopace watch --log x.log -- python train.py"),
        (["watch", "--log", "x.log", "--", "no-such-program"], "--log x.log: no-such-program: cannot be started: no "),
        (["watch", "--log", "no/x.log", "--", "true"], "--log no/x.log: cannot be written: No such file or directory"),
        (["watch", ""], "argument LOG: must not be empty"),
        (["watch", "x.log", "--gpu", "potato"], "potato: "),
        (["watch", "x.log", "--notify", "no-such-program"], "--notify no-such-program: no such program"),
        (["watch", "x.log", "--webhook", "ftp://x/secret"], "--webhook: must be an address that starts with https://"),
        (["watch", "x.log", "--silent", "-1"], "argument --silent: invalid number of seconds: '-1'"),
    ],
)
def test_mistakes(here: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "packed.log.gz").write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03")
    assert refused(capsys, *arguments).startswith(said)
