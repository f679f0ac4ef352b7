from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.diagnosis.codes import FINDINGS
from nanopace.diagnosis.compare.compare import compare
from nanopace.diagnosis.comparison import Comparison, PairOf
from nanopace.diagnosis.result import Diagnosis, Finding, Level

SHAPE = {"block_size": 1024, "n_layer": 12, "n_head": 12, "vocab_size": 50304, "bias": False}
NARROW = SHAPE | {"batch_size": 16, "gradient_accumulation_steps": 32, "n_embd": 384, "learning_rate": 1e-3}
WIDE = SHAPE | {"batch_size": 8, "gradient_accumulation_steps": 64, "n_embd": 768, "learning_rate": 3e-4}


def curve(pace_s: float, last: int, floor: float, scale: float) -> list[tuple[int, float, float]]:
    evaluations = [(k, 20 + k * pace_s, floor + scale * k**-0.6) for k in range(500, last + 1, 500)]
    return [(0, 10.0, 10.9), *evaluations]


@pytest.fixture
def narrow(make_diagnosis: Any) -> Diagnosis:
    return make_diagnosis(  # type: ignore[no-any-return]
        name="narrow.log", median_ms=3909.8, knobs=NARROW, tokens=524_288, flops=299_983_104.0,
        curve=curve(3.94, 20_000, 3.4, 60.0), wall={"overhead_share": 0.0077},
    )  # fmt: skip


@pytest.fixture
def wide(make_diagnosis: Any) -> Diagnosis:
    return make_diagnosis(  # type: ignore[no-any-return]
        name="wide.log", median_ms=9346.1, knobs=WIDE, tokens=524_288, flops=854_770_176.0,
        curve=curve(9.39, 4500, 3.07, 75.0), wall={"overhead_share": 0.0042},
    )  # fmt: skip


def on(diagnosis: Diagnosis, card: str, tflops: float) -> Diagnosis:
    return replace(diagnosis, mfu=replace(diagnosis.mfu, card_name=card, card_tflops=tflops))


def codes(comparison: Comparison) -> list[str]:
    return [finding.code for finding in comparison.findings]


def test_case_2_speed(narrow: Diagnosis, wide: Diagnosis) -> None:
    found = compare(narrow, wide)
    assert (found.tokens_per_s.a, found.tokens_per_s.b) == pytest.approx((134.1e3, 56.1e3), rel=1e-3)
    assert found.tokens_per_s.ratio == pytest.approx(0.418, abs=0.001)
    assert found.micro_batch_ms.a == pytest.approx(122.2, abs=0.05)
    assert found.micro_batch_ms.b == pytest.approx(146.0, abs=0.05)
    assert found.flops_per_token.ratio == pytest.approx(2.85, abs=0.005)
    parts = found.decomposition
    assert parts.total == pytest.approx(-0.871, abs=0.0006)
    assert parts.flops_per_token == pytest.approx(-1.047, abs=0.0006)
    assert parts.utilisation == pytest.approx(0.1756, abs=0.0006)
    assert parts.peak is None


def test_case_2_loss(narrow: Diagnosis, wide: Diagnosis) -> None:
    found = compare(narrow, wide)
    last = found.equal_tokens[-1]
    assert last.tokens == 4500 * 524_288
    assert (last.a, last.b) == (narrow.curves.eval_val[9], wide.curves.eval_val[9])
    assert found.leader_tokens == found.leader_time == "b"
    assert found.crossover_s is not None
    before = [point for point in found.equal_time if point.seconds < found.crossover_s]
    after = [point for point in found.equal_time if point.seconds > found.crossover_s]
    assert before
    assert after
    assert all(point.a < point.b for point in before)
    assert all(point.a > point.b for point in after)
    assert found.equal_flops
    assert all(len(table) <= 12 for table in (found.equal_tokens, found.equal_time, found.equal_flops))


def test_case_2_verdict_comes_first(narrow: Diagnosis, wide: Diagnosis) -> None:
    assert codes(compare(narrow, wide)) == [
        "compare_speed", "compare_crossover", "compare_loss_tokens", "compare_sooner", "compare_why_unknown_peak",
        "compare_several_knobs",
    ]  # fmt: skip


