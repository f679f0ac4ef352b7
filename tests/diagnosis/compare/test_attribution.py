from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nanopace.diagnosis.compare.attribution import attribute, changes, effect_of, known_in_one
from nanopace.diagnosis.comparison import Change, Settling
from nanopace.diagnosis.result import Diagnosis
from nanopace.record import replace as replace_record
from nanopace.run import Fact

BASE = {
    "batch_size": 16, "gradient_accumulation_steps": 32, "block_size": 1024, "n_layer": 12, "n_head": 12,
    "n_embd": 384, "learning_rate": 1e-3,
}  # fmt: skip


@pytest.fixture
def asked(make_diagnosis: Any) -> Any:
    def ask(**other: Any) -> Any:
        a, b = make_diagnosis(knobs=BASE), make_diagnosis(knobs=BASE | other)
        found = attribute(a, b, changes(a, b))
        return found, [(finding.code, dict(finding.numbers)) for finding in found.findings]

    return ask


def test_case_2_four_knobs_at_once(asked: Any) -> None:
    found, said = asked(batch_size=8, gradient_accumulation_steps=64, n_embd=768, learning_rate=3e-4)
    assert set(found.unattributable) == {"batch_size", "gradient_accumulation_steps", "n_embd"}
    assert found.settling == (
        Settling("batch_size × gradient_accumulation_steps", "16 × 32"),
        Settling("n_embd", 384),
    )
    ((code, numbers),) = said
    assert (code, numbers["count"]) == ("compare_several_knobs", 3)
    assert numbers["knobs"] == "batch_size, gradient_accumulation_steps, n_embd"  # a learning rate changes no speed


@pytest.mark.parametrize(
    ("other", "code", "knob"),
    [
        ({"n_embd": 768}, "compare_one_knob", "n_embd"),
        ({"learning_rate": 3e-4}, "compare_one_knob", "learning_rate"),
        ({"n_embd": 768, "learning_rate": 3e-4}, "compare_speed_knob", "n_embd"),
        (
            {"batch_size": 8, "gradient_accumulation_steps": 64},
            "compare_one_knob",
            "batch_size × gradient_accumulation_steps",
        ),
    ],
)
def test_a_change_that_stands_alone_is_told(asked: Any, other: dict[str, Any], code: str, knob: str) -> None:
    found, said = asked(**other)
    assert said == [(code, {"knob": knob})]
    assert found.unattributable == found.settling == ()


def test_a_pair_that_changes_the_tokens_is_two_changes(asked: Any) -> None:
    found, _ = asked(batch_size=8, gradient_accumulation_steps=32 * 4)
    assert [each.knob for each in found.settling] == ["gradient_accumulation_steps", "batch_size"]


def test_same_settings(asked: Any) -> None:
    assert asked()[1] == [("compare_same_settings", {})]


def test_book_keeping_explains_nothing(make_diagnosis: Any) -> None:
    a, b = make_diagnosis(knobs=BASE | {"out_dir": "a"}), make_diagnosis(knobs=BASE | {"out_dir": "b"})
    changed = changes(a, b)
    assert changed == (Change("out_dir", "a", "b", "flag", "flag"),)
    assert [finding.code for finding in attribute(a, b, changed).findings] == ["compare_same_settings"]


def test_what_only_one_run_tells(make_diagnosis: Any) -> None:
    a, b = make_diagnosis(knobs=BASE), make_diagnosis(knobs={"batch_size": 8})
    assert set(known_in_one(a, b)) == set(BASE) - {"batch_size"}
    first, second = attribute(a, b, changes(a, b)).findings
    assert (first.code, first.numbers) == ("compare_known_differ", {"knob": "batch_size"})
    assert second.code == "compare_settings_unknown"
    assert second.numbers["missing"] == "gradient_accumulation_steps, block_size, n_layer, n_head, n_embd"


