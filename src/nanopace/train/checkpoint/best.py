"""Which checkpoint of a run is its best, as best.json says and as others bear out.

No checkpoint is removed on the word of best.json alone. It has a checksum, the newest whole checkpoint must agree with
it, and the one that it names must be whole. Where one of these fails, whatever may be the best stays.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nanopace.errors import InputError
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
    """None where it says nothing, or is not as it was written. Those of earlier versions have no checksum."""
    return _read(out_dir)[0]


def best_until(saved: Saved) -> Best | None:
    """The best evaluation up to this step. Its own came after it was saved, and is in its run's best.json."""
    of_run = read_best(saved.path.parent.parent) if saved.path.parent.name == CHECKPOINTS else None
    known = [each for each in (saved.best, of_run) if each is not None and each[0] <= saved.step]
    return min(known, key=lambda each: each[1], default=None)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the best checkpoint when a run goes on."""

    best: Best | None = None
    certain: bool = True  # best.json says so, and need not be written anew
    spared: frozenset[int] = frozenset()  # steps that may be the best, where that is not certain
    doubt: str | None = None  # a line for a person


def known_best(out_dir: Path, keep_last: int, is_whole: Callable[[Path], bool]) -> Known:
    """Reads the newest whole checkpoints and the best one. `is_whole` may remember what it has read."""
    by_step = {step_of(each.name): each for each in checkpoint_directories(out_dir)}  # newest first
    whole = [step for step, each in by_step.items() if is_whole(each)]
    if not whole:
        return Known(spared=frozenset(by_step))
    newest, older = whole[0], frozenset(by_step) - {*whole[:keep_last]}
    there = os.path.lexists(out_dir / BEST)  # it need not be: nanoGPT's runs have none
    written, certain = _read(out_dir)
    of_state = _valid(read_state(by_step[newest]).get("best"))  # of all evaluations before it was saved
    if written is not None and written[0] in whole and _borne_out(written, of_state, newest, by_step):
        return Known(written) if certain else Known(written, certain=False, spared=older | {newest})
    if of_state is not None and of_state[0] in whole:
        spared = {of_state[0], newest} | (by_step.keys() & {written[0]} if written is not None else set())
        return Known(of_state, False, frozenset(spared), _doubt(out_dir, spared) if there else None)
    if not there:  # perhaps there never was one: then nothing is kept beyond the newest
        return Known(spared=older)
    return Known(spared=frozenset(by_step), doubt=_doubt(out_dir, by_step))


def _borne_out(written: Best, of_state: Best | None, newest: int, there: Container[int]) -> bool:
    """Whether the newest state agrees: it says the same, or was saved before that evaluation, or knows of a better one
    that has no checkpoint."""
    if of_state is None or written == of_state:
        return written == of_state or written[0] == newest
    if written[1] < of_state[1]:
        return written[0] == newest
    return of_state[0] not in there


def _doubt(out_dir: Path, spared: Iterable[int]) -> str:
    steps = ", ".join(map(str, sorted(spared)))
    return (
        f"{out_dir / BEST} does not say for certain which checkpoint is the best; those that may be are not removed: "
        f"of step {steps}"
    )


def _read(out_dir: Path) -> tuple[Best | None, bool]:
    """What it says, and whether that is certainly what was written."""
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
    """A step and its loss, as anybody may have written them."""
    try:
        step, loss = best
        found = int(step), float(loss)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found[1]) and found[0] >= 0 else None
