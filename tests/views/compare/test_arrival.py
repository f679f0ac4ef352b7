"""The time to a loss, in the terminal and on the page."""

from __future__ import annotations

import re
from typing import Any

import pytest

from nanopace.diagnosis.comparison import Arrival, Comparison, Reached
from nanopace.diagnosis.result import Diagnosis, Finding
from nanopace.record import replace
from nanopace.views.compare.arrival import arrival_rows
from nanopace.views.page.arrival_charts import arrival_charts
from nanopace.views.page.page import compare_page
from nanopace.wording.catalog import words
from nanopace.wording.numbers import LANGUAGES

from ..cases import case_2, printed

SLOW = Reached(180.4, 171.0, None, 180.0, 150, 180, 94.4e6, "rows")
FAST = Reached(21.3, 20.1, 23.0, 9.9, 5, 10, 5.2e6, "measured")
SOONER = {"sooner": "wide.log", "later": "narrow.log", "target_loss": 4.152, "sooner_s": 21.3, "later_s": 180.4} | {
    "sooner_ratio": 180.4 / 21.3,
    "sooner_tokens": 5.2e6,
    "later_tokens": 94.4e6,
}
SAID = (
    "B reaches a validation loss of 4.1520 in 21.3 s, 8.47x faster than A (3 min 0 s), with 5.2M instead of 94.4M "
    "tokens."
)


def evaluated(run: Diagnosis, *points: tuple[int, float, float]) -> Diagnosis:
    iterations, seconds, vals = zip(*points, strict=True)
    unknown = (None,) * len(points)
    curves = replace(run.curves, eval_iteration=iterations, eval_seconds=seconds, eval_val=vals, eval_train=unknown)
    return replace(run, curves=replace(curves, eval_saved=(False,) * len(points), row_seconds=curves.row_ms))


def arrived(arrival: Any = None, *findings: Finding) -> Comparison:
    found = case_2()
    return replace(
        found,
        a=evaluated(found.a, (0, 70.0, 10.9), (150, 220.0, 4.3), (180, 250.4, 4.152)),
        b=evaluated(found.b, (0, 10.0, 10.9), (5, 20.0, 6.0), (10, 31.5, 4.1), (180, 190.0, 3.2)),
        arrival=arrival or Arrival("loss", 4.152, 0.01, "mixed", SLOW, FAST, FAST.seconds / SLOW.seconds, "b"),
        findings=(*found.findings, *(findings or (Finding("compare_sooner", SOONER),))),
    )


def plain(comparison: Comparison, lang: str = "en") -> str:
    return printed(comparison, lang=lang).replace("\u00a0", " ")


def test_the_verdict_ends_with_who_is_sooner() -> None:
    assert " ".join(plain(arrived()).split("\n\n")[0].split()).endswith(SAID)


def test_amounts_that_print_alike_are_not_said_to_differ() -> None:
    alike = Finding("compare_sooner", SOONER | {"sooner_tokens": 8.22e6, "later_tokens": 8.19e6})
    text = " ".join(plain(arrived(None, alike)).split())
    assert text.count("8.2M instead of") == 0
    assert "with about the same number of tokens." in text


def test_the_table_says_what_it_rests_on() -> None:
    text = plain(arrived())
    section = text[text.index("Time to the same validation loss") :].split("\n\n")[0]
    assert re.search(r"goal: 4\.1520 +A +B +B/A", section)
    assert re.search(r"training time +3 min 0 s +21\.3 s +×0\.12", section)
    assert re.search(r"uncertainty +from 2 min 51 s +20\.1 s – 23\.0 s", section)
    assert re.search(r"tokens +94\.4M +5\.2M +×0\.055", section)
    assert re.search(r"between evaluations +150 – 180 +5 – 10", section)
    assert re.search(r"time source +log rows +measured", section)
    assert "±0.0100" in section
    assert "but not start-up and compilation" in " ".join(section.split())


