from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nanopace.diagnosis.advice import advise
from nanopace.diagnosis.codes import FINDINGS
from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Diagnosis, Finding
from nanopace.record import replace

from .advised import GPT2, codes, run_of
from .synthetic import rows_run


@pytest.fixture
def case_1(make_diagnosis: Any) -> Diagnosis:
    """40 evaluations of 5.136 s and 33 checkpoints of 0.467 s in an hour."""
    evaluation_s, checkpoint_s, total_s = 40 * 5.136, 33 * 0.467, 3620.0
    return make_diagnosis(  # type: ignore[no-any-return]
        evaluations={"count": 40, "visible": 40, "each_ms": 5136.0, "interval": 500},
        checkpoints={"count": 33, "each_ms": 467.0, "basis": "measured", "saved_rows": 33, "unsaved_rows": 7},
        wall={
            "total_s": total_s,
            "evaluation_s": evaluation_s,
            "checkpoint_s": checkpoint_s,
            "overhead_share": (evaluation_s + checkpoint_s) / total_s,
        },
    )


def test_case_1_is_worth_tuning(case_1: Diagnosis) -> None:
    interval, iters, saves = advise(run_of(), case_1)
    assert interval.code == "raise_eval_interval"
    assert interval.numbers == {"from_interval": 500, "to_interval": 2000, "evaluations": 10}
    assert interval.saves_s == pytest.approx(30 * 5.136 + 23 * 0.467)  # ten remain, and each may save
    assert interval.saves_share == pytest.approx(0.0456, abs=0.0005)
    assert iters.code == "lower_eval_iters_unknown"
    assert iters.numbers == {"factor": 4, "noise_factor": 2}
    assert iters.saves_share == pytest.approx(0.0426, abs=0.0005)
    assert saves.code == "save_less_often"
    assert saves.numbers == {"checkpoints": 33, "to_checkpoints": 8}
    assert saves.saves_s == pytest.approx(25 * 0.467)
    assert all(finding.advice for finding in (interval, iters, saves))


@pytest.mark.parametrize(
    ("iters", "to_iters", "noise_factor", "share"), [(200, 50, 2, 0.75), (40, 20, 2**0.5, 0.5), (20, None, None, None)]
)
def test_known_eval_iters_are_named(
    case_1: Diagnosis, iters: int, to_iters: int | None, noise_factor: float, share: float
) -> None:
    found = [finding for finding in advise(run_of(eval_iters=iters), case_1) if "eval_iters" in finding.code]
    if to_iters is None:
        assert not found
        return
    assert found[0].numbers == {
        "from_iters": iters,
        "to_iters": to_iters,
        "noise_factor": pytest.approx(noise_factor),
    }
    assert found[0].saves_s == pytest.approx(40 * 5.136 * share)


@pytest.mark.parametrize("overhead", [0.0042, 0.0077, 0.0])
def test_case_2_is_not(make_diagnosis: Any, overhead: float) -> None:
    diagnosis = make_diagnosis(
        log_interval=200,
        evaluations={"count": 40, "visible": 20, "hidden": 20, "each_ms": 15_280.0, "interval": 500},
        checkpoints={"count": 40, "each_ms": 15_000.0, "basis": "measured"},
        wall={"total_s": 78_900.0, "overhead_share": overhead},
    )
    (nothing,) = advise(run_of(eval_iters=200, compile=True), diagnosis)
    assert (nothing.code, nothing.numbers) == ("nothing_to_change", {"overhead_share": overhead})


def test_nothing_is_not_said_where_it_is_not_true(make_diagnosis: Any) -> None:
    assert codes(advise(run_of(), make_diagnosis())) == ["nothing_to_change"]
    assert advise(run_of(), make_diagnosis(wall={"overhead_share": None})) == []
    assert advise(run_of(), make_diagnosis(mfu=0.2, card="Some card", peak=100.0)) == []
    assert advise(run_of(), make_diagnosis(findings=[Finding("memory_spill")])) == []
    assert codes(advise(run_of(compile=False), make_diagnosis())) == ["turn_on_compile"]


