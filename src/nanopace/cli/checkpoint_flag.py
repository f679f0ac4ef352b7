"""Which checkpoint of a run a command takes: its flag, and what is said of those that were passed over."""

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


def passed_over_lines(chosen: Chosen | None, words: Words) -> list[str]:
    """What is wrong with the checkpoints that would have been preferred."""
    if chosen is None:
        return []
    return [
        words.text("{reason}; using step {step} instead", reason=words.error(each), step=words.count(chosen.saved.step))
        for each in chosen.passed_over
    ]
