from __future__ import annotations

import gc
import sys
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nanopace.config import TrainConfig
from nanopace.errors import ConfigError, UsageError
from nanopace.knob_values import memory_bytes
from nanopace.train.out_of_memory import attempt, is_full, smaller, waste_less
from nanopace.train.plan.device import Machine, limited


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes"),
            True,
        ),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (MemoryError(), True),
        (RuntimeError("could not create a primitive"), True),
        (RuntimeError("could not create a primitive descriptor for a matmul primitive"), False),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_full_memory_has_many_words(error: Exception, full: bool) -> None:
    assert is_full(error) == full


def test_the_allocator_of_this_machine_says_so_too() -> None:
    assert attempt(lambda: torch.empty(1 << 55, dtype=torch.uint8)) is None
    with pytest.raises(RuntimeError, match="shapes"):
        attempt(lambda: torch.ones(2, 3) @ torch.ones(2, 3))


def test_an_attempt_in_vain_keeps_nothing_alive() -> None:
    """A traceback would keep the frame alive, and the frame the activations."""
    kept: list[weakref.ref[torch.Tensor]] = []

    def fail() -> None:
        activations = torch.ones(3)
        kept.append(weakref.ref(activations))
        raise torch.OutOfMemoryError

    gc.disable()
    try:
        assert attempt(fail) is None
        assert kept[0]() is None
    finally:
        gc.enable()


@given(st.integers(1, 4096))
def test_a_smaller_micro_batch_divides_the_larger(batch_size: int) -> None:
    less = smaller(batch_size)
    if batch_size == 1:
        assert less is None
    else:
        assert batch_size % less == 0
        assert less == max(each for each in range(1, batch_size // 2 + 1) if batch_size % each == 0)


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("", None),
        ("12GiB", 12 << 30),
        ("12GB", 12 * 10**9),
        ("12288MiB", 12 << 30),
        ("1.5 GiB", 3 << 29),
        ("900MB", 9 * 10**8),
    ],
)
def test_amounts_of_memory(written: str, size: int | None) -> None:
    assert memory_bytes(written) == size
    assert TrainConfig(memory_limit=written).memory_limit == written


@pytest.mark.parametrize("written", ["12", "12 gigs", "-1GiB", "0GiB", "GiB", "1e3GiB", "12GiB\n", "٣GiB", "12KiB"])
def test_what_is_no_amount_of_memory(written: str) -> None:
    with pytest.raises(ConfigError, match="memory_limit must be an amount such as 12GiB") as raised:
        TrainConfig(memory_limit=written)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_only_a_card_can_be_limited(device: str) -> None:
    machine = Machine(torch.device(device), "asked for")
    assert limited(machine, "") == machine
    with pytest.raises(UsageError, match=f"--memory_limit=8GiB: only a CUDA card's .* on {device}"):
        limited(machine, "8GiB")


def test_a_limited_machine_still_knows_its_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """A card of 24 GiB with 0.5 GiB in use: CUDA's own memory counts towards the limit."""
    fractions = []
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (int(23.5 * 2**30), 24 << 30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _device: 0)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda part, _device: fractions.append(part))
    machine = Machine(torch.device("cuda", 0), "found", "A card", 24.0)
    less = limited(machine, "12GiB")
    assert (less.memory_gb, less.card_memory_gb, machine.card_memory_gb) == (12.0, 24.0, 24.0)
    assert fractions == [pytest.approx(11.5 / 24)]
    with pytest.raises(UsageError, match=r"--memory_limit=25GiB: is more than the card's 24\.0 GiB"):
        limited(machine, "25GiB")
    with pytest.raises(UsageError, match=r"--memory_limit=400MiB: CUDA alone takes 0\.50 GiB"):
        limited(machine, "400MiB")


@pytest.mark.parametrize(
    ("device", "variable", "asked"),
    [
        ("cuda", None, ["expandable_segments:True"]),
        ("cuda", "PYTORCH_ALLOC_CONF", []),
        ("cuda", "PYTORCH_CUDA_ALLOC_CONF", []),
        ("cpu", None, []),
    ],
)
def test_the_allocator_is_set_up_where_nobody_has(
    monkeypatch: pytest.MonkeyPatch, device: str, variable: str | None, asked: list[str]
) -> None:
    said: list[str] = []
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(torch._C, "_accelerator_setAllocatorSettings", said.append)
    for each in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        monkeypatch.delenv(each, raising=False)
    if variable is not None:
        monkeypatch.setenv(variable, "")
    waste_less(torch.device(device))
    assert said == asked
