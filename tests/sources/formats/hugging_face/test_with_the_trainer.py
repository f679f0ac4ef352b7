"""What Hugging Face's Trainer really writes: console, state and event file of one run agree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nanopace.run import Run
from nanopace.sources.runs import open_runs

TRAINING = """
import sys, time, torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
class Tokens(torch.utils.data.Dataset):
    def __init__(self, rows, wait_s): self.rows, self.wait_s = rows, wait_s
    def __len__(self): return self.rows
    def __getitem__(self, index):
        time.sleep(self.wait_s)  # a clock of whole seconds has to see it
        ids = torch.arange(16) * (index % 5 + 1) % 50
        return {"input_ids": ids, "labels": ids}
model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=16, n_head=2, vocab_size=50, n_positions=16))
for steps, resume in ((45, False), (60, True)):
    arguments = TrainingArguments(
        output_dir=sys.argv[1], max_steps=steps, per_device_train_batch_size=4, logging_steps=5, eval_strategy="steps",
        eval_steps=15, save_steps=15, report_to=["tensorboard"], use_cpu=True, include_num_input_tokens_seen="all",
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=Tokens(400, 0.04), eval_dataset=Tokens(8, 0.01))
    trainer.train(resume_from_checkpoint=resume)
"""


@pytest.fixture(scope="module", params=["buffered", "unbuffered"])
def trained(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A run of 45 steps, and its continuation to 60. If its output is buffered, dicts come several at a time."""
    folder = tmp_path_factory.mktemp(request.param)
    unbuffered = "1" if request.param == "unbuffered" else ""
    with (folder / "console.log").open("wb") as console:
        subprocess.run(
            [sys.executable, "-c", TRAINING, folder],
            check=True,
            stdout=console,
            stderr=subprocess.STDOUT,  # both into one pipe
            env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": unbuffered},
        )
    return folder


def history_of(folder: Path) -> tuple[dict[int, float], dict[int, float]]:
    """Losses by step, of training and validation."""
    entries = json.loads((folder / "checkpoint-60" / "trainer_state.json").read_text())["log_history"]
    train = {each["step"]: each["loss"] for each in entries if "loss" in each}
    return train, {each["step"]: each["eval_loss"] for each in entries if "eval_loss" in each}


def check(
    run: Run, train: dict[int, float], validation: dict[int, float], last: int = 60, first: int = 0, perhaps: int = 0
) -> None:
    """`perhaps` is the first row after a resume, which has no time if a clock of whole seconds still shows 0."""
    losses = dict(zip(run.rows.iteration, run.rows.loss, strict=True))
    assert losses == {
        step: pytest.approx(loss, rel=1e-3)
        for step, loss in train.items()
        if first < step <= last and (step != perhaps or step in losses)
    }
    assert {each.iteration: each.val for each in run.evaluations} == {
        step: pytest.approx(loss, rel=1e-3) for step, loss in validation.items() if first < step <= last
    }
    assert all(each.ms is not None and each.ms > 0 for each in run.evaluations)


def test_its_files_agree(trained: Path) -> None:
    train, validation = history_of(trained)
    assert (list(train), list(validation)) == (list(range(5, 65, 5)), [15, 30, 45, 60])
    (console,) = open_runs(trained / "console.log")
    check(console, train, validation, perhaps=50)
    assert (console.value("max_iters"), console.ending, len(console.restarts)) == (60, "finished", 1)
    (state,) = open_runs(trained / "checkpoint-60" / "trainer_state.json")
    check(state, train, validation)
    assert sum(console.rows.ms) == pytest.approx(sum(state.rows.ms), rel=0.25)
    assert state.value("tokens_per_iteration") == console.value("tokens_per_iteration") == 4 * 16
    first, second = sorted(trained.glob("runs/*/events*"), key=lambda path: path.name)
    (tracked,) = open_runs(first)
    check(tracked, train, validation, last=45)
    assert sum(tracked.rows.ms[1:]) == pytest.approx(sum(state.rows.ms[1:9]), rel=0.3, abs=100)  # by two clocks
    (resumed,) = open_runs(second)
    check(resumed, train, validation, first=50)  # how many steps the time before step 50 covers, is unknown