def test_the_interval_is_raised_only_as_far_as_needed(make_diagnosis: Any) -> None:
    def raised(overhead: float, *, iterations: int = 20_000, **more: Any) -> Any:
        diagnosis = make_diagnosis(
            iterations=iterations,
            evaluations={"count": iterations // 100, "each_ms": 1.0, "interval": 100},
            wall={"overhead_share": overhead},
            **more,
        )
        found = [f.numbers for f in advise(run_of(), diagnosis) if f.code == "raise_eval_interval"]
        return (found[0]["to_interval"], found[0]["evaluations"]) if found else None

    assert raised(0.015) == (200, 100)
    assert raised(0.04) == (500, 40)
    assert raised(0.30) == (1000, 20)  # never more than tenfold
    assert raised(0.30, iterations=5000) == (500, 10)  # ten evaluations remain
    assert raised(0.30, iterations=1000) is None
    assert raised(0.30, iterations=1000, max_iters=20_000) == (1000, 20)  # ... of the whole run


def test_a_saving_that_is_partly_checkpoint_is_not_claimed(make_diagnosis: Any) -> None:
    def saved(predicted_ms: float | None) -> float | None:
        diagnosis = make_diagnosis(
            evaluations={
                "count": 40, "each_ms": 5000.0, "interval": 500, "contains_checkpoint": True,
                "predicted_ms": predicted_ms,
            },
            wall={"overhead_share": 0.1, "evaluation_s": 200.0},
        )  # fmt: skip
        (finding,) = [f for f in advise(run_of(eval_iters=200), diagnosis) if f.code == "lower_eval_iters"]
        return finding.saves_s

    assert saved(None) is None
    assert saved(4000.0) == pytest.approx(40 * 4 * 0.75)
    assert saved(9000.0) == pytest.approx(40 * 5 * 0.75)


def test_stalls_are_to_be_found(make_diagnosis: Any) -> None:
    periodic = Finding("periodic_stalls", {"interval": 250})
    finding = advise(run_of(), make_diagnosis(wall={"stall_s": 100.0}, findings=[periodic]))[0]
    assert (finding.code, finding.numbers) == ("find_the_stall", {"interval": 250})
    assert (finding.saves_s, finding.saves_share) == (100.0, 0.05)
    part = Finding("periodic_stalls", {"interval": 250, "total_s": 60.0})
    assert advise(run_of(), make_diagnosis(wall={"stall_s": 100.0}, findings=[part]))[0].saves_s == 60.0
    assert advise(run_of(), make_diagnosis(wall={"stall_s": 100.0}))[0].numbers == {"interval": None}
    assert codes(advise(run_of(), make_diagnosis(wall={"stall_s": 10.0}))) == ["nothing_to_change"]
    little = Finding("uneven_rows", {"rows": 90, "total_s": 95.0})
    assert codes(advise(run_of(), make_diagnosis(wall={"stall_s": 100.0}, findings=[little]))) == []
    short = make_diagnosis(wall={"stall_s": 0.9, "total_s": 9.0})
    assert "find_the_stall" not in codes(advise(run_of(), short)), "nobody searches an hour for that"


def test_no_interval_shows_what_a_stopped_clock_hides(make_diagnosis: Any) -> None:
    diagnosis = make_diagnosis(
        log_interval=1, evaluations={"count": 9, "hidden": 9, "interval": 250}, wall={"overhead_share": None}
    )
    assert advise(run_of(), diagnosis) == []


@given(
    overhead=st.none() | st.floats(0, 1),
    total=st.floats(0, 1e6),
    stall=st.floats(0, 1e5),
    count=st.integers(0, 10_000),
    hidden=st.integers(0, 100),
    each=st.none() | st.floats(0, 1e6),
    interval=st.none() | st.integers(1, 100_000),
    iterations=st.integers(0, 10**6),
    saves=st.integers(0, 1000),
    basis=st.sampled_from(["measured", "upper_bound", "unknown"]),
    iters=st.none() | st.integers(1, 1000),
)
@example(
    overhead=0.6, total=5e-324, stall=0.0, count=100, hidden=0, each=None, interval=10, iterations=1000, saves=0,
    basis="unknown", iters=None,
)  # fmt: skip
def test_advice_is_ordered_complete_and_never_backwards(make_diagnosis: Any, **drawn: Any) -> None:
    diagnosis = make_diagnosis(
        iterations=drawn["iterations"],
        evaluations={
            "count": drawn["count"], "hidden": drawn["hidden"], "each_ms": drawn["each"], "interval": drawn["interval"],
        },
        checkpoints={"count": drawn["saves"], "each_ms": drawn["each"], "basis": drawn["basis"]},
        wall={"total_s": drawn["total"], "stall_s": drawn["stall"], "overhead_share": drawn["overhead"]},
    )  # fmt: skip
    facts = {} if drawn["iters"] is None else {"eval_iters": drawn["iters"]}
    advice = advise(run_of(**facts), diagnosis)
    savings = [finding.saves_s for finding in advice if finding.saves_s is not None]
    assert savings == sorted(savings, reverse=True)
    for finding in advice:
        assert finding.advice
        assert set(finding.numbers) == set(FINDINGS[finding.code])
        if finding.code == "raise_eval_interval":
            assert finding.numbers["to_interval"] > finding.numbers["from_interval"]  # type: ignore[operator]
            # In seconds: for a very short run, a share is only known roughly.
            assert 0 <= finding.saves_s <= drawn["overhead"] * drawn["total"] * (1 + 1e-9)  # type: ignore[operator]
            assert finding.saves_share == finding.saves_s / drawn["total"]  # type: ignore[operator]
    assert ("nothing_to_change" in codes(advice)) <= (len(advice) == 1)


def test_an_evaluation_that_happens_once_is_not_worth_a_word(make_diagnosis: Any) -> None:
    def advised(count: int) -> set[str]:
        evaluations = {"count": count, "each_ms": 9000.0, "interval": 250}
        return set(codes(advise(run_of(), make_diagnosis(evaluations=evaluations, wall={"overhead_share": 0.07}))))

    assert advised(80) == {"raise_eval_interval", "lower_eval_iters_unknown"}
    assert advised(2) == {"lower_eval_iters_unknown"}
    assert advised(1) == advised(0) == set()


def test_eval_iters_are_not_blamed_for_what_may_be_the_checkpoint(make_diagnosis: Any) -> None:
    def advised(overhead: float) -> list[str]:
        evaluations = {"count": 9, "each_ms": 9000.0, "contains_checkpoint": True}
        return codes(advise(run_of(), make_diagnosis(evaluations=evaluations, wall={"overhead_share": overhead})))

    assert advised(0.18) == ["lower_eval_iters_unknown"]
    assert advised(0.03) == []


def test_what_checkpoints_leave_no_time_for_saves_none(make_diagnosis: Any) -> None:
    evaluations = {"count": 53, "each_ms": 6623.0, "interval": None}
    wall = {"overhead_share": 0.37, "evaluation_s": 0.0, "checkpoint_s": 696.0}
    (advice,) = advise(run_of(), make_diagnosis(evaluations=evaluations, wall=wall))
    assert (advice.code, advice.saves_s) == ("lower_eval_iters_unknown", None)


def test_a_loss_that_is_gone_leaves_nothing_to_speed_up(case_1: Diagnosis) -> None:
    gone = replace(case_1, findings=(*case_1.findings, Finding("loss_diverged", {"iteration": 3010})))
    assert advise(run_of(compile=False), gone) == []
    assert codes(advise(run_of(dtype="float16"), gone)) == ["leave_float16"]
    assert advise(run_of(dtype="bfloat16"), gone) == []


def test_a_run_that_slowed_down_is_no_reason_to_be_content(make_diagnosis: Any) -> None:
    content = make_diagnosis()
    slowed = replace(content, step=replace(content.step, first_fifth_ms=100.0, last_fifth_ms=115.0))
    assert codes(advise(run_of(), content)) == ["nothing_to_change"]
    assert codes(advise(run_of(), slowed)) == []


OFTEN = {
    "evaluations": {"count": 200, "each_ms": 1000.0, "interval": 100},
    "wall": {"overhead_share": 0.1, "evaluation_s": 200.0},
}


WITH_SAVES = {"evaluations": {"count": 9, "each_ms": 9000.0, "contains_checkpoint": True}, "wall": {}}


SAVED = {"checkpoints": {"count": 6, "each_ms": 1000.0, "basis": "measured"}, "wall": {"overhead_share": 0.1}}


IDLE = GPT2 | {"batch_size": 4, "gradient_accumulation_steps": 128, "gpu_memory_gb": 24}


@pytest.mark.parametrize(
    ("code", "facts", "given", "figure", "enough", "too_little"),
    [
        ("raise_eval_interval", {}, OFTEN, "wall.overhead_share", 0.015, 0.0149),
        ("lower_eval_iters", {"eval_iters": 21}, OFTEN, "wall.overhead_share", 0.015, 0.0149),
        ("lower_eval_iters_unknown", {}, OFTEN, "evaluations.count", 2, 1),
        ("lower_eval_iters_unknown", {}, WITH_SAVES, "wall.overhead_share", 0.05, 0.049),
        ("save_less_often", {}, SAVED, "wall.overhead_share", 0.01, 0.0099),
        ("save_less_often", {}, SAVED, "checkpoints.each_ms", 1000.0, 999.0),  # 0.3% of the time
        ("save_less_often", {}, SAVED, "checkpoints.count", 6, 5),
        ("find_the_stall", {}, {"wall": {}}, "wall.stall_s", 20.0, 19.9),
        ("turn_on_compile", {"compile": False}, {"wall": {}}, "wall.training_s", 600.0, 599.0),
        ("larger_micro_batch", IDLE, {"card": "Some card"}, "mfu", 0.449, 0.45),
        ("nothing_to_change", {}, {"card": "Some card"}, "mfu", 0.45, 0.449),
        ("nothing_to_change", {}, {"wall": {"overhead_share": 0.01}}, "wall.stall_s", 9.5, 10.0),
        ("nothing_to_change", {}, {"wall": {}}, "wall.total_s", 1.0, 0.0),
    ],
)  # fmt: skip
def test_from_where_on_it_is_advised(
    make_diagnosis: Any, code: str, facts: Any, given: Any, figure: str, enough: float, too_little: float
) -> None:
    def advised(value: float) -> bool:
        section, _, name = figure.partition(".")
        changed = {**given, section: {**given[section], name: value} if name else value}
        return code in codes(advise(run_of(**facts), make_diagnosis(**changed)))

    assert (advised(enough), advised(too_little)) == (True, False)


@pytest.mark.parametrize(
    ("step", "content"),
    [
        ({"normal_rows": 15}, True),
        ({"normal_rows": 14}, False),
        ({"first_fifth_ms": 100.0, "last_fifth_ms": 105.0}, True),
        ({"first_fifth_ms": 100.0, "last_fifth_ms": 105.1}, False),
    ],
)
def test_from_where_on_a_run_is_steady_enough(make_diagnosis: Any, step: dict[str, Any], content: bool) -> None:
    diagnosis = make_diagnosis()
    advice = advise(run_of(), replace(diagnosis, step=replace(diagnosis.step, **step)))
    assert codes(advice) == (["nothing_to_change"] if content else [])


@pytest.mark.parametrize(("count", "to"), [(6, 5), (20, 5), (24, 6), (400, 100)])
def test_a_quarter_of_the_checkpoints_is_kept_and_five_at_least(make_diagnosis: Any, count: int, to: int) -> None:
    checkpoints = {"count": count, "each_ms": 2000.0, "basis": "measured"}
    (finding,) = advise(run_of(), make_diagnosis(checkpoints=checkpoints, wall={"overhead_share": 0.1}))
    assert finding.numbers == {"checkpoints": count, "to_checkpoints": to}
    assert finding.saves_s == pytest.approx((count - to) * 2.0)


def test_stalls_and_the_start_make_no_evaluation_cheaper(make_diagnosis: Any) -> None:
    """2% of all time is 4% of what remains without 400 s of stalls and 600 s of start-up."""
    wall = {"overhead_share": 0.02, "stall_s": 400.0, "startup_s": 600.0}
    advice = advise(run_of(), make_diagnosis(evaluations=OFTEN["evaluations"], wall=wall))
    (finding,) = [each for each in advice if each.code == "raise_eval_interval"]
    assert finding.numbers["to_interval"] == 500
    assert finding.saves_s == pytest.approx(0.02 * 2000 * 0.8)
    assert finding.saves_share == pytest.approx(0.02 * 0.8)


def test_slow_rows_right_after_a_start_may_be_stalls() -> None:
    def said(second_ms: float) -> bool:
        run = rows_run([400.0, second_ms, *[10.0] * 200], log_interval=1)
        return "nothing_to_change" in {finding.code for finding in diagnose(run).findings}

    assert said(10.0)
    assert said(20.0)
    assert not said(200.0)
