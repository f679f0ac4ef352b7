"""Which memory steps are taken, and why."""

from __future__ import annotations

import pytest
import torch

from nanopace.config import TrainConfig
from nanopace.errors import ConfigError
from nanopace.literals import Value
from nanopace.memory_ladder import MEMORY_STEPS
from nanopace.train.plan.device import Machine, pick_kernels
from nanopace.train.plan.ladder import check_host, pick_steps, released_batch
from nanopace.train.plan.run_plan import Choice
from nanopace.train.plan.settings import shape_of

pytest.importorskip("triton")

CARD = Machine(torch.device("cuda", 0), "a card", "some card", 12.0)


LARGE: dict[str, Value] = {"n_layer": 36, "n_head": 20, "n_embd": 1280, "batch_size": 8}


def picked(
    machine: Machine = CARD, kernels: str = "fused", micro_batch: int | None = None, **knobs: Value
) -> tuple[tuple[str, ...], str]:
    config = TrainConfig(**knobs)  # type: ignore[arg-type]
    return pick_steps(config, shape_of(config, "gelu"), machine, kernels, micro_batch)


def test_as_little_as_fits() -> None:
    assert picked(batch_size=20) == ((), "everything is kept: it takes about 8.0 of 12.0 GiB")
    steps, why = picked(batch_size=40)
    assert steps == ("activation",)
    assert why == "activation: takes about 10.3 of 12.0 GiB, and 13.1 without activation"


def test_eight_bits_are_counted() -> None:
    assert picked(batch_size=20, fp8=True) == ((), "everything is kept: it takes about 8.5 of 12.0 GiB")


def test_what_is_asked_for_is_done() -> None:
    assert picked(batch_size=8, memory="averages, hidden") == (("hidden", "averages"), "hidden, averages: as requested")
    assert picked(batch_size=400, memory="") == ((), "everything is kept: as requested")


def test_what_is_not_known_or_cannot_be_is_left() -> None:
    unknown = Machine(torch.device("cuda", 0), "a card")
    assert picked(unknown, batch_size=400)[1] == "everything is kept: the amount of memory is unknown"
    assert picked(batch_size=400, kernels="compiled") == (
        (),
        "everything is kept: only our own kernels can save memory",
    )


def test_gradients_are_released_where_a_step_is_one_micro_batch() -> None:
    steps, why = picked(**LARGE, gradient_accumulation_steps=1)
    assert steps == MEMORY_STEPS
    everything = ", ".join(MEMORY_STEPS)
    assert why == f"{everything}: takes about 10.1 of 12.0 GiB, and 12.7 without gradients"
    assert picked(**LARGE, gradient_accumulation_steps=2)[0] == MEMORY_STEPS[:-1]


def test_gradients_are_kept_where_memory_was_full_before() -> None:
    """Then a step is two micro-batches, whatever batch_size says."""
    assert picked(**LARGE, gradient_accumulation_steps=1, micro_batch=8)[0] == MEMORY_STEPS
    for knobs in ({}, {"memory": "attention, gradients"}):
        steps, _ = picked(**LARGE, **knobs, gradient_accumulation_steps=1, micro_batch=4)
        assert steps[-2:] == ("attention", "averages")


def test_gradients_bring_averages_along() -> None:
    steps, _ = picked(batch_size=8, memory="gradients", gradient_accumulation_steps=1)
    assert steps == ("averages", "gradients")


def test_gradients_cannot_be_released_where_others_have_to_wait_for_them() -> None:
    with pytest.raises(ConfigError, match="needs gradient_accumulation_steps=1, not 4"):
        TrainConfig(memory="gradients", gradient_accumulation_steps=4)
    with pytest.raises(ConfigError, match="memory=gradients and recipe=fast cannot be combined"):
        TrainConfig(memory="gradients", gradient_accumulation_steps=1, recipe="fast")


