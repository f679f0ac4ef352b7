"""Thinning a long run for its charts loses no spike, whatever the run's shape."""

from __future__ import annotations

import math
from array import array
from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from nanopace.diagnosis import curves
from nanopace.diagnosis.curves import MOST_ROWS, STRETCHES, outlined
from nanopace.diagnosis.diagnose import diagnose
from nanopace.run import Row, Rows, Run

LENGTHS = st.integers(MOST_ROWS + 1, 6 * MOST_ROWS)


@given(LENGTHS, st.integers(0), st.sampled_from([0.0, 0.3, 1.0]))
def test_the_lowest_and_the_highest_of_every_stretch_survive(length: int, seed: int, unknown: float) -> None:
    chance = Random(seed)
    ms = array("d", (chance.lognormvariate(5, 1) for _ in range(length)))
    loss = array("d", (math.nan if chance.random() < unknown else chance.gauss(3, 1) for _ in range(length)))
    rows = sorted(chance.sample(range(length), chance.randint(MOST_ROWS + 1, length)))  # the others are slow
    kept = set(outlined(rows, (ms, loss)))
    assert len(kept) <= MOST_ROWS
    assert {rows[0], rows[-1]} <= kept <= set(rows)
    for begin, end in pairwise(part * len(rows) // STRETCHES for part in range(STRETCHES + 1)):
        stretch = rows[begin:end]
        assert {*stretch} & kept
        for column in (ms, loss):
            values = [column[index] for index in stretch if not math.isnan(column[index])]
            drawn = [column[index] for index in stretch if index in kept and not math.isnan(column[index])]
            if values:
                assert (min(drawn), max(drawn)) == (min(values), max(values))


@given(st.integers(MOST_ROWS + 300, 3 * MOST_ROWS), st.sets(st.integers(0, 3 * MOST_ROWS), max_size=60))
def test_every_slow_row_is_drawn(length: int, spikes: set[int]) -> None:
    rows = Rows([Row(n, 900.0 + n % 7 if n in spikes else 100.0 + n % 3, 3.0) for n in range(length)])
    found = diagnose(Run("made up", "nanogpt", rows, row_contains_evaluation=False))
    drawn = dict(zip(found.curves.row_iteration, found.curves.row_ms, strict=True))
    assert len(found.slow_rows) <= curves.MOST_OF_A_CAUSE
    assert {slow.iteration: slow.ms for slow in found.slow_rows}.items() <= drawn.items()
    assert {n for n in spikes if n < length} <= {*drawn}
