"""`nanopace train` as people start it: real processes, interrupted and resumed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nanopace import diagnose, open_run
from nanopace.cli.main import main

from ...train.fork_server import Popen
from ..conftest import unmeasured
from ..refused import refused

TINY = [
    "--device=cpu", "--n_layer=1", "--n_head=2", "--n_embd=16", "--block_size=32", "--batch_size=4",
    "--gradient_accumulation_steps=1", "--max_iters=20", "--lr_decay_iters=20", "--warmup_iters=2",
    "--eval_interval=10", "--eval_iters=2", "--learning_rate=1e-2", "--min_lr=1e-3",
]  # fmt: skip


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with data/tiny, made by `prepare`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.txt").write_text("".join(f"def f{n}(self):\n    return {n}\n" for n in range(400)))
    assert main(["prepare", "tiny.txt", "--tokenizer", "bytes"]) == 0
    return tmp_path


def start(room: Path, *arguments: str, real: bool = False) -> subprocess.Popen[str]:
    """Start training; `real` starts a new process instead of forking."""
    command = [sys.executable, "-u", "-m", "nanopace", "train", *arguments]
    environment = {**unmeasured(), "OMP_NUM_THREADS": "1", "LC_ALL": "C"}
    return (subprocess.Popen if real else Popen)(
        command, cwd=room, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )


def test_a_run_from_a_config_file_to_its_report(room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (room / "config.py").write_text("dataset = 'tiny'\nmax_iters = 5\nwarmup_iters = 2\nlog_interval = 2\n")
    capsys.readouterr()
    assert main(["train", "config.py", *TINY, "--max_iters=20"]) == 0  # flags override files
    said = capsys.readouterr().out
    row = re.compile(r"^iter (\d+): loss [\d.]+, time [\d.]+ms, mfu n/a, \d+ tok/s, norm [\d.]+, lr ", re.MULTILINE)
    rows = row.findall(said)
    assert rows == [str(n) for n in range(0, 21, 2)]
    assert len(re.findall(r"^step \d+: .*val loss [\d.]+, time [\d.]+ms", said, re.MULTILINE)) == 3
    assert "  device: cpu: as requested" in said
    assert "Where the time went" in said
    assert "– forward and backward" in said
    assert "finished after 21 steps" in said
    wall = diagnose(open_run(room / "out" / "ledger.jsonl")).wall
    capsys.readouterr()
    assert main(["explain", "out", "--json"]) == 0
    explained = json.loads(capsys.readouterr().out)
    assert explained["wall"]["total_s"] == pytest.approx(wall.total_s)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_politely_it_saves_and_says_how_to_go_on(room: Path, number: signal.Signals) -> None:
    endless = ("--dataset=tiny", *TINY, "--max_iters=100000", "--no-report", "--log_interval=1")
    process = start(room, *endless, real=number == signal.SIGINT)
    said = _until(process, "iter 12:")
    process.send_signal(number)
    rest, _ = process.communicate(timeout=60)
    said += rest
    assert process.returncode == 130
    assert "Saving after this step. Press Ctrl-C again to quit now" in said
    found = re.search(r"interrupted after (\d+) steps; resume with: (nanopace train .*)", said)
    assert found is not None
    assert found[2] == "nanopace train --init_from=resume --out_dir=out"
    assert (room / "out" / "checkpoints" / f"step-{int(found[1]):08d}").is_dir()
    process = start(room, *found[2].split()[2:], f"--max_iters={int(found[1]) + 3}", "--no-report")
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert f"iter {found[1]}: " in said
    assert "Traceback" not in said


def test_stopped_twice_it_leaves_at_once_and_the_last_checkpoint_is_whole(room: Path) -> None:
    large = ("--batch_size=16", "--n_layer=8", "--n_embd=256")  # a step long enough for both to hit
    process = start(room, "--dataset=tiny", *TINY, *large, "--max_iters=100000", "--eval_interval=2")
    _until(process, "saved ")
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in rest
    assert main(["sample", str(room / "out"), "--max_new_tokens", "3", "--device", "cpu"]) == 0


@pytest.mark.parametrize("auto", [[], ["--auto"]])
def test_several_processes_decide_as_one_would(auto: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr("nanopace.train.launch.launch", lambda _, __, arguments: started.append(arguments) or 0)
    assert main(["train", "--gpus=2", "--device=cpu", *auto]) == 0
    assert [each for each in started[0] if each == "--auto"] == auto


def test_the_knobs_are_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    assert "sequences per micro-batch" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--batch_size=0"], "--batch_size: must be int >= 1, not '0'"),
        (["--learning_rate=1e-9"], "min_lr must not exceed learning_rate"),
        (["--eval_train=half"], "eval_train must be one of auto, steps, full, not 'half'"),
        (["no-such-config.py"], "no-such-config.py: no such config file"),
        (["--dataset=nothing"], "nothing: no such corpus; create one from your own text with: nanopace prepare FILE"),
        (["--dataset=shakespeare"], "shakespeare: no such corpus; create it with: nanopace prepare shakespeare"),
        (["--dataset=shakespear"], "shakespear: no such corpus; did you mean shakespeare?"),
        (["--wandb_log=True"], "--wandb_log: needs wandb: pip install wandb"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(
    room: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    says: str,
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)  # as where it is not installed
    before = sorted(room.rglob("*"))
    assert says in refused(capsys, "train", "--dataset=tiny", *TINY, *arguments)
    assert sorted(room.rglob("*")) == before


@pytest.mark.usefixtures("room")
def test_a_resume_takes_the_settings_of_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--dataset=tiny", *TINY, "--log_interval=1", "--no-report"]) == 0
    capsys.readouterr()
    assert main(["train", "--init_from=resume", "--max_iters=22", "--no-report"]) == 0
    said = capsys.readouterr().out
    assert "steps 21 to 22" in said
    assert re.findall(r"^iter (\d+)", said, re.MULTILINE) == ["21", "22"]
    assert "finished after 23 steps" in said


def test_an_evaluation_alone_is_a_line_and_no_report(room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        capsys.readouterr()
        assert main(["train", "--dataset=tiny", *TINY, "--eval_only=True"]) == 0
        said = capsys.readouterr()
        assert re.search(r"^step 0: train loss [\d.]+, val loss [\d.]+", said.out, re.MULTILINE)
        assert "Where the time went" not in said.out
        assert not said.err
    assert not (room / "out").exists()


@pytest.mark.usefixtures("room")
def test_a_run_that_ends_before_its_first_row_is_no_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from nanopace.train.loop.stepper import Stepper

    with monkeypatch.context() as patch:
        patch.setattr(Stepper, "warm_up", lambda _: signal.raise_signal(signal.SIGINT))
        assert main(["train", "--dataset=tiny", *TINY]) == 130
    said = capsys.readouterr()
    assert "interrupted after 0 steps; nothing was saved" in said.out
    assert re.search(r"^no report: out/ledger\.jsonl: .*no row", said.out, re.MULTILINE)
    assert not said.err
    assert main(["train", "--dataset=tiny", *TINY, "--max_iters=0"]) == 0


@pytest.mark.parametrize(("eval_train", "name"), [("steps", "train/loss_of_steps"), ("full", "train/loss")])
def test_figures_for_weights_and_biases(
    room: Path, monkeypatch: pytest.MonkeyPatch, eval_train: str, name: str
) -> None:
    """With a stand-in for the library, which needs an account: it records what it receives."""
    (room / "wandb.py").write_text(
        "import json\n"
        "def _write(**said): open('told.jsonl', 'a').write(json.dumps(said) + '\\n')\n"
        "def login(**_): return False\n"
        "def init(**known): _write(init=known)\n"
        "def log(figures): _write(log=figures)\n"
        "def finish(): _write(finish=True)\n"
    )
    monkeypatch.syspath_prepend(str(room))
    monkeypatch.delitem(sys.modules, "wandb", raising=False)  # another test may have imported the real one
    flags = ["--wandb_log=True", "--wandb_project=p", f"--eval_train={eval_train}"]
    assert main(["train", "--dataset=tiny", *TINY, *flags, "--no-report"]) == 0
    sys.modules.pop("wandb")
    told = [json.loads(line) for line in (room / "told.jsonl").read_text().splitlines()]
    assert told[0]["init"]["project"] == "p"
    assert told[0]["init"]["name"] == "gpt2"
    assert told[0]["init"]["mode"] == "offline"  # no key is requested
    evaluations = [each["log"] for each in told[1:-1] if "val/loss" in each["log"]]
    assert [each["iter"] for each in evaluations] == [0, 10, 20]
    assert evaluations[1].keys() - {"mfu"} == {"iter", name, "val/loss", "lr"}
    assert told[-1] == {"finish": True}


def _until(process: subprocess.Popen[str], words: str) -> str:
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if words in line:
            return said
    raise AssertionError(f"it ended without {words!r}:\n{said}")
