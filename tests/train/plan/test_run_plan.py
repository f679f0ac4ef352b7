"""One plan: what is decided in one place is read everywhere else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nanopace.config import TrainConfig
from nanopace.corpus.shards.corpus import open_corpus
from nanopace.memory_ladder import MEMORY_STEPS
from nanopace.train.checkpoint.lock import Claim
from nanopace.train.plan.device import Machine
from nanopace.train.plan.resolve import plan_run, replan
from nanopace.train.plan.run_plan import RunPlan
from nanopace.train.plan.settings import Settings, shape_of
from nanopace.train.ranks import Ranks

pytest.importorskip("triton")

CARD = Machine(torch.device("cuda", 0), "a card", "some card", 12.0)
LARGE = TrainConfig(n_layer=36, n_head=20, n_embd=1280, batch_size=8, gradient_accumulation_steps=1)


def planned(corpus: Path, config: TrainConfig = LARGE, ranks: int = 1) -> RunPlan:
    shape, claim = shape_of(config, "gelu"), Claim(Path("out"))
    settings = Settings(config, {"device": "cuda:0: found"})
    return plan_run(settings, shape, CARD, open_corpus(corpus), claim=claim, ranks=Ranks(size=ranks))


def test_memory_is_saved_by_the_kernels_that_run(corpus: Path) -> None:
    plan = planned(corpus)
    assert (plan.kernels.value, plan.memory_steps.value) == ("fused", MEMORY_STEPS)
    for other in (planned(corpus, replace(LARGE, fused=False)), planned(corpus, ranks=2)):
        assert (other.kernels.value, other.memory_steps.value) == ("compiled", ())


def test_after_a_rollback_with_smaller_micro_batches_gradients_are_kept(corpus: Path) -> None:
    plan = planned(corpus)
    again = replan(plan, None, 4)
    assert (again.micro_batch, again.data_offset, again.memory_steps.value) == (4, 1, MEMORY_STEPS[:-1])
    assert replan(again, None, 8) == replace(plan, data_offset=2)


def test_the_header_says_every_choice_in_its_order(corpus: Path) -> None:
    said = planned(corpus).reasons
    assert list(said) == ["device", "tf32", "attention", "kernels", "memory", "evaluation"]
    assert said["kernels"].startswith("fused: our own kernels")
    assert said["memory"].endswith("GiB, and 12.7 without gradients")
