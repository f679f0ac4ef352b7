from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nanopace.corpus.prepare.dedup import DigestSet

DIGESTS = st.integers(0, 2**64 - 1) | st.integers(0, 5) | st.integers(2**64 - 3, 2**64 - 1)


def digests(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


@given(st.lists(st.lists(DIGESTS, max_size=20), max_size=20))
def test_like_a_set(groups: list[list[int]]) -> None:
    known, plain = DigestSet(), set[int]()
    for group in groups:
        expected = []
        for value in group:
            expected.append(value not in plain)
            plain.add(value)
        assert known.add(digests(*group)).tolist() == expected
    assert sorted(value for run in known._runs for value in run.tolist()) == sorted(plain)


def test_runs_stay_few() -> None:
    rng = np.random.default_rng(0)
    known = DigestSet()
    for _ in range(500):
        assert known.add(rng.integers(0, 2**64, 100, dtype=np.uint64)).all()
    assert len(known._runs) < 18
    assert sum(map(len, known._runs)) == 50_000
