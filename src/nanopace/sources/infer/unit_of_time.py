"""Corrects times that a program measures in seconds and prints as milliseconds.

    total desired batch size: 524288
    step 10 | loss: 9.8757 | dt: 0.41ms | tok/sec: 1278751.22

A printed rate shows it: times that time, it is a thousandth of a step's tokens. A rate that was divided by milliseconds
gives the same, but its times are right; then, they do not make the run faster than any machine.
"""

from __future__ import annotations

from nanopace.medians import median
from nanopace.record import replace
from nanopace.run import Caveat, Rows, Run

_PER_UNIT = 1000.0
_NEAR = 0.05
_IMPOSSIBLE = 3e7  # tokens per second


def with_times_in_ms(run: Run, tokens: int | None, row_tokens: object) -> Run:
    """The run with its times corrected. `row_tokens`: the tokens per second of a row times its time."""
    if not tokens or not isinstance(row_tokens, float) or row_tokens <= 0 or not len(run.rows):
        return run
    usual_s = median(run.rows.ms) / 1000
    if abs(tokens / row_tokens / _PER_UNIT - 1) > _NEAR or tokens / usual_s < _IMPOSSIBLE:
        return run
    numbers = {"batch": tokens, "printed_ms": 1000 * usual_s, "step_s": _PER_UNIT * usual_s}
    return replace(
        run,
        rows=_longer(run.rows),
        restarts=tuple(replace(each, lost=_longer(each.lost)) for each in run.restarts),
        caveats=(*run.caveats, Caveat("seconds_as_ms", numbers)),
    )


def _longer(rows: Rows) -> Rows:
    return Rows([replace(row, ms=_PER_UNIT * row.ms, sum_ms=_PER_UNIT * row.sum_ms) for row in rows])
