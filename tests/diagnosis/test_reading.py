from __future__ import annotations

import pytest

from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.loss.losses import describe_loss
from nanopace.diagnosis.reading import reading_findings
from nanopace.record import replace
from nanopace.run import OtherRanks, Run, Unread

from .synthetic import nanogpt_run


@pytest.fixture(scope="module")
def run() -> Run:
    return nanogpt_run(2000)


def test_of_a_plain_log_nothing_is_said(run: Run) -> None:
    assert reading_findings(run) == []


def test_what_has_to_be_known_comes_first(run: Run) -> None:
    odd = replace(
        run,
        quoted=(10, 12),
        truncated=True,
        unread=Unread(3, 12, "step 5: x"),
        rows_cover=100,
        rows_cover_shown_by="stamps",
    )
    findings = diagnose(odd).findings
    assert [(each.code, dict(each.numbers)) for each in findings[:4]] == [
        ("quoted_log", {"log_lines": 10, "lines": 12, "rows": None}),
        ("log_truncated", {"last_iteration": 2000}),
        ("unread_evaluations", {"count": 3, "line": 12, "line_text": "step 5: x"}),
        ("rows_cover_several", {"iterations": 100, "shown_by": "stamps"}),
    ]


def test_what_was_left_out_is_said(run: Run) -> None:
    odd = replace(run, runs_of_file=300, other_ranks=OtherRanks(0, 8, 1400), rows_of_others=60)
    assert [(each.code, dict(each.numbers)) for each in reading_findings(odd)] == [
        ("many_runs", {"runs": 300}),
        ("other_ranks", {"rank": 0, "ranks": 8, "rows": 1400}),
        ("interleaved_processes", {"rows": 60}),
    ]


def test_prose_that_quotes_a_few_rows(run: Run) -> None:
    (finding,) = reading_findings(replace(run, quoted=(21, 80)))
    assert finding.numbers == {"log_lines": None, "lines": None, "rows": 21}


def test_bits_per_character_have_no_perplexity(run: Run) -> None:
    in_bits = replace(run, evaluations=tuple(replace(each, metric="bpc") for each in run.evaluations))
    loss, _ = describe_loss(in_bits)
    assert (loss.metric, loss.best_val, loss.best_val_perplexity) == ("bpc", 4.1, None)
    assert describe_loss(run)[0].best_val_perplexity is not None
