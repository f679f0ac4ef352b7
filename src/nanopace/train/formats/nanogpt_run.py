"""Resumes a nanoGPT run here: its ckpt.pt serves as the checkpoint.

What nanoGPT does not save starts fresh: random states, the loss scale of float16, and the windows, which it draws at
random. The first checkpoint saved afterwards is an ordinary one, and ckpt.pt is never written to.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from nanopace.config import KNOBS
from nanopace.errors import InputError
from nanopace.literals import shown
from nanopace.train.checkpoint.layout import Saved
from nanopace.train.formats.nanogpt_checkpoint import load_nanogpt
from nanopace.train.formats.pretrained import Pretrained


@dataclass(frozen=True, slots=True)
class SavedByNanoGPT(Saved):
    """A nanoGPT checkpoint that training can use like one of its own."""

    found: Pretrained

    def weights(self) -> dict[str, Tensor]:
        return dict(self.found.weights)

    def optimizer(self) -> dict[str, Tensor] | None:
        assert self.found.optimizer is not None, "without averages it is not opened"
        return dict(self.found.optimizer)

    @property
    def has_averages(self) -> bool:
        return True

    @property
    def ours(self) -> bool:
        return False


def open_nanogpt_run(path: Path) -> SavedByNanoGPT:
    """Open a ckpt.pt to resume its run; raise InputError if it lacks anything needed for that."""
    found = load_nanogpt(path)
    if found.optimizer is None:
        raise InputError(
            "{path}: its optimizer is not nanoGPT's AdamW over these weights, so its run cannot be resumed; "
            "--init_from={path} starts a new run from its weights",
            path=path,
        )
    if found.step == 0:
        raise InputError(
            "{path}: has no iter_num, so its run cannot be resumed; --init_from={path} starts a new run from its "
            "weights",
            path=path,
        )
    _check_knobs(found)
    return SavedByNanoGPT(
        path=path,
        step=found.step,
        config={name: value for name, value in found.config.items() if name in KNOBS},
        shape=found.shape,
        tokenizer_hash=None if found.tokenizer is None else found.tokenizer.hash,
        state={"best": found.best, "windows": found.windows},
        found=found,
    )


def _check_knobs(found: Pretrained) -> None:
    """Raise if a knob has an impossible value: the resumed run keeps them all. Sampling needs no such check."""
    for name, value in found.config.items():
        if name in KNOBS and KNOBS[name].fitted(value) is None:
            raise InputError(
                "{path}: {knob} must be {kind}, not {value}",
                path=found.path,
                knob=name,
                kind=KNOBS[name].kind,
                value=shown(value),
            )
