"""Measurements on a card, and what follows from them."""

from __future__ import annotations

import pytest

from nanopace.hardware.memory import (
    GIB,
    HOST_PIECE,
    climb,
    fused_peak_bytes,
    host_bytes,
    largest_micro_batch,
    peak_bytes,
    usable_bytes,
)
from nanopace.memory_ladder import HOST_STEPS, MEMORY_STEPS

GPT2 = (12, 768, 50304, 1024)
XL = (48, 1600, 50304, 1024)


# nanoGPT's train.py on one H200 (docs/experiments/memory.md). In a bare loop its model takes less: 5.6 with 8.
@pytest.mark.parametrize(("sequences", "gib"), [(0, 2.25), (4, 4.68), (8, 7.12), (12, 9.54), (16, 11.98), (32, 21.74)])
def test_the_measured_peaks(sequences: int, gib: float) -> None:
    assert peak_bytes(GPT2, sequences) / GIB == pytest.approx(gib, abs=0.1)


def test_twelve_gigabytes_hold_fifteen_sequences() -> None:
    """A user's 12 GB card ran out of memory at 16."""
    assert largest_micro_batch(GPT2, 12) == 15


def test_float32_keeps_twice_as_much_of_each_layer_and_no_copies() -> None:
    per_token = 36 * 768 * 12 + 6 * 768
    half, single = ([peak_bytes(GPT2, count, single=each) for count in (0, 1)] for each in (False, True))
    assert half[0] - single[0] == 2 * (12 * 12 * 768 * 768 + 50304 * 768)
    assert (single[1] - single[0]) - (half[1] - half[0]) == 1024 * per_token
    assert largest_micro_batch(GPT2, 16, single=True) < largest_micro_batch(GPT2, 16)


def test_what_fits_is_below_the_memory_and_one_more_is_not() -> None:
    for memory_gb in (8, 16, 24, 80):
        fits = largest_micro_batch(GPT2, memory_gb)
        assert peak_bytes(GPT2, fits) <= 0.95 * memory_gb * GIB < peak_bytes(GPT2, fits + 1)


def test_eager_holds_less_and_a_model_too_large_holds_nothing() -> None:
    assert largest_micro_batch(GPT2, 12, compiled=False) < 15
    assert largest_micro_batch(XL, 12) == 0


# bench/memory.py on one H200: model, sequences, steps of the ladder, GiB.
SIZES = {"124M": (12, 768), "350M": (24, 1024), "774M": (36, 1280), "1.0B": (30, 1600)}
MEASURED = [
    ("124M", 8, 0, 5.04),
    ("124M", 20, 0, 7.98),
    ("124M", 40, 0, 13.10),
    ("124M", 40, 1, 10.28),
    ("124M", 48, 1, 11.72),
    ("124M", 40, 2, 7.47),
    ("124M", 40, 3, 4.63),
    ("124M", 96, 3, 7.69),
    ("124M", 40, 4, 4.20),
    ("350M", 4, 0, 9.26),
    ("350M", 8, 1, 10.79),
    ("350M", 16, 2, 11.59),
    ("350M", 32, 3, 10.13),
    ("350M", 32, 4, 8.81),
    ("774M", 1, 4, 10.84),
    ("774M", 4, 4, 11.67),
    ("774M", 8, 4, 12.78),
    # one micro-batch a step
    ("124M", 8, 4, 2.97),
    ("124M", 8, 5, 2.68),
    ("350M", 16, 4, 7.24),
    ("350M", 16, 5, 6.16),
    ("774M", 2, 4, 11.11),
    ("774M", 2, 5, 8.55),
    ("774M", 8, 5, 10.21),
    ("774M", 12, 5, 10.74),
    ("1.0B", 4, 4, 14.89),
    ("1.0B", 4, 5, 11.50),
]


@pytest.mark.parametrize(("model", "sequences", "steps", "gib"), MEASURED)
def test_the_peaks_of_our_own_passes_within_seven_percent(model: str, sequences: int, steps: int, gib: float) -> None:
    predicted = fused_peak_bytes((*SIZES[model], 50304, 1024), sequences, MEMORY_STEPS[:steps])
    assert predicted / GIB == pytest.approx(gib, rel=0.07)


@pytest.mark.parametrize(
    ("sequences", "recipe", "fp8", "gib"),
    [(40, "gpt2", False, 10.27), (40, "gpt2", True, 10.38), (8, "fast", False, 5.22), (32, "fast", False, 9.59)],
)
def test_the_peaks_of_whole_runs_in_12_gib(sequences: int, recipe: str, fp8: bool, gib: float) -> None:
    steps = climb(GPT2, sequences, 12, recipe=recipe, fp8=fp8)
    predicted = fused_peak_bytes(GPT2, sequences, steps, recipe=recipe, fp8=fp8)
    assert predicted / GIB == pytest.approx(gib, rel=0.07)


@pytest.mark.parametrize(
    ("model", "sequences", "steps"), [("124M", 21, 0), ("124M", 40, 1), ("350M", 8, 1), ("350M", 14, 2), ("774M", 2, 4)]
)
def test_the_ladder_is_climbed_only_as_far_as_needed(model: str, sequences: int, steps: int) -> None:
    size = (*SIZES[model], 50304, 1024)
    found = climb(size, sequences, 12)
    assert found == MEMORY_STEPS[:steps]
    assert fused_peak_bytes(size, sequences, found) < usable_bytes(12)
    assert not steps or fused_peak_bytes(size, sequences, found[:-1]) > usable_bytes(12)


