"""Layers updated in the backward pass, on a real card: `pytest -m gpu tests/gpu`.

tests/train/fused/test_step_in_backward.py uses the card, too.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nanopace.literals import Value
from nanopace.train.loop import passes as passes_module

from .test_fused import OURS, way
from .test_train import corpus, events, kernels, run  # noqa: F401

pytest.importorskip("triton")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA card")]

SINGLE: dict[str, Value] = {**OURS, "gradient_accumulation_steps": 1}


@pytest.mark.parametrize("launch_bound", [0.0, float("inf")])
def test_it_learns_what_a_run_learns_that_keeps_its_gradients(
    corpus: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    launch_bound: float,
) -> None:
    """With a CUDA graph, in which changing rates are read again in each step, and without one."""
    monkeypatch.setattr(passes_module, "_LAUNCH_BOUND", launch_bound)
    _, kept = run(corpus, tmp_path / "kept", **SINGLE, grad_clip=0.0, memory="averages")
    _, released = run(corpus, tmp_path / "released", **SINGLE, grad_clip=0.0, memory="gradients")
    assert way(tmp_path / "released") == "fused"
    graphs = [each for each in released.all("note") if "CUDA graph" in each]
    assert bool(graphs) == (launch_bound == 0.0)
    assert released.losses[30] < released.losses[0] - 1
    assert released.losses[0] == pytest.approx(kept.losses[0], abs=1e-4)  # the rehearsal left no trace
    assert list(released.losses.values()) == pytest.approx(list(kept.losses.values()), abs=0.02)
    norms = [[each["grad_norm"] for each in events(tmp_path / name, "step")] for name in ("released", "kept")]
    assert norms[0] == pytest.approx(norms[1], rel=0.1)


def test_clipped_as_it_goes_it_learns_as_well(corpus: Path, tmp_path: Path) -> None:  # noqa: F811
    _, kept = run(corpus, tmp_path / "kept", **SINGLE, memory="averages")
    _, released = run(corpus, tmp_path / "released", **SINGLE, memory="gradients")
    assert released.losses[30] == pytest.approx(kept.losses[30], abs=0.05)


def test_what_is_saved_is_of_one_step(corpus: Path, tmp_path: Path) -> None:  # noqa: F811
    """Copies are made while the next step runs, and that step changes weights before it ends."""
    knobs: dict[str, Value] = {**SINGLE, "memory": "gradients", "save_interval": 5, "keep_last": 9}
    _, through = run(corpus, tmp_path / "out", **knobs)
    _, rest = run(corpus, tmp_path / "out", **{**knobs, "init_from": "resume", "max_iters": 40})
    assert next(iter(rest.losses)) == 31
    _, whole = run(corpus, tmp_path / "whole", **{**knobs, "max_iters": 40, "lr_decay_iters": 20})
    assert list(through.losses.values()) == pytest.approx([whole.losses[each] for each in range(31)], abs=0.02)
    assert list(rest.losses.values()) == pytest.approx([whole.losses[each] for each in range(31, 41)], abs=0.02)
