from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.diagnosis.codes import FINDINGS
from nanopace.diagnosis.compare import compare
from nanopace.diagnosis.comparison import Comparison
from nanopace.diagnosis.result import Diagnosis

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


def test_two_cards_have_twice_the_peak(make_diagnosis: Any) -> None:
    one = make_diagnosis(tokens=1000, flops=1e9, card="H100", peak=989.0, knobs={"gpu_count": 1})
    two = make_diagnosis(tokens=2000, flops=1e9, card="H100", peak=989.0, knobs={"gpu_count": 2})
    parts = compare(one, two).decomposition
    assert parts.peak == pytest.approx(math.log(2))
    assert parts.utilisation == pytest.approx(0)


def test_losses_of_different_kinds_are_not_compared(narrow: Diagnosis, wide: Diagnosis) -> None:
    bits = replace(wide, loss=replace(wide.loss, metric="bpb"))
    found = compare(narrow, bits)
    assert found.equal_tokens == found.equal_time == found.equal_flops == ()
    assert found.leader_time is None
    assert codes(found)[1] == "compare_loss_unknown"


def test_a_run_against_itself(narrow: Diagnosis) -> None:
    found = compare(narrow, narrow)
    assert found.changed == found.unknown_knobs == found.unattributable == found.settling == ()
    assert found.tokens_per_s.ratio == found.median_ms.ratio == found.overhead_share.ratio == 1
    assert (found.decomposition.total, found.decomposition.utilisation) == (0, 0)
    assert found.leader_time == found.leader_tokens == "tie"
    assert found.crossover_s is None
    assert codes(found) == [
        "compare_speed_equal", "compare_loss_equal", "compare_arrival_equal", "compare_same_settings",
    ]  # fmt: skip


ABOVE_ZERO = st.none() | st.floats(1e-3, 1e12)
KNOBS = st.dictionaries(
    st.sampled_from([*WIDE, "gpu", "dropout", "compile", "out_dir", "dataset"]), st.integers(1, 3), max_size=8
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


@settings(max_examples=150, deadline=None)
@given(FIELDS, FIELDS)
def test_any_two_runs(make_diagnosis: Any, first: dict[str, Any], second: dict[str, Any]) -> None:
    a, b = make_diagnosis(**first), make_diagnosis(**second)
    there, back = compare(a, b), compare(b, a)
    parts = there.decomposition
    if parts.total is not None and parts.flops_per_token is not None:
        assert parts.utilisation is not None
        assert parts.flops_per_token + parts.utilisation + (parts.peak or 0) == pytest.approx(parts.total, abs=1e-9)
    for part in ("total", "flops_per_token", "utilisation", "peak"):
        one, other = getattr(parts, part), getattr(back.decomposition, part)
        assert one is other is None or one == pytest.approx(-other, abs=1e-9)
    assert there.crossover_s == (None if back.crossover_s is None else pytest.approx(back.crossover_s))
    assert (there.arrival is None) == (back.arrival is None)
    if there.arrival is not None and back.arrival is not None:
        assert (there.arrival.a, there.arrival.b) == (back.arrival.b, back.arrival.a)
        assert there.arrival.a.early_s <= there.arrival.a.seconds <= (there.arrival.a.late_s or math.inf)
    assert there.unattributable == back.unattributable
    assert len(there.unattributable) != 1
    for finding in there.findings:
        assert tuple(sorted(finding.numbers)) == tuple(sorted(FINDINGS[finding.code]))
        assert None not in finding.numbers.values()
    assert codes(there)[0].startswith("compare_speed")