def test_the_card_is_a_part_of_its_own(narrow: Diagnosis, wide: Diagnosis) -> None:
    same = compare(on(narrow, "RTX 4070", 58.3), on(wide, "RTX 4070", 58.3)).decomposition
    assert same.peak == 0.0
    assert same.utilisation == pytest.approx(0.1756, abs=0.0006)
    other = compare(on(narrow, "RTX 4070", 58.3), on(wide, "RTX 4090", 165.2)).decomposition
    assert other.peak == pytest.approx(math.log(165.2 / 58.3))
    assert other.utilisation == pytest.approx(0.1756 - other.peak, abs=0.0006)
    assert compare(on(narrow, "RTX 4070", 58.3), wide).decomposition.peak is None


def test_the_number_of_cards_is_a_part_of_its_own(make_diagnosis: Any) -> None:
    one = make_diagnosis(tokens=1000, flops=1e9, card="H100", peak=989.0, knobs={"gpu_count": 1})
    two = make_diagnosis(tokens=2000, flops=1e9, card="H100", peak=989.0, knobs={"gpu_count": 2})
    parts = compare(one, two).decomposition
    assert parts.gpu_count == pytest.approx(math.log(2))
    assert (parts.peak, parts.utilisation) == (0, pytest.approx(0))
    (why,) = [each for each in compare(one, two).findings if each.code == "compare_why"]
    assert why.numbers["gpu_count_share"] == pytest.approx(1.0)


def test_four_cards_and_eight_need_no_peak_to_be_told_from_their_use(make_diagnosis: Any) -> None:
    four = make_diagnosis(tokens=4000, flops=1e9, knobs={"gpu_count": 4})
    eight = make_diagnosis(tokens=7880, flops=1e9, knobs={"gpu_count": 8})
    parts = compare(four, eight).decomposition
    assert (parts.gpu_count, parts.peak) == (pytest.approx(math.log(2)), None)
    assert parts.utilisation == pytest.approx(math.log(0.985))  # per card


def test_a_count_that_is_unknown_is_no_part(make_diagnosis: Any) -> None:
    unknown = make_diagnosis(tokens=1000, flops=1e9, card="H100", peak=989.0)
    eight = make_diagnosis(tokens=8000, flops=1e9, card="H100", peak=989.0, knobs={"gpu_count": 8})
    parts = compare(unknown, eight).decomposition
    assert (parts.gpu_count, parts.peak) == (None, None)
    assert parts.utilisation == pytest.approx(math.log(8))


# --- what contradicts the speed --------------------------------------------------------------------------------------


def overall(diagnosis: Diagnosis, tokens_per_s: float) -> Diagnosis:
    return replace(diagnosis, throughput=replace(diagnosis.throughput, tokens_per_s_overall=tokens_per_s))


def test_a_slow_stretch_that_explains_a_contradiction_is_named(make_diagnosis: Any) -> None:
    a = overall(make_diagnosis(name="a.log", median_ms=100.0, tokens=1000), 9_900.0)
    b = overall(make_diagnosis(name="b.log", median_ms=80.0, tokens=1000, wall={"total_s": 130.0}), 8_000.0)
    levels = (Level(0, 155, 640.0), Level(156, 1000, 80.0))
    found = compare(a, replace(b, step=replace(b.step, levels=levels)))
    assert (
        Finding(
            "compare_overall",
            {
                "faster": "b.log",
                "slower": "a.log",
                "faster_overall_tokens_per_s": 8_000.0,
                "slower_overall_tokens_per_s": 9_900.0,
            },
        )
        in found.findings
    )
    stretch = {"run": "b.log", "first_iteration": 0, "last_iteration": 155, "ratio": 8.0}
    assert Finding("compare_stretch", stretch) in found.findings


