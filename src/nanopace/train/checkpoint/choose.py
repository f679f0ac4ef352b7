"""Chooses the checkpoint of a run that counts as its model: the best, the last, or a given step.

nanoGPT's out_dir holds one ckpt.pt; with always_save_checkpoint=False, the one with the lowest validation loss. Ours
holds several, including the last, however overfitted. So the best is used if the run's config asks for it, otherwise
the last; every command prints which one it uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from nanopace.errors import InputError, Message, NanopaceError, UsageError
from nanopace.knob_values import step_of_which
from nanopace.train.checkpoint.best import Best, read_best
from nanopace.train.checkpoint.layout import (
    NANOGPT_FILE,
    Saved,
    checkpoint_directories,
    newest_intact,
    read_state,
    step_of,
    verified,
)

_MOST_LISTED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The chosen checkpoint of a run, and why."""

    saved: Saved
    why: Literal["best", "last", "step"]
    asked: bool  # with --which; otherwise the run's config decided
    best: Best | None  # None if no evaluation was made, or its checkpoint is missing
    evaluated: bool
    newest: int  # the last step with a checkpoint, intact or not
    passed_over: Sequence[NanopaceError] = ()  # errors of the checkpoints that came first but cannot be used

    @property
    def reason(self) -> Message:
        """What was taken, why, and how to get the other one."""
        step, last, best = self.saved.step, self.newest, self.best
        if self.why == "step":
            return Message("step {step:,}, as requested", step=step)
        if best is not None and best[0] == step == last:
            return Message("step {step:,}, the best and the last: val loss {loss:.4f}", step=step, loss=best[1])
        if self.why == "best":
            assert best is not None
            if self.asked:
                return Message("step {step:,}, the best: val loss {loss:.4f}", step=step, loss=best[1])
            return Message(
                "step {step:,}, the best: val loss {loss:.4f} (the run has always_save_checkpoint=False); "
                "--which=last takes step {last:,}",
                step=step,
                loss=best[1],
                last=last,
            )
        if step != last:
            return Message("step {step:,}, the last intact one", step=step)
        if self.asked or (best is None and self.evaluated):
            return Message("step {step:,}, the last", step=step)
        if best is None:
            return Message("step {step:,}, the last; no evaluation was made, so the best is unknown", step=step)
        return Message(
            "step {step:,}, the last; --which=best takes step {best:,}: val loss {loss:.4f}",
            step=step,
            best=best[0],
            loss=best[1],
        )


def choose(out_dir: Path, which: str = "") -> Chosen:
    """`which`: 'best', 'last' or a step; '' is the best if the run has always_save_checkpoint=False, else the last."""
    step, steps, best = step_of_which(which), _steps(out_dir), best_of(out_dir)
    if not steps:
        raise InputError("{path}: no checkpoint here", path=out_dir)
    chosen = partial(Chosen, asked=bool(which), evaluated=best is not None, newest=steps[-1])
    available_best = best if best is not None and best[0] in steps else None
    if step is not None:
        return chosen(saved=verified(directory_of(out_dir, step)), why="step", best=available_best)
    refused: list[NanopaceError] = []
    if which == "best" or (not which and _wants_best(out_dir)):
        try:
            return chosen(saved=_verified_best(directory_of_best(out_dir)), why="best", best=best)
        except InputError as error:
            if which:
                raise
            refused.append(error)
            available_best = None
    saved, damaged = newest_intact(out_dir)
    if saved is None:
        raise damaged[0]
    return chosen(saved=saved, why="last", best=available_best, passed_over=(*refused, *damaged))


def best_of(out_dir: Path) -> Best | None:
    """The best known evaluation.

    best.json names one that has a checkpoint. The newest state.json may name a better one that could not be saved, but
    lacks an evaluation that came right after it was written.
    """
    of_state = _newest_state(out_dir).get("best")
    known: list[Best] = [(step, loss) for step, loss in filter(None, (read_best(out_dir), of_state))]
    return min(known, key=lambda best: best[1], default=None)


def directory_of(out_dir: Path, step: int) -> Path:
    """Where the checkpoint of a step is, intact or not."""
    for directory in checkpoint_directories(out_dir):
        if step_of(directory.name) == step:
            return directory
    raise InputError(
        "{path}: has no checkpoint of step {step}; its checkpoints are of steps {steps}",
        path=out_dir,
        step=step,
        steps=_listed(out_dir),
    )


def directory_of_best(out_dir: Path) -> Path:
    """Where the checkpoint with the lowest validation loss is, intact or not."""
    best = best_of(out_dir)
    if best is None:
        raise InputError("{path}: no evaluation was made, so its best checkpoint is unknown", path=out_dir)
    if best[0] not in (steps := _steps(out_dir)):
        theirs = out_dir / NANOGPT_FILE
        if theirs.exists() and (not steps or best[0] < steps[0]):
            raise InputError(
                "{path}: the best evaluation, step {step} with val loss {loss:.4f}, was before this run's checkpoints; "
                "nanoGPT's {file} probably holds it: name that file instead",
                path=out_dir,
                step=best[0],
                loss=best[1],
                file=theirs,
            )
        raise InputError(
            "{path}: the best evaluation, step {step} with val loss {loss:.4f}, has no checkpoint; "
            "the checkpoints here are of steps {steps}",
            path=out_dir,
            step=best[0],
            loss=best[1],
            steps=_listed(out_dir),
        )
    return directory_of(out_dir, best[0])


def nothing_to_choose(path: Path, which: str) -> UsageError:
    return UsageError(
        "--which={which}: {path} holds one model, so there is nothing to choose; --which is for the out_dir of a run",
        which=which,
        path=path,
    )


def _verified_best(directory: Path) -> Saved:
    try:
        return verified(directory)
    except InputError as error:
        raise InputError(
            "{path}: is the best checkpoint but cannot be used: {reason}", path=directory, reason=error
        ) from None


def _steps(out_dir: Path) -> Sequence[int]:
    return [step_of(each.name) for each in reversed(checkpoint_directories(out_dir))]


def _listed(out_dir: Path) -> str:
    """The steps for an error message; only the last ones if there are many."""
    steps = _steps(out_dir)
    return ("... " if len(steps) > _MOST_LISTED else "") + ", ".join(map(str, steps[-_MOST_LISTED:]))


def _wants_best(out_dir: Path) -> bool:
    return _newest_state(out_dir).get("config", {}).get("always_save_checkpoint") is False


def _newest_state(out_dir: Path) -> Mapping[str, Any]:
    """The newest readable state.json. It has the run's config and best even if the weights are damaged."""
    for directory in checkpoint_directories(out_dir):
        try:
            return read_state(directory)
        except InputError:
            continue
    return {}
