from __future__ import annotations

import pytest

from .processes.test_rank_prefixes import Read, nanochat_row


def test_a_long_run_is_folded_and_keeps_its_sums(monkeypatch: pytest.MonkeyPatch, read: Read) -> None:
    """Evaluations stay where they were, and a restart too."""
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