def test_time_that_is_no_training_explains_a_contradiction(make_diagnosis: Any) -> None:
    a = overall(make_diagnosis(name="a.log", median_ms=100.0, tokens=1000), 9_900.0)
    evaluating = {"total_s": 1000.0, "evaluation_s": 600.0, "startup_s": 50.0}
    b = overall(make_diagnosis(name="b.log", median_ms=80.0, tokens=1000, wall=evaluating), 4_000.0)
    share = {"run": "b.log", "phase": "evaluation", "time_share": 0.6}
    assert Finding("compare_time_share", share) in compare(a, b).findings
    faster_anyway = overall(b, 11_000.0)
    assert not {"compare_overall", "compare_time_share", "compare_stretch"} & set(codes(compare(a, faster_anyway)))


def test_a_slow_start_explains_who_is_behind_at_equal_time(make_diagnosis: Any) -> None:
    """Run b is faster over its full length, but behind within the time that the shorter run a took."""
    slow_start = [(k, 60.0 + k / 20, 3 - k / 1000) for k in range(100, 1001, 100)]
    even = [(k, k / 10, 3 - k / 1000) for k in range(100, 1001, 100)]
    a = overall(make_diagnosis(name="a.log", median_ms=100.0, tokens=1000, curve=even), 9_900.0)
    b = overall(make_diagnosis(name="b.log", median_ms=50.0, tokens=1000, curve=slow_start), 18_000.0)
    levels = (Level(0, 149, 450.0), Level(150, 20_000, 50.0), Level(20_001, 30_000, 90.0))
    found = compare(a, replace(b, step=replace(b.step, levels=levels)))
    assert (found.leader_tokens, found.leader_time) == ("tie", "a")
    assert "compare_overall" not in codes(found)
    (stretch,) = [each for each in found.findings if each.code == "compare_stretch"]
    assert (stretch.numbers["run"], stretch.numbers["last_iteration"]) == ("b.log", 149)


# --- best so far -----------------------------------------------------------------------------------------------------

OVERFITS = [(0, 1.0, 6.0)] + [
    (250 * k, 100.0 * k, val)
    for k, val in enumerate([2.8, 2.35, 2.2, 2.17, 2.146, 2.5, 2.8, 3.1, 3.4, 3.7, 4.0, 4.3, 4.6], start=1)
]
KEEPS = [(0, 1.0, 6.1)] + [
    (250 * k, 100.0 * k, val)
    for k, val in enumerate([3.0, 2.5, 2.3, 2.19, 2.15, 2.12, 2.104, 2.11, 2.1, 2.1, 2.1, 2.1, 2.1], start=1)
]


def test_the_best_so_far_decides_who_is_ahead(make_diagnosis: Any) -> None:
    """Run b is behind at the end, and had the lower loss earlier: neither is what counts."""
    a, b = (make_diagnosis(name=f"{n}.log", tokens=1000, curve=c) for n, c in (("a", KEEPS), ("b", OVERFITS)))
    found = compare(a, b)
    assert found.leader_time == found.leader_tokens == "a"
    assert [(each.a, each.b) for each in found.equal_time][-1] == (2.1, 2.146)
    risen = {"run": "b.log", "best_val": 2.146, "best_val_iteration": 1250, "last_val": 4.6}
    assert Finding("compare_risen", risen) in found.findings


def test_a_loss_that_diverged_comes_before_any_other(make_diagnosis: Any) -> None:
    a, b = (make_diagnosis(name=f"{n}.log", tokens=1000, curve=KEEPS) for n in "ab")
    b = replace(b, findings=(Finding("loss_diverged", {"iteration": 3250, "first": None}),))
    assert compare(a, a).findings[1].code == "compare_loss_equal"
    assert compare(a, b).findings[1] == Finding("compare_diverged", {"run": "b.log", "iteration": 3250})


def test_nobody_stays_ahead_whose_loss_has_risen(make_diagnosis: Any) -> None:
    early = [(i, s, val + 0.3) if i > 500 else (i, s, val - 0.25) for i, s, val in KEEPS]
    a, b = (make_diagnosis(name=f"{n}.log", tokens=1000, curve=c) for n, c in (("a", early), ("b", OVERFITS)))
    found = compare(a, b)
    assert found.leader_time == "b"
    assert "compare_crossover_best" in codes(found)
    assert "compare_crossover" not in codes(found)


