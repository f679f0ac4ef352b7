from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from nanopace.config import Asked, TrainConfig
from nanopace.errors import UsageError
from nanopace.hardware.cards import find_card
from nanopace.literals import Value
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.plan.device import Machine, find_machine, pick_compile, pick_dtype, pick_kernels, set_tf32
from nanopace.train.plan.origin import find_saved
from nanopace.train.run import train

from ..conftest import TINY, Recorder
from ..runs import resume, run

CPU = Machine(torch.device("cpu"), "")
CARD = Machine(torch.device("cuda", 0), "", card=find_card("4070"))


@pytest.fixture
def two_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    """What torch reports if there are two cards."""
    properties = SimpleNamespace(
        name="NVIDIA GeForce RTX 4070", total_memory=12 << 30, multi_processor_count=46, uuid="GPU-1"
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: properties.name)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: not including_emulation)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 9))


@pytest.mark.usefixtures("two_cards")
def test_a_card_is_taken_where_there_is_one() -> None:
    machine = find_machine(None)
    assert machine.device == torch.device("cuda", 0)
    assert machine.reason == "found NVIDIA GeForce RTX 4070"
    assert machine.peak_flops("bfloat16") == machine.card.bf16_tflops * 1e12  # type: ignore[operator]
    assert (machine.memory_gb, machine.sms, machine.uuid) == (12, 46, "GPU-1")
    assert find_machine("cuda:1").device == torch.device("cuda", 1)
    assert find_machine("cuda").device == torch.device("cuda", 0)
    with pytest.raises(UsageError, match="--device=cuda:2: there are 2 cards, counted from 0"):
        find_machine("cuda:2")


class LaunchingThereError(Exception):
    pass


@pytest.mark.usefixtures("two_cards")
def test_everything_is_launched_on_the_card_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton launches on torch's current device, not on that of the tensors."""

    def set_device(device: torch.device) -> None:
        raise LaunchingThereError(device)

    monkeypatch.setattr(torch.cuda, "set_device", set_device)
    given: dict[str, Value] = {"device": "cuda:1", "out_dir": str(tmp_path / "out")}
    with pytest.raises(LaunchingThereError, match="cuda:1"):
        train(Asked(given=given, auto=True), listener=Recorder(), started=time.monotonic())


@pytest.mark.usefixtures("two_cards")
def test_an_unknown_card_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = SimpleNamespace(name="NVIDIA X9", total_memory=12 << 30, multi_processor_count=46)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: stranger)
    machine = find_machine("cuda")
    assert (machine.card, machine.peak_flops("bfloat16"), machine.uuid) == (None, None, None)


def test_without_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert find_machine(None).reason == "found no CUDA card"
    with pytest.raises(UsageError, match="--device=cuda: torch finds no CUDA card here; --device=cpu"):
        find_machine("cuda")
    with pytest.raises(UsageError, match="torch finds no Apple GPU here"):
        find_machine("mps")
    for word in ("gpu", "meta", "cuda:x"):
        with pytest.raises(UsageError, match=f"--device={word}: unknown device"):
            find_machine(word)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert find_machine(None).device.type == "mps"
    assert find_machine("mps").reason == "as requested"


@pytest.mark.usefixtures("two_cards")
def test_precision_and_compiler_are_chosen_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    for decides in (True, False):
        assert pick_dtype(CARD, None, machine_decides=decides)[0] == "bfloat16"
    assert pick_dtype(CARD, "float16", machine_decides=False) == ("float16", "as requested")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: including_emulation)
    scaled = "the card has no bfloat16, so losses are scaled"
    assert pick_dtype(CARD, None, machine_decides=False) == ("float16", scaled)
    assert pick_compile(CARD, None)[0]
    assert not pick_compile(CPU, None)[0]
    assert pick_compile(CPU, True) == (True, "as requested")


