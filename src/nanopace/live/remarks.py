"""Comments on the lines themselves: that none arrive, that they arrive in blocks, that they are not lines."""

from __future__ import annotations

import math

from nanopace.diagnosis.result import Diagnosis
from nanopace.live.comments import Comment
from nanopace.run import Rows
from nanopace.wording.catalog import Words


def usual_s(diagnosis: Diagnosis | None) -> tuple[float, float]:
    """The time of a row and of an evaluation, according to the log; 0 if unknown."""
    if diagnosis is None:
        return 0.0, 0.0
    row_ms = (diagnosis.step.median_ms or 0.0) * (diagnosis.source.log_interval or 1)
    return row_ms / 1000, (diagnosis.evaluations.each_ms or 0.0) / 1000


def first_not_finite(rows: Rows) -> int | None:
    """The iteration from which the loss has been NaN or infinite, if it still is in the last row."""
    first = None
    for at in range(len(rows) - 1, -1, -1):
        loss = rows[at].loss
        if loss is None or math.isfinite(loss):
            break
        first = rows.iteration[at]
    return first


def silent(silent_s: float, usual: float | None, last: int, words: Words) -> Comment:
    """`usual`: seconds between lines; None for a document."""
    numbers = {"time": words.duration(silent_s), "iteration": words.count(last)}
    if usual is None:
        said = words.text("The file has not changed for {time}. The last row was iteration {iteration}.", **numbers)
    else:
        said = words.text(
            "No line for {time}; they usually arrive every {usual}. The last row was iteration {iteration}.",
            usual=words.duration(usual),
            **numbers,
        )
    return Comment(said, "silent", last)


def again(silent_s: float, of_lines: bool, words: Words) -> Comment:
    """The silence is over."""
    time = words.duration(silent_s)
    if of_lines:
        return Comment(words.text("Lines are arriving again after {time}.", time=time))
    return Comment(words.text("The file is changing again after {time}.", time=time))


def in_blocks(rows: int, words: Words) -> Comment:
    said = words.text(
        "Rows arrive in blocks of about {count}: the trainer's output is buffered. With python -u or "
        "PYTHONUNBUFFERED=1, each arrives at once.",
        count=words.count(rows),
    )
    return Comment(said)


def no_lines(trainer: str, words: Words) -> Comment:
    """A document arrives through a pipe."""
    said = words.text("This is a {trainer} file, not lines of text; use nanopace watch FILE.", trainer=trainer)
    return Comment(said, "ended")