def gpu(diagnosis: Diagnosis, written: str, name: str | None) -> Diagnosis:
    facts = {**diagnosis.facts, "gpu": Fact(written, "flag")}
    return replace(diagnosis, facts=facts, mfu=replace(diagnosis.mfu, card_name=name))


def test_two_spellings_of_one_card_are_no_change(make_diagnosis: Any) -> None:
    base = make_diagnosis(knobs=BASE)
    a, b = gpu(base, "4070", "NVIDIA GeForce RTX 4070"), gpu(base, "rtx 4070", "NVIDIA GeForce RTX 4070")
    assert changes(a, b) == ()
    (change,) = changes(a, gpu(base, "4090", "NVIDIA GeForce RTX 4090"))
    assert (change.knob, change.b) == ("gpu", "NVIDIA GeForce RTX 4090")


def test_an_inferred_vocabulary_is_only_about_right(make_diagnosis: Any) -> None:
    base = make_diagnosis(knobs=BASE)

    def with_vocabulary(value: int, fact: Fact) -> Diagnosis:
        return replace(base, facts={**base.facts, "vocab_size": replace(fact, value=value)})

    inferred, given = Fact(0, "inferred", "first_loss"), Fact(0, "flag")
    assert changes(with_vocabulary(50_304, given), with_vocabulary(51_000, inferred)) == ()
    assert len(changes(with_vocabulary(50_304, given), with_vocabulary(32_000, inferred))) == 1
    assert len(changes(with_vocabulary(50_304, given), with_vocabulary(50_257, given))) == 1


def test_what_each_knob_can_change_is_said_of_every_knob() -> None:
    for knob in ("fp8", "fused", "recipe", "without", "memory", "memory_limit", "parallel", "gpu_count"):
        assert effect_of(knob) == "speed"


def test_fp8_is_not_credited_to_the_batch(make_diagnosis: Any) -> None:
    a = make_diagnosis(knobs=BASE | {"fp8": False})
    b = make_diagnosis(knobs=BASE | {"fp8": True, "batch_size": 8})
    found = attribute(a, b, changes(a, b))
    assert set(found.unattributable) == {"batch_size", "fp8"}


@pytest.mark.parametrize("silent", ["dtype", "gpu", "fp8"])
def test_a_single_difference_is_not_credited_where_a_run_is_silent(make_diagnosis: Any, silent: str) -> None:
    a = make_diagnosis(knobs=BASE | {silent: 1})
    b = make_diagnosis(knobs=BASE | {"n_embd": 768})
    assert [each.code for each in attribute(a, b, changes(a, b)).findings] == ["compare_known_differ"]


def test_a_setting_does_not_cause_what_it_cannot_change(make_diagnosis: Any) -> None:
    """nanochat's experiments: max_iters differs a little, but one model is larger and takes twice as long."""

    def said(parameters: float, median_ms: float, **other: Any) -> list[str]:
        knobs = BASE | {"max_iters": 1680, "dropout": 0.0}
        a = make_diagnosis(knobs=knobs, tokens=262_144, median_ms=220.0)
        b = make_diagnosis(knobs=knobs | other, tokens=262_144, median_ms=median_ms)
        a = replace_record(a, model=replace_record(a.model, parameters=125.8e6))
        b = replace_record(b, model=replace_record(b.model, parameters=parameters))
        return [each.code for each in attribute(a, b, changes(a, b)).findings]

    assert said(125.8e6, 222.0, max_iters=1700) == ["compare_one_knob"]
    assert said(125.8e6, 430.0, max_iters=1700) == ["compare_known_differ"], "the schedule does not slow steps down"
    assert said(144.7e6, 220.0, max_iters=1700) == ["compare_known_differ"], "nor does it add parameters"
    assert said(144.7e6, 430.0, batch_size=32) == ["compare_known_differ"], "nor does a batch"
    assert said(144.7e6, 430.0, n_layer=14) == ["compare_one_knob"]
