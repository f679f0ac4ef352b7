"""The time to a loss: the rows of its table, for the terminal and the page."""

from __future__ import annotations

from nanopace.diagnosis.comparison import Arrival, Reached
from nanopace.wording.catalog import UNKNOWN, Words

Row = tuple[str, str, str, str]  # name, both runs, and b over a


def arrival_rows(arrival: Arrival, words: Words) -> list[Row]:
    """What each run needed to reach the loss; figures unknown for both are left out."""
    a, b = arrival.a, arrival.b
    rows = [
        (
            words.text("training time"),
            _when(a, words),
            _when(b, words),
            "" if _is_bound(a) or _is_bound(b) else _times(arrival.ratio, words),
        ),
        (words.text("uncertainty"), _span(a, words), _span(b, words), ""),
        (words.text("tokens"), words.si(a.tokens), words.si(b.tokens), _times(_over(b.tokens, a.tokens), words)),
        (
            words.text("iterations"),
            words.count(round(a.iteration)),
            words.count(round(b.iteration)),
            _times(_over(b.iteration, a.iteration), words),
        ),
        (words.text("between evaluations"), _around(a, words), _around(b, words), ""),
        (words.text("time source"), words.clock(a.clock), words.clock(b.clock), ""),
    ]
    return [row for row in rows if row[1:3] != (UNKNOWN, UNKNOWN)]


def arrival_notes(arrival: Arrival, words: Words) -> tuple[str, str]:
    """How to read the table."""
    error = words.number(arrival.error, 4)
    why = {
        "standard_error": words.text("Uncertainty: ±{error}, the standard errors of both losses.", error=error),
        "scatter": words.text("Uncertainty: ±{error}, the scatter of the evaluations.", error=error),
        "mixed": words.text(
            "Uncertainty: ±{error}, the standard error of one loss and the scatter of the other run's evaluations.",
            error=error,
        ),
        "unknown": words.text("Uncertainty: unknown; too few evaluations to see how they scatter."),
    }[arrival.error_basis]
    clock = words.text(
        "Time counts from the first step, including evaluations and checkpoints but not start-up and compilation; "
        "between two evaluations, the loss is interpolated linearly."
    )
    return (why, clock)


def goal_label(goal: float, words: Words) -> str:
    """The loss to reach."""
    return words.text("goal: {loss}", loss=words.number(goal, 4))


def _times(ratio: float | None, words: Words) -> str:
    return "" if ratio is None else words.factor(ratio)


def _over(b: float | None, a: float | None) -> float | None:
    return b / a if a and b else None


def _when(reached: Reached, words: Words) -> str:
    """The time it took. A run that continues another may start below the loss: that is not a time of zero."""
    if reached.seconds <= 0:
        return words.text("from the start")
    return ("≤ " if _is_bound(reached) else "") + words.duration(reached.seconds)


def _is_bound(reached: Reached) -> bool:
    """Whether the run's first evaluation already reaches the loss, so that it took no longer than that."""
    return reached.after_iteration is None and reached.seconds > 0


def _span(reached: Reached, words: Words) -> str:
    """From the loss plus the uncertainty to the loss minus the uncertainty, which the run may never have reached."""
    if reached.seconds <= 0:
        return ""
    if reached.early_s is None:
        return UNKNOWN
    early = words.duration(reached.early_s)
    if reached.late_s is None:
        return words.text("from {early}", early=early)
    late = words.duration(reached.late_s)
    return early if early == late else f"{early} – {late}"


def _around(reached: Reached, words: Words) -> str:
    """The iterations of the two evaluations, or of the first one if it already reaches the loss."""
    if reached.after_iteration is None:
        return words.count(reached.by_iteration)
    return f"{words.count(reached.after_iteration)} – {words.count(reached.by_iteration)}"