@pytest.mark.parametrize(
    ("knobs", "fitting"),
    [
        ({"n_layer": 30, "n_head": 25, "n_embd": 1600}, 2),  # 1.0B
        ({"n_layer": 30, "n_head": 25, "n_embd": 1600, "gradient_accumulation_steps": 8}, 2),
        ({"n_layer": 48, "n_head": 25, "n_embd": 1600}, None),
        ({"n_layer": 30, "n_head": 25, "n_embd": 1600, "memory": "averages"}, None),
        ({"n_layer": 30, "n_head": 25, "n_embd": 1600, "fused": False}, None),
        ({"n_layer": 30, "n_head": 20, "n_embd": 1600, "recipe": "fast"}, None),
    ],
)
def test_what_fits_where_gradients_need_not_be_kept(knobs: dict[str, Value], fitting: int | None) -> None:
    config = TrainConfig(**{"batch_size": 8, **knobs})  # type: ignore[arg-type]
    shape = shape_of(config, "gelu")
    kernels, _ = pick_kernels(config, shape, CARD.device, 1)
    assert released_batch(config, shape, CARD, kernels) == fitting


XL: dict[str, Value] = {"n_layer": 48, "n_head": 25, "n_embd": 1600, "vocab_size": 50304}
WITH_HOST = ("activation", "hidden", "attention", "host")


def test_the_host_s_memory_where_nothing_else_fits() -> None:
    steps, why = picked(**XL, batch_size=4)
    assert steps == WITH_HOST
    assert why == (
        "activation, hidden, attention, host: takes about 11.2 of 12.0 GiB, and 17.1 GiB of host memory; without it, "
        "not even one sequence fits"
    )
    assert picked(**XL, batch_size=4, fused=False, kernels="compiled")[0] == ()


def test_who_asks_for_it_gets_what_else_it_takes() -> None:
    assert picked(batch_size=8, memory="host")[0] == ("host",)
    steps, why = picked(**XL, batch_size=4, memory="host")
    assert steps == WITH_HOST
    assert why.endswith("GiB of host memory; as requested")
    assert picked(**XL, batch_size=4, memory="host_gradients")[0] == (*WITH_HOST, "host_gradients")
    unknown = Machine(torch.device("cuda", 0), "a card")
    assert picked(unknown, batch_size=8, memory="host") == (("host",), "host: as requested")


@pytest.mark.parametrize(("knobs", "ranks"), [({}, 2), ({"parallel": "fsdp"}, 1), ({"fused": False}, 1)])
def test_the_host_s_memory_needs_our_kernels_and_one_process(knobs: dict[str, Value], ranks: int) -> None:
    config = TrainConfig(memory="host", dtype="bfloat16", **knobs)  # type: ignore[arg-type]
    shape = shape_of(config, "gelu")
    kernels = Choice(*pick_kernels(config, shape, CARD.device, ranks))
    why = "as requested" if ranks == 1 and "fused" in knobs else "with several processes"
    with pytest.raises(ConfigError, match=rf"memory=host needs our own kernels, which .* {why}"):
        check_host(config, shape, kernels, ())


def test_gradients_that_are_compared_are_kept() -> None:
    """check_every computes them twice."""
    checked: dict[str, Value] = {**LARGE, "gradient_accumulation_steps": 1, "check_every": 10, "deterministic": True}
    assert "gradients" not in picked(**checked)[0]
    assert "gradients" in picked(**{**checked, "check_every": 0})[0]


def test_what_is_in_the_host_s_memory_is_not_checked() -> None:
    config = TrainConfig(check_every=10, deterministic=True)
    fused = Choice("fused", "as on a card")
    check_host(config, shape_of(config, "gelu"), fused, ("activation",))
    with pytest.raises(ConfigError, match="memory=host and check_every cannot be combined"):
        check_host(config, shape_of(config, "gelu"), fused, ("host",))


def test_matrices_in_eight_bits_stay_on_the_card() -> None:
    with pytest.raises(ConfigError, match="memory=host_weights and fp8=True cannot be combined"):
        TrainConfig(memory="host_weights", fp8=True)


def test_a_name_that_is_none() -> None:
    known = "activation, hidden, attention, averages, gradients, host, host_gradients, host_activations, host_weights"
    with pytest.raises(ConfigError, match=f"memory must be auto or any of {known}"):
        TrainConfig(memory="hiden")
