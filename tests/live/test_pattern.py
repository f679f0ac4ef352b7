"""A log of any kind, watched with its pattern."""

from __future__ import annotations

import pytest

from nanopace.live.last_words import of_ending
from nanopace.wording.catalog import words

from .made_up import Heard, noise

pytest.importorskip("re2", reason="needs google-re2")

ROW = r"^(?P<iteration>\d+) -> (?P<loss>\S+) in (?P<ms>\S+)"
EVALUATION = r"^eval (?P<iteration>\d+) (?P<val>\S+)"


@pytest.mark.parametrize("behind", [False, True])
def test_its_rows_are_explained_as_they_come(behind: bool) -> None:
    """An evaluation belongs to the row of its iteration, or, if it comes after that, to the next one."""
    heard = Heard(header="", patterns=(ROW, EVALUATION))  # type: ignore[arg-type]
    lines = []
    for i in range(120):
        evaluated = i > 0 and i % 50 == 0
        ms = 100 + 0.4 * noise(i) + (4000 if evaluated else 0) + (30_000 if i == 70 else 0)
        lines += [f"eval {i - behind} {3 + 1 / (1 + i)}"] if evaluated else []
        lines.append(f"{i} -> {3 + 5 / (1 + i / 40):.4f} in {ms:.2f}")
    heard.lines(lines)
    assert "Iteration 50 is slow, but not because of training: evaluation 4.00 s, the step 100 ms." in heard.texts
    assert heard.alerts == [("stall", 70)]


def test_advice_does_not_name_nanogpts_knobs() -> None:
    heard = Heard(header="", patterns=(ROW,))  # type: ignore[arg-type]
    heard.lines([f"{i} -> 3.0 in {(100 if i < 80 else 250) + 0.4 * noise(i):.2f}" for i in range(140)])
    spill = next(each.text for each in heard.said if each.event == "slower")
    ended = of_ending("out_of_memory", 139, words(), elsewhere=True)
    assert "try a smaller micro-batch" in spill
    assert ended is not None
    assert "batch_size" not in spill + ended.text
