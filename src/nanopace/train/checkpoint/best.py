"""Finds a run's best checkpoint: the one in best.json, checked against the checkpoints themselves.

best.json alone is not enough to remove a checkpoint. Its checksum must be right, the newest intact checkpoint must
agree, and the one it names must be intact. If any of these fails, every checkpoint that may be the best is kept.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nanopace.errors import InputError, Message
from nanopace.files import read_object, write_durably
from nanopace.train.checkpoint.layout import (
    CHECKPOINTS,
    Saved,
    checkpoint_directories,
    checksum_of,
    read_state,
    step_of,
)

BEST = "best.json"
Best = tuple[int, float]  # a step, and its validation loss

_LARGEST = 1 << 16  # bytes


def write_best(out_dir: Path, step: int, loss: float) -> None:
    content = {"step": step, "val": loss, "checksum": _checksum((step, loss))}
    write_durably(out_dir / BEST, json.dumps(content).encode("ascii") + b"\n")


def read_best(out_dir: Path) -> Best | None:
    """What best.json names; None if there is no such file or its checksum is wrong. Old versions wrote no checksum."""
    return _read(out_dir)[0]


def best_until(saved: Saved) -> Best | None:
    """The best evaluation up to this step. The step's own evaluation came after the save, so only best.json has it."""
    of_run = read_best(saved.path.parent.parent) if saved.path.parent.name == CHECKPOINTS else None
    known = [each for each in (saved.best, of_run) if each is not None and each[0] <= saved.step]
    return min(known, key=lambda each: each[1], default=None)


@dataclass(frozen=True, slots=True)
class KnownBest:
    """What is known about the best checkpoint when a run resumes."""

    best: Best | None = None
    certain: bool = True  # best.json is right and need not be rewritten
    protected: frozenset[int] = frozenset()  # steps not to remove: each may be the best
    warning: str | None = None  # for the user


def known_best(out_dir: Path, keep_last: int, is_intact: Callable[[Path], bool]) -> KnownBest:
    """`is_intact` verifies a checkpoint; it may cache the answer."""
    by_step = {step_of(each.name): each for each in checkpoint_directories(out_dir)}  # newest first
    intact = [step for step, each in by_step.items() if is_intact(each)]
    if not intact:
        return KnownBest(protected=frozenset(by_step))
    newest, older = intact[0], frozenset(by_step) - {*intact[:keep_last]}
    there = os.path.lexists(out_dir / BEST)  # nanoGPT's runs have none
    written, certain = _read(out_dir)
    of_state = _valid(read_state(by_step[newest]).get("best"))  # of the evaluations before this save
    if written is not None and written[0] in intact and _agrees(written, of_state, newest, by_step):
        return KnownBest(written) if certain else KnownBest(written, certain=False, protected=older | {newest})
    if of_state is not None and of_state[0] in intact:
        protected = {of_state[0], newest} | (by_step.keys() & {written[0]} if written is not None else set())
        return KnownBest(of_state, False, frozenset(protected), _warning(out_dir, protected) if there else None)
    if not there:  # perhaps no evaluation ever ran
        return KnownBest(protected=older)
    return KnownBest(protected=frozenset(by_step), warning=_warning(out_dir, by_step))


def _agrees(written: Best, of_state: Best | None, newest: int, there: Container[int]) -> bool:
    """Whether best.json and the newest state agree: both name the same, the state was saved before that evaluation, or
    the state names a better one that has no checkpoint."""
    if of_state is None or written == of_state:
        return written == of_state or written[0] == newest
    if written[1] < of_state[1]:
        return written[0] == newest
    return of_state[0] not in there


def _warning(out_dir: Path, protected: Iterable[int]) -> str:
    steps = ", ".join(map(str, sorted(protected)))
    return Message(
        "{path} does not say for certain which checkpoint is the best; the candidates are not removed: step {steps}",
        path=out_dir / BEST,
        steps=steps,
    )


def _read(out_dir: Path) -> tuple[Best | None, bool]:
    """The content of best.json, and whether its checksum confirms it."""
    try:
        content = read_object(out_dir / BEST, _LARGEST) or {}
    except InputError:
        return None, False
    best = _valid([content.get("step"), content.get("val")])
    if best is None or "checksum" not in content:
        return best, False
    return (best, True) if content["checksum"] == _checksum(best) else (None, False)


def _checksum(best: Best) -> str:
    return checksum_of({"step": best[0], "val": best[1]})


def _valid(best: Any) -> Best | None:
    """A step and its loss; None if the value is anything else."""
    try:
        step, loss = best
        found = int(step), float(loss)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found[1]) and found[0] >= 0 else None
