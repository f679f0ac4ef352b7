"""torch's distributed engine on a real card: one process is all that one card allows. `pytest -m gpu tests/gpu`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nanopace.ledger import StepEvent, read_ledger
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import newest_intact

from .test_train import MIDDLE, corpus, kernels, run  # noqa: F401

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA card")]

SMALL: dict[str, Value] = {
    "n_layer": 4, "n_head": 4, "n_embd": 256, "block_size": 256, "batch_size": 8, "gradient_accumulation_steps": 4,
    "dropout": 0.0, "learning_rate": 1e-3, "max_iters": 10, "eval_interval": 5, "eval_iters": 2,
}  # fmt: skip


def losses_of(out_dir: Path) -> dict[int, float | None]:
    with open(out_dir / "ledger.jsonl", "rb") as file:
        return {each.iteration: each.loss for each in read_ledger(file).events if isinstance(each, StepEvent)}


@pytest.mark.parametrize(("dtype", "compiled"), [("float32", False), ("bfloat16", True)])
def test_shards_of_one_card_train_as_the_card_does(
    corpus: Path,  # noqa: F811
    tmp_path: Path,
    dtype: str,
    compiled: bool,
) -> None:
    knobs = {**MIDDLE, **SMALL, "dtype": dtype, "compile": compiled}
    run(corpus, tmp_path / "plain", **knobs)
    flags = {**knobs, "dataset": str(corpus), "out_dir": str(tmp_path / "shards"), "parallel": "fsdp"}
    words = [f"--{name}={value}" for name, value in flags.items()]
    done = subprocess.run(
        [sys.executable, "-m", "nanopace", "train", "--gpus=1", "--no-report", *words],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    ours, theirs = losses_of(tmp_path / "shards"), losses_of(tmp_path / "plain")
    assert list(ours) == list(theirs) == list(range(11))
    assert list(ours.values()) == pytest.approx(list(theirs.values()), abs=1e-3 if dtype == "float32" else 0.03)
    saved, refused = newest_intact(tmp_path / "shards")
    assert saved is not None
    assert not refused
    assert saved.sharded
    run(corpus, tmp_path / "shards", **{**knobs, "init_from": "resume", "max_iters": 12})
    assert list(losses_of(tmp_path / "shards")) == list(range(13))