@pytest.mark.parametrize(
    ("has", "decided"), [((), "float32"), (("avx512_bf16",), "bfloat16"), (("amx", "avx512_bf16"), "bfloat16")]
)
def test_precision_on_a_cpu(has: tuple[str, ...], decided: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """bfloat16 if it is fast and nanoGPT's float32 was not requested; otherwise a note says what would be faster."""
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: "amx" in has)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: "avx512_bf16" in has)
    by_machine, as_nanogpt = (pick_dtype(CPU, None, machine_decides=decides) for decides in (True, False))
    assert by_machine[0] == decided
    assert as_nanogpt[0] == "float32"
    assert as_nanogpt[1].startswith("as in nanoGPT on a CPU")
    for name in has[:1]:
        assert f"this CPU has {name}" in by_machine[1]
        assert f"--dtype=bfloat16 is usually faster on this one, which has {name}" in as_nanogpt[1]
    assert pick_dtype(CPU, "bfloat16", machine_decides=False) == ("bfloat16", "as requested")
    apple = Machine(torch.device("mps"), "")
    assert pick_dtype(apple, None, machine_decides=True) == ("float32", "as in nanoGPT on this device")


def test_an_older_torch_cannot_tell_what_the_cpu_has(monkeypatch: pytest.MonkeyPatch) -> None:
    for question in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        monkeypatch.delattr(torch.cpu, question)
    assert pick_dtype(CPU, None, machine_decides=True)[0] == "float32"


def test_half_precision_on_a_cpu_is_made_single_and_said(corpus: Path, tmp_path: Path) -> None:
    """nanoGPT does this silently; in float16, a step of Shakespeare would take seconds."""
    out = tmp_path / "out"
    _, listener = run(corpus, out, dtype="float16", max_iters=1)
    [intro] = listener.all("started")
    assert intro.choices["dtype"].startswith("float32: instead of float16, as in nanoGPT")
    assert find_saved(out, listener).config["dtype"] == "float32"


def test_what_was_chosen_stays(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that started in bfloat16 stays in it, with the same weights, even if the machine would choose otherwise."""
    weights = {}
    for stops in ((4,), (2, 4)):
        out = tmp_path / str(len(stops))
        given = {**TINY, "dataset": str(corpus), "out_dir": str(out), "max_iters": stops[0], "lr_decay_iters": 4}
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
        train(Asked(given=given, auto=True), listener=Recorder(), started=time.monotonic())
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
        for stop in stops[1:]:
            resume(out, max_iters=stop)
        saved = find_saved(out, Recorder())
        assert saved.config["dtype"] == "bfloat16"
        weights[stops] = saved.weights()
    whole, resumed = weights.values()
    assert all(torch.equal(each, resumed[name]) for name, each in whole.items())


@pytest.mark.usefixtures("two_cards")
@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_a_card_without_bfloat16_gets_torch_instead_of_our_kernels(
    monkeypatch: pytest.MonkeyPatch, dtype: str | None
) -> None:
    """Also if bfloat16 is asked for, which torch emulates there: our kernels were never meant for such a card."""
    pytest.importorskip("triton")
    turing = Machine(torch.device("cuda", 0), "", card=find_card("T4"))
    shape = ModelShape(n_layer=2, n_head=2, n_embd=64, vocab_size=256, block_size=64)

    def kernels() -> tuple[str, str]:
        config = TrainConfig(dtype=pick_dtype(turing, dtype, machine_decides=True)[0], compile=True)
        return pick_kernels(config, shape, turing.device, 1)

    assert kernels()[0] == "fused"  # two_cards have it
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: including_emulation)
    assert pick_dtype(turing, None, machine_decides=True)[0] == "float16"
    assert kernels() == ("compiled", "torch.compile, on a card without bfloat16")
    assert pick_compile(turing, None)[0]


@pytest.mark.usefixtures("two_cards")
def test_what_triton_refuses_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (6, 0))
    assert pick_compile(CARD, None) == (False, "torch.compile does not support a card this old")
    assert pick_compile(CARD, True) == (True, "as requested")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 0))
    assert pick_compile(CARD, None)[0]


@pytest.mark.usefixtures("two_cards")
def test_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    try:
        assert set_tf32(CPU) == "does not apply"
        assert set_tf32(CARD).startswith("on:")
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
        assert set_tf32(CARD) == "off: the card does not support it"
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before