def test_a_log_that_begins_in_the_middle_is_not_compared_at_equal_time(make_diagnosis: Any) -> None:
    a = make_diagnosis(name="a.log", tokens=1000, curve=KEEPS)
    b = make_diagnosis(name="b.log", tokens=1000, curve=[(i + 500, s, val - 0.5) for i, s, val in KEEPS])
    b = replace(b, source=replace(b.source, first_iteration=500))
    found = compare(a, b)
    assert (found.equal_time, found.leader_time, found.crossover_s, found.arrival) == ((), None, None, None)
    assert found.leader_tokens == "b"
    assert "compare_late_start" in codes(found)
    assert not any("time" in code or "crossover" in code for code in codes(found))


def test_a_ratio_that_overflows_is_unknown(make_diagnosis: Any) -> None:
    next_to_none, all_of_it = (make_diagnosis(wall={"overhead_share": share}) for share in (5e-324, 1.0))
    assert compare(next_to_none, all_of_it).overhead_share == PairOf(5e-324, 1.0, None)
    assert compare(all_of_it, next_to_none).overhead_share == PairOf(1.0, 5e-324, 5e-324)


def test_a_run_against_itself(narrow: Diagnosis) -> None:
    found = compare(narrow, narrow)
    assert found.changed == found.unknown_knobs == found.unattributable == found.settling == ()
    assert found.tokens_per_s.ratio == found.median_ms.ratio == found.overhead_share.ratio == 1
    assert (found.decomposition.total, found.decomposition.utilisation) == (0, 0)
    assert found.leader_time == found.leader_tokens == "tie"
    assert found.crossover_s is None
    assert codes(found) == [
        "compare_speed_equal", "compare_loss_equal", "compare_arrival_same", "compare_same_settings",
    ]  # fmt: skip


ABOVE_ZERO = st.none() | st.floats(1e-3, 1e12)
KNOBS = st.dictionaries(
    st.sampled_from([*WIDE, "gpu", "gpu_count", "fp8", "compile", "out_dir", "dataset"]), st.integers(1, 3), max_size=8
)
CURVE = st.lists(st.tuples(st.integers(0, 5000), st.floats(0, 1e6), st.none() | st.floats(0, 12)), max_size=20).map(
    lambda points: sorted(points, key=lambda point: point[:2])
)
FIELDS = st.fixed_dictionaries(
    {
        "median_ms": st.floats(1e-3, 1e6),
        "tokens": ABOVE_ZERO,
        "flops": ABOVE_ZERO,
        "peak": ABOVE_ZERO,
        "mfu": ABOVE_ZERO,
        "card": st.none() | st.sampled_from(["one", "other"]),
        "knobs": KNOBS,
        "curve": CURVE,
        "name": st.sampled_from(["a.log", "b.log"]),
        "wall": st.fixed_dictionaries({"overhead_share": st.none() | st.floats(0, 1)}),
    }
)


UNKNOWN = {  # what a finding may leave open
    "compare_why": {"gpu_count_share"},
    "compare_why_unknown_peak": {"gpu_count_share"},
    "compare_data_unknown": {"target_metric"},
    "compare_arrival_same": {"target_metric"},
    "compare_arrival_uncertain": {"target_metric", "at_most_s"},
    "compare_loss_uncertain": {"run", "iteration"},
    "compare_loss_unknown": set(FINDINGS["compare_loss_unknown"]),
}


