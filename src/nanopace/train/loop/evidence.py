"""Saves the evidence of a step after which training could not continue.

    out/evidence-step-1234/
        evidence.json         the last losses and norms, which weights and gradients are not finite, config, data
        batch.safetensors     the tokens of that step, as this process saw them

Only tensors and text, no code.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nanopace.train.formats.atomic_files import exported_directory
from nanopace.train.loop.loss_watch import StepLoss
from nanopace.train.loop.parts import Parts
from nanopace.train.loop.stepper import Stepper
from nanopace.train.ranks import full_tensor

_EVIDENCE, _BATCH = "evidence.json", "batch.safetensors"


def save_evidence(
    directory: Path,
    parts: Parts,
    stepper: Stepper,
    last: Iterable[StepLoss],
    step: int,
    inputs: Tensor,
    targets: Tensor,
) -> None:
    """Repeat the step for its gradients and save the evidence. Every rank has to call it; the first one writes."""
    parts.passes.zero_grad()
    with nullcontext() if parts.release is None else parts.release.weights_frozen():
        loss = stepper.accumulate(step, inputs, targets)
    gradients = None
    if parts.release is None:  # otherwise they are gone
        parts.passes.finish()
        gradient_of = attrgetter("grad") if parts.host is None else parts.host.gradient_of
        gradients = _not_finite((name, gradient_of(each)) for name, each in parts.model.named_parameters())
    known = {
        "step": step,
        "last": [_as_json(each) for each in last],
        "once_more": {
            "loss": _number(float(loss)),
            "gradients_not_finite": gradients,
            "weights_not_finite": _not_finite(parts.model.named_parameters()),
        },
        "config": parts.plan.config.as_dict(),
        "data": _data(parts, step),
    }
    parts.passes.zero_grad()
    if parts.plan.ranks.first:
        write_evidence(directory, known, {"inputs": inputs, "targets": targets})


def write_evidence(directory: Path, known: Mapping[str, Any], batch: Mapping[str, Tensor] | None) -> None:
    from safetensors.torch import save_file

    with exported_directory(directory) as folder:
        (folder / _EVIDENCE).write_text(json.dumps(known, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        if batch is not None:
            save_file({name: each.cpu().contiguous() for name, each in batch.items()}, folder / _BATCH)


def _as_json(step: StepLoss) -> dict[str, Any]:
    return {"iteration": step.iteration, "loss": _number(step.loss), "grad_norm": _number(step.grad_norm)}


def _number(value: float) -> float | str:
    """The value as JSON can hold it: NaN and infinities become strings."""
    return value if math.isfinite(value) else str(value)


def _not_finite(tensors: Iterable[tuple[str, Tensor | None]]) -> list[str]:
    return [name for name, each in tensors if each is not None and not full_tensor(torch.isfinite(each).all())]


def _data(parts: Parts, step: int) -> dict[str, Any]:
    """Where the tokens come from, over all ranks. The seed alone determines their order."""
    config, offset = parts.plan.config, parts.plan.data_offset
    windows = config.gradient_accumulation_steps * config.batch_size
    described = parts.describe(step)
    return {
        "dataset": config.dataset,
        "corpus": described["corpus"],
        "order_seed": config.seed + offset,
        "data_offset": offset,
        "first_window": described["windows"],
        "windows": windows,
        "positions": parts.batches.order.starts(described["windows"], windows).tolist(),
    }
