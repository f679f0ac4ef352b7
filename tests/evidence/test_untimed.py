"""The same runs without row times: what is said about them is true, and not about time."""

from __future__ import annotations

import math

import pytest

from nanopace import compare, diagnose, render
from nanopace.diagnosis.codes import FINDINGS
from nanopace.record import replace
from nanopace.run import Run
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.table import NANOGPT

from .check_pair import Pair, pair_complaints
from .figures import complaints
from .judging import LANGUAGES, False_, read
from .plan import drawn, drawn_pair
from .truth import Truth, trained

RUNS, PAIRS = 120, 30
# Every other finding is about time or speed, or needs a trainer that prints more.
OF_LOSS = {
    *("untimed_log", "training_loss_course", "loss_spikes", "loss_noise", "overfitting", "gap_grows", "best_not_saved"),
    *("loss_diverged", "forecast", "calm_the_loss", "restarts_untimed"),
}
OF_LOSSES = {
    *("compare_untimed", "compare_both_untimed", "compare_data_unknown", "compare_loss_tokens", "compare_risen"),
    "compare_diverged",
    *("compare_loss_iterations", "compare_loss_equal", "compare_loss_uncertain", "compare_loss_unknown"),
    *("compare_late_start", "compare_same_settings", "compare_settings_unknown"),
    *(code for code in FINDINGS if code.endswith(("_knob", "_knobs", "_differ"))),
    *(code for code in FINDINGS if code.startswith(("compare_other_", "compare_vocabulary"))),
}


def untimed(truth: Truth, name: str = "train.log") -> Run:
    """A log that has its evaluations' times and, in half of the cases, the total time."""
    builder = RunBuilder(name, replace(NANOGPT, row_time="iteration"))
    with_times = read(truth)[0]
    metric = with_times.evaluations[0].metric if with_times.evaluations else "loss"
    for known, fact in with_times.facts.items():
        builder.fact(known, fact.value, fact.origin, fact.because)
    for line in truth.lines:
        if line.evaluated is not None:
            told = line.evaluated
            builder.evaluation(told.iteration, _printed(told.train), _printed(told.val), ms=told.ms, metric=metric)
            if told.save_ms is not None:
                builder.checkpoint(path="out")
        if line.row is not None:
            builder.untimed_row(line.row.iteration, _printed(line.row.loss))
    if truth.plan.seed % 2:
        builder.wall_ms(1000 * truth.total_s)
    (run,) = builder.finish()
    return run


def _printed(loss: float) -> float:
    return math.inf if math.isnan(loss) else loss  # as readers have it


def judged(seed: int) -> list[False_]:
    truth = trained(drawn(seed))
    diagnosis = diagnose(untimed(truth))
    assert not diagnosis.timed
    assert {finding.code for finding in diagnosis.findings} <= OF_LOSS
    said = " ".join(render(diagnosis, lang="en").split())
    assert " 0 ms" not in said
    assert "has no step times" in said
    assert render(diagnosis, lang=LANGUAGES[seed % 3])
    if seed % 40 == 0:
        assert "times-" not in render(diagnosis, format="html", lang="en")
    return list(complaints(truth, diagnosis))


def judged_pair(seed: int) -> list[False_]:
    """Alternately two without times, or one with and one without."""
    pair = Pair(*map(trained, drawn_pair(seed)))
    a, (timed,) = untimed(pair.a, "a.log"), read(pair.b, "b.log")
    comparison = compare(a, untimed(pair.b, "b.log") if seed % 2 else timed)
    assert {finding.code for finding in comparison.findings} <= OF_LOSSES
    assert comparison.arrival is None
    assert not comparison.equal_time
    assert render(comparison, lang=("en", *LANGUAGES)[seed % 4])
    return list(pair_complaints(pair, comparison))


@pytest.mark.slow
@pytest.mark.usefixtures("untraced")
def test_no_sentence_about_a_run_without_times_is_false() -> None:
    false = {seed: found for seed in range(RUNS) if (found := judged(seed))}
    assert not false


@pytest.mark.slow
@pytest.mark.usefixtures("untraced")
def test_no_sentence_about_two_runs_one_without_times_is_false() -> None:
    false = {seed: found for seed in range(PAIRS) if (found := judged_pair(seed))}
    assert not false
