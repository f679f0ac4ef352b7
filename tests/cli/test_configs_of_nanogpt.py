"""Config files like those of nanoGPT's users, one for each style of its own: they train, or evaluate."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nanopace.cli.main import main
from nanopace.train.formats.huggingface import save_huggingface

from ..train.conftest import write_corpus
from ..train.fork_server import run
from ..train.tiny import SHAPE, tiny_weights
from .conftest import unmeasured

FINETUNE = """\
import time

out_dir = 'out-plays'
eval_interval = 5
eval_iters = 4
wandb_log = False # turn it on if you like
wandb_project = 'plays'
wandb_run_name = 'ft-' + str(time.time())

dataset = 'plays'
init_from = 'gpt2-xl' # the largest

always_save_checkpoint = False

# 1 batch_size * 3 grad_accum * 12 tokens
batch_size = 1
gradient_accumulation_steps = 3
max_iters = 6

# a constant rate
learning_rate = 3e-5
decay_lr = False
"""
EVALUATE = """\
# n_layer=2, n_head=2, n_embd=16
batch_size = 8
eval_iters = 5
eval_only = True
wandb_log = False
init_from = 'gpt2'
dataset = 'plays'
"""
ON_A_CPU = ["--device=cpu", "--compile=False", "--no-report"]


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data, and a cache with one model in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    write_corpus(tmp_path / "data" / "plays")
    (tmp_path / "finetune.py").write_text(FINETUNE)
    (tmp_path / "evaluate.py").write_text(EVALUATE)
    save_huggingface(tmp_path / "gpt2-xl", tiny_weights())
    snapshots = tmp_path / "hf" / "hub" / "models--gpt2" / "snapshots"
    snapshots.mkdir(parents=True)
    save_huggingface(snapshots / ("a" * 40), tiny_weights(replace(SHAPE, n_layer=1)))
    return tmp_path


@pytest.mark.usefixtures("room")
def test_finetuning(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "finetune.py", *ON_A_CPU, "--log_interval=1", "--dropout=0.1"]) == 0
    said = capsys.readouterr().out
    note = "finetune.py, line 8: wandb_run_name stays 'gpt2', since nothing is executed"
    assert said.count(note) == 1
    assert said.index(note) < said.index("iter 0")
    assert re.findall(r"^iter (\d+): loss", said, re.MULTILINE) == [str(n) for n in range(7)]
    assert re.findall(r"lr ([\d.e-]+)", said)[-1] == "3.00e-05"


@pytest.mark.usefixtures("room")
def test_evaluating_what_the_cache_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "evaluate.py", *ON_A_CPU]) == 0
    said = capsys.readouterr().out
    assert len(re.findall(r"^step 0: .*val loss [\d.]+", said, re.MULTILINE)) == 1
    assert not re.search(r"^iter ", said, re.MULTILINE)


@pytest.mark.usefixtures("room")
def test_a_shorter_context_and_one_that_the_weights_do_not_have(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "finetune.py", *ON_A_CPU, "--block_size=8", "--max_iters=0"]) == 0
    assert main(["train", "finetune.py", *ON_A_CPU, "--out_dir=other", "--n_layer=3"]) == 2
    assert "n_layer is 2 in gpt2-xl and cannot be 3" in capsys.readouterr().err


@pytest.mark.usefixtures("room")
def test_a_model_that_is_not_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "evaluate.py", "--init_from=gpt2-large", *ON_A_CPU]) == 2
    said = capsys.readouterr().err
    assert "hf download openai-community/gpt2-large config.json model.safetensors" in said
    assert said.count("\n") == 1
    assert not Path("out").exists()


def test_a_download_for_training(room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In its own process, with a stand-in for huggingface_hub."""
    (room / "huggingface_hub.py").write_text(
        "import shutil\nfrom pathlib import Path\n"
        "def snapshot_download(name, allow_patterns, cache_dir):\n"
        "    to = Path(cache_dir, 'models--' + name.replace('/', '--'), 'snapshots', 'b' * 40)\n"
        "    return str(shutil.copytree('gpt2-xl', to))\n"
    )
    asked = ["finetune.py", "--init_from=gpt2-medium", *ON_A_CPU, "--max_iters=1", "--log_interval=1", "--download"]
    command = [sys.executable, "-m", "nanopace", "train", *asked]
    done = run(command, env={**unmeasured(), "OMP_NUM_THREADS": "1", "LC_ALL": "C", "PYTHONPATH": "."})
    assert done.returncode == 0, done.stderr
    assert "iter 1: loss" in done.stdout
    assert main(["train", "finetune.py", "--init_from=scratch", "--download", *ON_A_CPU]) == 2
    assert "--download: init_from=scratch is not something to download" in capsys.readouterr().err


@pytest.mark.slow
def test_files_and_flags_of_several_processes(room: Path) -> None:
    """They are passed on unchanged: the file comes last and wins, and notes are printed once."""
    (room / "last.py").write_text("max_iters = 1\n")
    command = [sys.executable, "-m", "nanopace", "train", "finetune.py", "--max_iters=5", "last.py", "--gpus", "2"]
    flags = [*ON_A_CPU, "--gradient_accumulation_steps=2", "--log_interval=1"]
    done = run([*command, *flags], ranks=True, env={**unmeasured(), "OMP_NUM_THREADS": "1", "LC_ALL": "C"})
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^iter (\d+): loss", done.stdout, re.MULTILINE) == ["0", "1"]
    assert done.stdout.count("wandb_run_name stays 'gpt2'") == 1
