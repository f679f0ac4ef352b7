from __future__ import annotations

import pytest

from nanopace.diagnosis.result import Checkpoints


@pytest.mark.parametrize(
    ("each_ms", "low_ms", "high_ms", "shown"),
    [
        (5.0, 4.0, 5.5, True),
        (5.0, 4.0, 5.0, False),  # at most a fifth of it
        (None, 4.0, 9.0, False),
        (5.0, None, 9.0, False),
        (5.0, 4.0, None, False),
    ],
)
def test_a_wide_interval_is_shown(
    each_ms: float | None, low_ms: float | None, high_ms: float | None, shown: bool
) -> None:
    checkpoints = Checkpoints(3, each_ms, "measured", 3, 3, low_ms=low_ms, high_ms=high_ms)
    assert checkpoints.wide_interval == ((low_ms, high_ms) if shown else (None, None))
