from __future__ import annotations

import pytest

from nanopace.run import Row
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.table import NANOCHAT, NANOGPT

from .processes.test_rank_prefixes import nanochat_row
from .reading import read


def test_a_long_run_is_folded_and_keeps_its_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluations stay where they were, and so does a restart."""
    lines = []
    for at in [*range(4000), *range(3500, 6000)]:
        if at % 500 == 0:
            lines.append(f"Step {at:05d} | Validation bpb: 1.{at:04d}")
        lines.append(nanochat_row(at, 300.0 + at % 5 + (900 if at % 777 == 0 else 0)))
    text = "\n".join(lines) + "\n"
    (plain,) = read(text)
    monkeypatch.setattr("nanopace.sources.draft.FOLD_ROWS", 1000)
    (folded,) = read(text)
    assert len(folded.rows) < len(plain.rows) / 2
    assert folded.rows.lines == plain.rows.lines == 6000
    assert sum(folded.rows.sum_ms) == pytest.approx(sum(plain.rows.ms))
    assert folded.evaluations == plain.evaluations
    assert [(each.iteration, each.reached, each.lost.lines) for each in folded.restarts] == [(3500, 3999, 500)]
    assert max(folded.rows.ms) > 1000  # a slow one stays what it is
    (restart,) = folded.restarts
    assert folded.rows.iteration[restart.row] == 3500


@pytest.mark.parametrize(
    ("rows", "counts"),
    [
        (600, [1] * 600),
        (601, [1] * 500 + [100, 1]),
        (700, [1] * 500 + [100] + [1] * 100),
        (701, [1] * 500 + [100, 100, 1]),
    ],
)
def test_all_but_the_first_500_rows_are_folded_a_part_at_a_time(
    rows: int, counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nanopace.sources.draft.FOLD_ROWS", 100)
    builder = RunBuilder("log", NANOCHAT)
    for at in range(rows):
        builder.row(Row(at, 10.0))
    (run,) = builder.finish()
    assert list(run.rows.count) == counts


def test_events_stay_in_their_rows_when_these_are_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nanopace.sources.draft.FOLD_ROWS", 100)
    builder = RunBuilder("log", NANOGPT)
    for at in range(0, 1300, 2):
        if at in (998, 1100, 1150):
            builder.evaluation(at, 1.0, 2.0)
            builder.checkpoint(path="out")
        if at == 1120:
            builder.evaluation(at - 1, 1.0, 2.0)  # between two rows
        builder.row(Row(at, 10.0))
    (run,) = builder.finish()
    assert len(run.rows) < 600
    inside = {each.iteration: each.row for each in run.evaluations}
    assert {at: row if row is None else run.rows.iteration[row] for at, row in inside.items()} == {
        998: 998,
        1100: 1100,
        1119: None,
        1150: 1150,
    }
    assert [run.rows.iteration[each.row] for each in run.checkpoints if each.row is not None] == [998, 1100, 1150]
    assert all(run.rows.count[row] == 1 for row in inside.values() if row is not None)
    assert 1120 in run.rows.iteration  # no group spans the evaluation before it
