"""Which checkpoint of a run a command takes: its flag, and the line that says which one it was."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nanopace.train.checkpoint.choose import Chosen
    from nanopace.wording.catalog import Words


def add_which(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--which",
        metavar="WHICH",
        help="checkpoint of the run: best, last or a step (default: best if it has always_save_checkpoint=False, "
        "else last)",
    )


def which_line(chosen: Chosen, words: Words) -> str:
    """What was taken, why, and how to get the other one."""
    step = words.count(chosen.saved.step)
    best, loss = (None, "") if chosen.best is None else (chosen.best[0], words.loss(chosen.best[1]))
    if chosen.why == "step":
        return words.text("step {step}, as requested", step=step)
    if best == chosen.saved.step == chosen.newest:
        return words.text("step {step}, the best and the last: val loss {loss}", step=step, loss=loss)
    if chosen.why == "best" and chosen.asked:
        return words.text("step {step}, the best: val loss {loss}", step=step, loss=loss)
    if chosen.why == "best":
        return words.text(
            "step {step}, the best: val loss {loss} (the run has always_save_checkpoint=False); "
            "--which last takes step {last}",
            step=step,
            loss=loss,
            last=words.count(chosen.newest),
        )
    if chosen.saved.step != chosen.newest:
        return words.text("step {step}, the last intact one", step=step)
    if chosen.asked or (best is None and chosen.evaluated):
        return words.text("step {step}, the last", step=step)
    if best is None:
        return words.text("step {step}, the last; no evaluation was made, so the best is unknown", step=step)
    return words.text(
        "step {step}, the last; --which best takes step {best}: val loss {loss}",
        step=step,
        best=words.count(best),
        loss=loss,
    )


def passed_over_lines(chosen: Chosen | None, words: Words) -> list[str]:
    """What is wrong with the checkpoints that would have been preferred."""
    if chosen is None:
        return []
    return [
        words.text("{reason}; using step {step} instead", reason=words.error(each), step=words.count(chosen.saved.step))
        for each in chosen.passed_over
    ]
