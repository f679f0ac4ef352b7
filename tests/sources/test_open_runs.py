from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from nanopace.errors import ConfigError, NanopaceError, NotALog
from nanopace.sources.runs import open_runs

from .nanogpt_logs import HEADER, WHOLE_LOG, print_rows
from .reading import read, read_one


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "log: is empty; supported: logs from nanoGPT, nanochat, nanopace"),
        (b"\n", "no training log"),
        (bytes(range(256)) * 9, "a binary file"),
        (
            b"dear diary, iter is a word\n",
            "no training log; supported: logs from nanoGPT, nanochat, nanopace",
        ),
        (b"step 0: train loss 10.8684, val loss 10.8727\n" * 3, "3 evaluations, but no row"),
        (b"number of parameters: 123.59M\n", "no row with a time yet"),
        (
            b"iter 0: loss 10.8720, time 320",
            "no line has a step and a time; the closest is line 1: iter 0: loss 10.87",
        ),
        (b"iter 0: loss 10.8720, time 320.00ms", "no row with a time yet"),  # of 320.00ms, mfu ...
    ],
)
def test_no_log(data: bytes, said: str) -> None:
    with pytest.raises(NotALog, match=said) as caught:
        read(data)
    assert "\n" not in str(caught.value)


def test_a_file_is_judged_by_its_first_256_kb() -> None:
    with pytest.raises(NotALog, match="contains text but no training log"):
        read(b"hello\n" * (256 * 1024 // 6) + bytes(256 * 1024))


def test_no_log_in_a_directory(tmp_path: Path) -> None:
    with pytest.raises(NotALog, match="no training log in this directory"):
        open_runs(tmp_path)


def test_a_directory_stands_for_its_logs(tmp_path: Path) -> None:
    (tmp_path / "b.log").write_text(print_rows(0, 1000))
    (tmp_path / "a.log").write_text(print_rows())
    assert [run.name for run in open_runs(tmp_path)] == ["a.log", "b.log"]


def test_of_very_many_runs_the_first_and_the_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nanopace.sources.draft.MOST_RUNS", 4)
    runs = read("".join(HEADER + print_rows(0, 1000 * number + 1) for number in range(1, 8)))
    assert [run.rows.iteration[-1] for run in runs] == [1000, 2000, 6000, 7000]
    assert [run.runs_of_file for run in runs] == [7, None, None, None]
    assert [run.runs_of_file for run in read("".join(HEADER + print_rows() for _ in range(4)))] == [None] * 4


def test_a_broken_config_is_told_first(tmp_path: Path) -> None:
    config = tmp_path / "config.py"
    config.write_text("batch_size = int(open('8').read())\n")
    with pytest.raises(ConfigError, match="line 1"):
        open_runs(tmp_path / "missing.log", config=config)


def test_a_long_preamble() -> None:
    preamble = "Requirement already satisfied: numpy in ./lib\n" * 20_000
    assert read(preamble + print_rows())[0].rows == read(print_rows())[0].rows


@pytest.mark.usefixtures("untraced")
def test_endless_input_that_is_no_log() -> None:
    class Zeros(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
            buffer[:] = b"y\n" * (len(buffer) // 2) + b"y" * (len(buffer) % 2)
            return len(buffer)

    with pytest.raises(NanopaceError):
        open_runs(io.BufferedReader(Zeros()))


def test_a_small_log_needs_no_numpy(tmp_path: Path) -> None:
    """Nor a decompressor: importing it would be half of the user's wait."""
    path = tmp_path / "train.log"
    path.write_text(WHOLE_LOG)
    code = (
        "import sys; from nanopace.sources.runs import open_runs; open_runs(sys.argv[1]);"
        "heavy = {'numpy', 'gzip', 'lzma', 'bz2', 'zstandard', 'rich', 'jinja2', 'nanopace.sources.bulk.nanogpt'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("last", "ending"),
    [("KeyboardInterrupt", "interrupted"), ("torch.OutOfMemoryError: CUDA out of memory. Tri", "out_of_memory")],
)
@pytest.mark.parametrize(
    "row",
    ["iter {n}: loss 3.1000, time 100.00ms, mfu 12.00%", "step {n} | loss: 3.1 | dt: 100.00ms | tok/sec: 655360.00"],
)
def test_how_it_ended_needs_no_line_end(row: str, last: str, ending: str) -> None:
    rows = "".join(row.format(n=n) + "\n" for n in range(20))
    run = read_one(f"{rows}Traceback (most recent call last):\n{last}")
    assert (len(run.rows), run.ending) == (20, ending)


# --- the real logs ---------------------------------------------------------------------------------------------------


def test_real_logs(shared_logs: Path) -> None:
    (a,) = open_runs(shared_logs / "fineweb-384wide.log")
    assert (len(a.rows), len(a.evaluations), len(a.checkpoints)) == (101, 41, 40)
    assert sum(evaluation.row is None for evaluation in a.evaluations) == 20
    (owt,) = open_runs(shared_logs / "owt-169ms.log")
    assert (len(owt.rows), len(owt.evaluations), len(owt.checkpoints)) == (201, 41, 33)
    assert owt.value("vocab_size") == 50304


def test_the_real_header(shared_logs: Path) -> None:
    (run,) = open_runs(shared_logs / "fineweb-768wide-with-config.log")
    assert 7800 in run.rows.iteration  # its line begins with keys that somebody typed
    assert run.value("parameters") == 123_587_328
    assert run.value("tokens_per_iteration") == 524_288
    assert run.number("flops_per_token") == pytest.approx(854.8e6, rel=1e-4)
    assert run.value("gpu_count") == 1
    assert run.conflicts == ()