@settings(max_examples=150, deadline=None)
@given(FIELDS, FIELDS)
def test_any_two_runs(make_diagnosis: Any, first: dict[str, Any], second: dict[str, Any]) -> None:
    a, b = make_diagnosis(**first), make_diagnosis(**second)
    there, back = compare(a, b), compare(b, a)
    parts = there.decomposition
    if parts.total is not None and parts.flops_per_token is not None:
        assert parts.utilisation is not None
        cards = (parts.peak or 0) + (parts.gpu_count or 0)
        assert parts.flops_per_token + parts.utilisation + cards == pytest.approx(parts.total, abs=1e-9)
    for part in ("total", "flops_per_token", "utilisation", "peak", "gpu_count"):
        one, other = getattr(parts, part), getattr(back.decomposition, part)
        assert one is other is None or one == pytest.approx(-other, abs=1e-9)
    assert there.crossover_s == (None if back.crossover_s is None else pytest.approx(back.crossover_s))
    assert (there.arrival is None) == (back.arrival is None)
    if there.arrival is not None and back.arrival is not None:
        assert (there.arrival.a, there.arrival.b) == (back.arrival.b, back.arrival.a)
        assert (there.arrival.a.early_s or 0) <= there.arrival.a.seconds <= (there.arrival.a.late_s or math.inf)
    assert there.unattributable == back.unattributable
    assert len(there.unattributable) != 1
    for finding in there.findings:
        assert tuple(sorted(finding.numbers)) == tuple(sorted(FINDINGS[finding.code]))
        unknown = {name for name, number in finding.numbers.items() if number is None}
        assert unknown <= UNKNOWN.get(finding.code, set())
    assert codes(there)[0].startswith("compare_speed")


def test_a_long_pause_explains_who_is_behind_although_steps_are_equally_fast(make_diagnosis: Any) -> None:
    even = [(k, k / 10, 3 - k / 1000) for k in range(100, 1001, 100)]
    held_up = [(k, k / 2, 3 - k / 1000) for k in range(100, 1001, 100)]
    a = make_diagnosis(name="a.log", median_ms=100.0, tokens=1000, curve=even)
    b = make_diagnosis(name="b.log", median_ms=100.0, tokens=1000, curve=held_up, wall={"stall_s": 1600.0})
    share = {"run": "b.log", "phase": "stall", "time_share": 0.8}
    found = compare(a, b)
    assert found.leader_time == "a"
    assert Finding("compare_time_share", share) in found.findings
    short = replace(b, wall=replace(b.wall, stall_s=100.0))
    assert "compare_time_share" not in codes(compare(a, short)), "too little to hide a difference of the losses"
    in_doubt = Finding("save_in_doubt", {"saved_rows": 1, "evaluation_s": 1.0, "longer_s": 1500.0})
    doubtful = replace(b, findings=(*b.findings, in_doubt))
    assert "compare_time_share" not in codes(compare(a, doubtful)), "most of it may have been a checkpoint"


def test_a_long_start_does_not_count_at_equal_time(make_diagnosis: Any) -> None:
    """One log shows what was compiled, the other does not: both clocks start at the first step."""
    even = [(k, k / 10, 3 - k / 1000) for k in range(100, 1001, 100)]
    late = [(k, 900 + seconds, val) for k, seconds, val in even]
    a = make_diagnosis(name="a.log", median_ms=100.0, tokens=1000, curve=even)
    b = make_diagnosis(name="b.log", median_ms=100.0, tokens=1000, curve=late, wall={"startup_s": 900.0})
    found = compare(a, b)
    assert found.leader_time == "tie"
    assert [point.seconds for point in found.equal_time] == [seconds for _, seconds, _ in even]
    assert "compare_time_share" not in codes(found)


def test_a_log_that_starts_late_may_have_had_a_lower_loss_before(make_diagnosis: Any) -> None:
    early = make_diagnosis(
        name="a.log", tokens=1000, curve=[(k, k / 10, 3 - k / 10_000) for k in range(500, 5001, 500)]
    )
    flat = [(4500, 1.0, 2.9), (5000, 2.0, 2.95)]
    falling = [(4500, 1.0, 3.1), (5000, 2.0, 2.9)]

    def against(curve: list[tuple[int, float, float]]) -> Comparison:
        late = make_diagnosis(name="b.log", tokens=1000, curve=curve)
        return compare(early, replace(late, source=replace(late.source, first_iteration=4500)))

    found = against(flat)
    (unclear,) = [each for each in found.findings if each.code == "compare_loss_uncertain"]
    assert (unclear.numbers["run"], unclear.numbers["iteration"]) == ("b.log", 4500)
    assert found.leader_tokens is None
    assert against(falling).leader_tokens == "a"