def test_cuda_itself_takes_some() -> None:
    """Half a GiB on an H200. With four sequences, GPT-2 large takes 11.6 GiB, and did not fit in 12."""
    assert usable_bytes(12) < 11.5 * GIB < fused_peak_bytes((*SIZES["774M"], 50304, 1024), 4, MEMORY_STEPS[:-1])


def test_where_nothing_is_enough_all_of_it_is_climbed() -> None:
    """Except for gradients, which smaller micro-batches have to keep."""
    for single in (False, True):
        assert climb((*SIZES["774M"], 50304, 1024), 96, 12, single=single) == MEMORY_STEPS[:-1]


def test_the_host_s_memory_comes_last() -> None:
    """Only where not even one sequence fits without it; and everything is recomputed before more moves there."""
    assert climb((30, 1600, 50304, 1024), 2, 12, single=True) == MEMORY_STEPS
    assert climb((30, 1600, 50304, 1024), 2, 12)[-1] == "host"
    assert climb(XL, 4, 12) == ("activation", "hidden", "attention", "host")
    assert climb(XL, 1, 12) == ("activation", "host")
    assert fused_peak_bytes(XL, 4, climb(XL, 4, 12)) < usable_bytes(12) < fused_peak_bytes(XL, 1, MEMORY_STEPS[:-1])


def test_smaller_micro_batches_come_before_more_on_the_host() -> None:
    """What moves there as well would pass the bus with each of them."""
    steps, more = climb(XL, 16, 12), ("activation", "hidden", "attention", *HOST_STEPS)
    assert steps == ("activation", "hidden", "attention", "host")
    assert fused_peak_bytes(XL, 16, more) < usable_bytes(12) < fused_peak_bytes(XL, 16, steps)


@pytest.mark.parametrize("recipe", ["gpt2", "fast"])
def test_what_moves_to_the_host_is_not_on_the_card(recipe: str) -> None:
    """Averages of all, and the matrices themselves; a few slots of pieces come instead."""
    matrices, table = 12 * 48 * 1600**2, 50304 * 1600
    kept, moved = (fused_peak_bytes(XL, 1, each, recipe=recipe) for each in (("attention",), ("attention", "host")))
    slots = 3 * 32 * 1600**2 if recipe == "fast" else 3 * 12 * HOST_PIECE
    on_host = host_bytes(XL, 1, ("attention", "host"), recipe=recipe)
    assert kept - moved + slots == pytest.approx(on_host - 8 * HOST_PIECE, rel=1e-3)
    numbers = 2 * matrices + 6 * table if recipe == "fast" else 3 * matrices + 2 * table
    assert on_host == pytest.approx(4 * numbers, rel=0.01)


@pytest.mark.parametrize(("model", "sequences"), [("774M", 4), ("774M", 8), ("774M", 12), ("1.0B", 2)])
def test_what_12_gib_hold_where_a_step_is_one_micro_batch(model: str, sequences: int) -> None:
    size = (*SIZES[model], 50304, 1024)
    assert climb(size, sequences, 12, single=True) == MEMORY_STEPS
    assert (
        fused_peak_bytes(size, sequences, MEMORY_STEPS)
        < usable_bytes(12)
        < fused_peak_bytes(size, sequences, MEMORY_STEPS[:-1])
    )


def test_released_gradients_take_the_place_of_one_layer_and_the_tables() -> None:
    kept, released = (fused_peak_bytes(GPT2, 8, MEMORY_STEPS[:count]) for count in (4, 5))
    assert kept - released == 4 * (11 * 12 * 768**2 + 25 * 768)  # and the norms'


def test_the_recipe_fast_has_other_steps_and_more_tables() -> None:
    """It must fit in 12 GiB at micro-batch 8, and keep less of each layer."""
    assert climb(GPT2, 8, 12, recipe="fast") == ()
    assert climb(GPT2, 96, 12, recipe="fast") == ("hidden", "attention")
    first, second = (fused_peak_bytes(GPT2, 8, (), recipe=each) for each in ("gpt2", "fast"))
    assert 0 < second - first < GIB


@pytest.mark.parametrize("recipe", ["gpt2", "fast"])
@pytest.mark.parametrize(
    ("sequences", "steps", "more"),
    [(1, (), 1024 * (768 + 50304)), (8, (), 8192 * (768 + 50304)), (96, ("hidden", "attention"), 96 * 1024 * 5 * 768)],
)
def test_eight_bits_are_two_bytes_of_each_matrix_after_a_norm_and_one_of_the_mlp_s_second(
    recipe: str, sequences: int, steps: tuple[str, ...], more: int
) -> None:
    """The peak is at the head, which has its input and the logits' gradients in 8 bits, too; or in the backward pass,
    which has the stream's gradient and that into the MLP."""
    plain, fp8 = (fused_peak_bytes(GPT2, sequences, steps, recipe=recipe, fp8=each) for each in (False, True))
    assert fp8 - plain == 2 * (7 * 12 * 768**2 + 50304 * 768) + 4 * 12 * 768**2 + more


def test_eight_bits_may_take_the_ladder_s_next_step() -> None:
    between = (fused_peak_bytes(GPT2, 8) + fused_peak_bytes(GPT2, 8, fp8=True)) / 2 / 0.98
    between = between / GIB + 0.5
    assert (climb(GPT2, 8, between), climb(GPT2, 8, between, fp8=True)) == ((), ("activation",))