def test_what_is_not_known_is_not_shown() -> None:
    found = arrived()
    assert found.arrival is not None
    unknown = replace(found.arrival, a=replace(SLOW, tokens=None), b=replace(FAST, tokens=None))
    assert "tokens" not in [row[0] for row in arrival_rows(unknown, words("en"))]
    assert "Time to the same" not in plain(case_2())
    assert arrival_charts([case_2()], words("en")) == ()
    late = replace(case_2(), findings=(Finding("compare_late_start", {"run": "wide.log", "iteration": 500}),))
    assert "The log of B starts at iteration 500" in plain(late)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("basis", ["standard_error", "scatter", "mixed"])
def test_it_fits_in_every_language(language: str, basis: Any) -> None:
    arrival = Arrival("loss", 4.152, 0.01, basis, SLOW, replace(FAST, clock="incomplete"), 0.12, "b")
    text = plain(arrived(arrival), language)
    assert max(map(len, text.splitlines())) <= 80
    assert f"±{words(language).number(0.01, 4)}" in text


def test_the_curves_are_on_the_clock_of_training_with_the_goal() -> None:
    by_time, by_tokens = arrival_charts([arrived()], words("en"))
    a, b, goal, a_there, b_there = by_time.series
    assert (a.label, a.x) == ("A narrow.log", (0.0, 150.0, pytest.approx(180.4))), "start-up is not in it"
    assert (b.label, b.x) == ("B wide.log", (0.0, 10.0, 21.5, 180.0))
    assert (goal.label, goal.x, goal.y) == ("goal: 4.1520", (0.0, pytest.approx(180.4)), (4.152, 4.152))
    assert (a_there.x, b_there.x, b_there.y) == ((180.4,), (21.3,), (4.152,))
    assert len({(series.mark, series.dash) for series in (a, b, goal, a_there)}) == 4, "not by colour alone"
    assert by_tokens.series[0].x == tuple(iteration * 524_288.0 for iteration in (0, 150, 180))
    assert by_tokens.series[4].x == (5.2e6,)
    assert (by_time.x_unit, by_tokens.x_unit) == ("seconds", "tokens")


def test_one_goal_for_all_pairs_is_one_line_and_a_run_without_one_is_left_out() -> None:
    (chart, _) = arrival_charts([arrived(), case_2(), arrived()], words("en"))
    assert [each.label for each in chart.series] == [
        "A narrow.log", "B wide.log", "D wide.log", "goal: 4.1520", "A reaches it", "B reaches it", "D reaches it",
    ]  # fmt: skip


def test_without_tokens_there_is_no_chart_against_them() -> None:
    found = arrived()
    nameless = replace(found, b=replace(found.b, throughput=replace(found.b.throughput, tokens_per_iteration=None)))
    assert [chart.name for chart in arrival_charts([nameless], words("en"))] == ["arrival-seconds"]


def test_the_page_has_the_sentence_the_chart_and_the_table() -> None:
    page = compare_page([arrived()], words("en"))
    text = " ".join(re.sub(r"<[^>]+>", " ", page).replace("\u00a0", " ").split())
    assert SAID in text
    assert text.count(SAID) == 1
    assert page.index('data-chart="all-arrival-seconds"') < page.index('data-chart="all-times"')
    assert "goal: 4.1520" in text
    assert "between two evaluations, the loss is interpolated linearly" in text


def test_an_interval_of_one_figure_is_shown_as_one() -> None:
    near = replace(SLOW, seconds=15_120.0, early_s=15_110.0, late_s=15_130.0)
    assert arrival_rows(Arrival("loss", 3.3, 0.001, "scatter", near, FAST, 0.1, "b"), words("en"))[1][1] == "4.2\u00a0h"


def test_two_runs_that_were_there_before_their_first_step_have_no_table() -> None:
    """Neither ever was better than the untrained model."""
    there = replace(SLOW, seconds=0.0, early_s=None, late_s=None)
    both = arrived(Arrival("loss", 6.93, None, "unknown", there, there, None, None))
    assert "from the start" not in plain(both)
    assert "from the start" in plain(arrived(Arrival("loss", 6.93, None, "unknown", there, SLOW, None, None)))
