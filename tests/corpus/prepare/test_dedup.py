from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.corpus.prepare.dedup import SEEN_FILE, Seen, SeenFile
from nanopace.errors import InputError

DIGESTS = st.integers(0, 2**64 - 1) | st.integers(0, 5) | st.integers(2**64 - 3, 2**64 - 1)


def digests(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


@given(st.lists(DIGESTS), st.lists(st.lists(DIGESTS, max_size=20), max_size=20))
def test_like_a_set(before: list[int], groups: list[list[int]]) -> None:
    seen, plain = Seen(digests(*before)), set(before)
    for group in groups:
        expected = []
        for value in group:
            expected.append(value not in plain)
            plain.add(value)
        assert seen.first_times(digests(*group)).tolist() == expected
    assert sorted(value for run in seen._runs for value in set(run.tolist())) == sorted(plain)


def test_runs_stay_few() -> None:
    rng = np.random.default_rng(0)
    seen = Seen(digests())
    for _ in range(500):
        assert seen.first_times(rng.integers(0, 2**64, 100, dtype=np.uint64)).all()
    assert len(seen._runs) < 18
    assert sum(map(len, seen._runs)) == 50_000


def test_the_file_goes_on_where_the_journal_says(tmp_path: Path) -> None:
    file = SeenFile(tmp_path, 0)
    assert file.read().tolist() == []
    file.add(digests(1, 2**64 - 1, 3))
    file.sync()
    file.close()
    again = SeenFile(tmp_path, 2)
    assert again.read().tolist() == [1, 2**64 - 1]
    again.add(digests(7))
    again.sync()
    assert (again.count, again.read().tolist()) == (3, [1, 2**64 - 1, 7])
    again.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_lacks_something(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"seen\.bin: is damaged; start anew with --restart"):
        SeenFile(tmp_path, 1)
    (tmp_path / SEEN_FILE).write_bytes(b"1234567")
    with pytest.raises(InputError, match=r"seen\.bin: is damaged"):
        SeenFile(tmp_path, 1)
