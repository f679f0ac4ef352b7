"""Advice on using the card: micro-batch, compilation, dtype."""

from __future__ import annotations

from typing import Any

import pytest

from nanopace.diagnosis.advice import advise
from nanopace.diagnosis.result import Diagnosis
from nanopace.record import replace

from .advised import GPT2, codes, run_of


@pytest.fixture
def idle(make_diagnosis: Any) -> Diagnosis:
    made: Diagnosis = make_diagnosis(mfu=0.3, card="Some card", peak=100.0)
    return made


def larger(diagnosis: Diagnosis, **knobs: Any) -> tuple[Any, Any] | None:
    """The micro-batch and the accumulation that are advised."""
    found = [f.numbers for f in advise(run_of(**GPT2, **knobs), diagnosis) if f.code == "larger_micro_batch"]
    return (found[0]["to_batch"], found[0]["to_accumulation"]) if found else None


@pytest.mark.parametrize(
    ("mfu", "batch", "accumulation", "memory_gb", "expected"),
    [
        (0.30, 4, 128, 24, (16, 32)),
        (0.30, 4, 128, 12, (8, 64)),  # 16 would not fit
        (0.30, 4, 2, 24, (8, 1)),  # no more to take from accumulation
        (0.30, 4, 1, 24, None),
        (0.30, 4, 128, 4, None),
        (0.60, 4, 128, 24, None),  # a busy card gains little
        (None, 4, 128, 24, None),
    ],
)
def test_a_larger_micro_batch_keeps_the_tokens(
    make_diagnosis: Any,
    monkeypatch: pytest.MonkeyPatch,
    mfu: float | None,
    batch: int,
    accumulation: int,
    memory_gb: int,
    expected: tuple[int, int] | None,
) -> None:
    fits = {24: 40, 12: 15, 4: 5}  # the memory model has tests of its own
    monkeypatch.setattr("nanopace.hardware.memory.largest_micro_batch", lambda *given: fits[given[1]])
    diagnosis = make_diagnosis(mfu=mfu, card=None if mfu is None else "Some card", peak=100.0)
    knobs = {"batch_size": batch, "gradient_accumulation_steps": accumulation, "gpu_memory_gb": memory_gb}
    assert larger(diagnosis, **knobs) == expected


@pytest.mark.parametrize(
    ("cards", "accumulation", "expected"),
    [
        (1, 12, (16, 3)),
        (3, 12, (16, 3)),  # one pass for each
        (3, 9, None),  # three for each cannot be halved
        (3, 6, (8, 3)),
        (4, 12, None),
        (4, 24, (8, 12)),
        (8, 40, None),
    ],
)
def test_each_card_keeps_as_many_passes_as_the_others(
    idle: Diagnosis, cards: int, accumulation: int, expected: tuple[int, int] | None
) -> None:
    """nanoGPT divides its accumulation among the cards, and refuses a remainder."""
    knobs = {"batch_size": 4, "gradient_accumulation_steps": accumulation, "gpu_memory_gb": 80, "gpu_count": cards}
    assert larger(idle, **knobs) == expected


@pytest.mark.parametrize(
    ("batch", "parameters", "expected"),
    [
        (2, None, (8, 16)),  # as measured with nanoGPT's train.py: 15 fit, 16 ran out of memory on a user's card
        (5, None, (10, 32)),
        (8, None, None),
        (15, None, None),
        (2, 124e6, (8, 16)),
        (2, 450e6, (4, 32)),  # what a model has more than nanoGPT's takes memory
        (2, 600e6, None),
    ],
)
def test_what_twelve_gigabytes_hold(
    idle: Diagnosis, batch: int, parameters: float | None, expected: tuple[int, int] | None
) -> None:
    more = {} if parameters is None else {"parameters": parameters}
    assert larger(idle, batch_size=batch, gradient_accumulation_steps=64, gpu_memory_gb=12, **more) == expected


def test_neither_a_larger_micro_batch_nor_compiling_gives_a_card_power(make_diagnosis: Any) -> None:
    run = run_of(**GPT2, batch_size=1, gradient_accumulation_steps=512)
    idle = make_diagnosis(mfu=0.4, card="NVIDIA GeForce RTX 4090", peak=165.2)
    assert codes(advise(run, idle)) == ["larger_micro_batch"]
    limited = replace(idle, mfu=replace(idle.mfu, verdict="power_limited"))
    assert codes(advise(run, limited)) == []
    assert "turn_on_compile" not in codes(advise(run_of(compile=False), limited))


@pytest.mark.parametrize(
    ("card", "dtype", "share", "advised"),
    [
        ("Tesla T4", "bfloat16", 0.03, True),
        ("Tesla T4", None, 0.03, True),
        ("Tesla T4", None, 0.12, True),  # 7.8 TFLOP/s, less than its fp32
        ("Tesla T4", None, None, True),  # its utilisation is unknown
        ("Tesla T4", None, 0.13, False),  # 8.5 TFLOP/s: at that speed it emulates nothing
        ("Tesla T4", "bfloat16", 0.7, False),  # nor here: it cannot be a T4
        ("Tesla T4", "float16", 0.03, False),
        ("V100", "bfloat16", 0.03, True),  # in all its forms
        ("GTX 1080 Ti", "bfloat16", 0.03, False),  # its fp16 is no faster
        ("A100", "bfloat16", 0.03, False),
        ("RTX 6000", "bfloat16", 0.03, False),  # one of the two has bf16
        ("a card of no table", "bfloat16", None, False),
    ],
)
def test_a_card_without_bf16_wants_float16(
    make_diagnosis: Any, card: str, dtype: str | None, share: float | None, advised: bool
) -> None:
    diagnosis = make_diagnosis(mfu=share, card=card, peak=65.0, wall={"overhead_share": 0.3, "total_s": 500.0})
    achieved = None if share is None else share * 65.0
    diagnosis = replace(diagnosis, mfu=replace(diagnosis.mfu, card_name=card, achieved_tflops=achieved))
    advice = advise(run_of(**({} if dtype is None else {"dtype": dtype})), diagnosis)
    found = [each for each in advice if each.code == "use_float16"]
    assert len(found) == advised
    if found:
        assert found[0].numbers == {"card_name": card, "dtype": dtype}
        assert found[0] is next(each for each in advice if each.saves_s is None)


def test_the_cards_own_memory_decides(make_diagnosis: Any) -> None:
    run = run_of(**GPT2, batch_size=1, gradient_accumulation_steps=512)
    known = make_diagnosis(mfu=0.2, card="NVIDIA GeForce RTX 4090", peak=165.2)
    assert codes(advise(run, known)) == ["larger_micro_batch"]
    assert advise(run, make_diagnosis(mfu=0.2, card="a card of no table", peak=165.2)) == []


@pytest.mark.parametrize(
    ("training_s", "eta_s", "device", "advised"),
    [
        (12.0, None, "cuda", False),
        (12.0, 3600.0, "cuda", True),
        (900.0, None, "cuda", True),
        (900.0, None, "cpu", False),
        (900.0, None, "mps", False),
    ],
)
def test_compiling_is_advised_only_where_it_pays(
    make_diagnosis: Any, training_s: float, eta_s: float | None, device: str, advised: bool
) -> None:
    diagnosis = make_diagnosis(wall={"total_s": training_s, "training_s": training_s})
    diagnosis = replace(diagnosis, ahead=replace(diagnosis.ahead, eta_s=eta_s))
    found = codes(advise(run_of(compile=False, device=device), diagnosis))
    assert ("turn_on_compile" in found) == advised
