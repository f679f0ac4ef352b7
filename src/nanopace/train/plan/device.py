"""Chooses the device and how to train on it, each choice with its reason.

What the user asks for is done or refused; it is replaced only where nanoGPT does so, with a note. The rest is chosen.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib.util import find_spec

import torch

from nanopace.config import TrainConfig
from nanopace.errors import CardError, ConfigError, Message, UsageError
from nanopace.hardware.cards import Card, find_card
from nanopace.knob_values import memory_bytes
from nanopace.train.models.gpt2 import ModelShape

GIB = 1 << 30
_FP8_SINCE = (8, 9)  # compute capability
_OURS_SINCE = (8, 0)  # bfloat16, in which our kernels compute
_COMPILED_SINCE = (7, 0)  # below, triton refuses
_LARGEST_CONTEXT = GIB  # CUDA itself takes a few hundred MB; anything more belongs to other programs


@dataclass(frozen=True, slots=True)
class Machine:
    """The device and what is known about it; None means unknown."""

    device: torch.device
    reason: str
    name: str | None = None  # as the driver reports it
    memory_gb: float | None = None  # that this process may use
    sms: int | None = None
    uuid: str | None = None
    card: Card | None = None
    whole_memory_gb: float | None = None  # of the card, if this process may not use all of it

    @property
    def card_memory_gb(self) -> float | None:
        """The card's full memory, which helps to recognise the card."""
        return self.memory_gb if self.whole_memory_gb is None else self.whole_memory_gb

    def peak_flops(self, dtype: str) -> float | None:
        """The card's peak in FLOP/s, which an mfu is a fraction of."""
        if self.card is None:
            return None
        tflops = {"bfloat16": self.card.bf16_tflops, "float16": self.card.fp16_tflops, "float32": self.card.fp32_tflops}
        peak = tflops[dtype]
        return None if peak is None else peak * 1e12


def find_machine(wanted: str | None) -> Machine:
    """`wanted` is the knob device; None if it was not given."""
    device, reason = _pick(wanted)
    if device.type != "cuda":
        return Machine(device, reason)
    properties = torch.cuda.get_device_properties(device)
    memory_gb = properties.total_memory / GIB
    sms = properties.multi_processor_count
    try:
        card = find_card(properties.name, sms=sms, memory_gb=memory_gb)
    except CardError:
        card = None
    return Machine(device, reason, properties.name, memory_gb, sms, str(getattr(properties, "uuid", "")) or None, card)


def limited(machine: Machine, memory_limit: str) -> Machine:
    """The same machine with less memory, as the knob memory_limit asks. From now on torch uses no more than that."""
    most = memory_bytes(memory_limit)
    if most is None:
        return machine
    if machine.device.type != "cuda":
        raise UsageError(
            "--memory_limit={limit}: only a CUDA card's memory can be limited, but this run is on {device}",
            limit=memory_limit,
            device=machine.device,
        )
    free, total = torch.cuda.mem_get_info(machine.device)
    if most > total:
        raise UsageError(
            "--memory_limit={limit}: is more than the card's {memory_gb:.1f} GiB",
            limit=memory_limit,
            memory_gb=total / GIB,
        )
    # CUDA itself takes some memory in addition to what torch's allocator requests.
    context = min(_LARGEST_CONTEXT, max(0, total - free - torch.cuda.memory_reserved(machine.device)))
    if most <= context:
        raise UsageError(
            "--memory_limit={limit}: CUDA alone takes {context_gb:.2f} GiB; allow a few GiB more",
            limit=memory_limit,
            context_gb=context / GIB,
        )
    torch.cuda.set_per_process_memory_fraction((most - context) / total, machine.device)
    return replace(machine, memory_gb=most / GIB, whole_memory_gb=machine.card_memory_gb)


def _pick(wanted: str | None) -> tuple[torch.device, str]:
    if wanted is None:
        if torch.cuda.is_available():
            return torch.device("cuda", 0), Message("found {card}", card=torch.cuda.get_device_name(0))
        if torch.backends.mps.is_available():
            return torch.device("mps"), Message("found no CUDA card, but an Apple GPU")
        return torch.device("cpu"), Message("found no CUDA card")
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise _no_device(wanted) from None
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count == 0:
            raise UsageError(
                "--device={device}: torch finds no CUDA card here; --device=cpu trains without one", device=wanted
            )
        if (device.index or 0) >= count:
            raise UsageError("--device={device}: there are {count} cards, counted from 0", device=wanted, count=count)
        device = torch.device("cuda", device.index or 0)
    elif device.type == "mps":
        if not torch.backends.mps.is_available():
            raise UsageError("--device={device}: torch finds no Apple GPU here", device=wanted)
    elif device.type != "cpu":
        raise _no_device(wanted)
    return device, Message("as requested")


def _no_device(wanted: str) -> UsageError:
    return UsageError("--device={device}: unknown device; use cuda, cuda:1, cpu or mps", device=wanted)


def pick_dtype(machine: Machine, wanted: str | None, *, machine_decides: bool) -> tuple[str, str]:
    """The precision of the matrix products. Weights, norms and the optimizer stay in float32."""
    kind = machine.device.type
    if wanted == "float16" and kind == "cpu":
        return "float32", Message("instead of float16, as in nanoGPT: float16 is many times slower on a CPU")
    if wanted is not None:
        return wanted, Message("as requested")
    if kind == "cuda":
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return "bfloat16", Message("the card supports it, and it needs no loss scaling")
        return "float16", Message("the card has no bfloat16, so losses are scaled")
    if kind != "cpu":
        return "float32", Message("as in nanoGPT on this device")
    has = _bfloat16_instructions()
    if has is None:
        return "float32", Message("as in nanoGPT on a CPU; torch finds neither avx512_bf16 nor amx here")
    if machine_decides:
        return "bfloat16", Message("this CPU has {has}, which is usually faster than float32", has=has)
    return "float32", Message(
        "as in nanoGPT on a CPU; --dtype=bfloat16 is usually faster on this one, which has {has}", has=has
    )


def _bfloat16_instructions() -> str | None:
    """This CPU's instructions for bfloat16 products; None if there are none, or this torch cannot detect them."""
    for name, question in (("amx", "_is_amx_tile_supported"), ("avx512_bf16", "_is_avx512_bf16_supported")):
        ask = getattr(torch.cpu, question, None)
        if ask is not None and ask():
            return name
    return None


def autocast(config: TrainConfig, device: torch.device) -> AbstractContextManager[object]:
    if config.dtype == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=getattr(torch, config.dtype))


def pick_compile(machine: Machine, wanted: bool | None) -> tuple[bool, str]:
    if wanted is not None:
        return wanted, Message("as requested")
    if machine.device.type == "cuda" and _is_older(machine.device, _COMPILED_SINCE):
        return False, Message("torch.compile does not support a card this old")
    if machine.device.type == "cuda":
        return True, Message("fewer, larger kernels")
    return False, Message("gains little on a CPU, and needs a C++ compiler")


def set_tf32(machine: Machine) -> str:
    """Allow float32 products on the tensor cores, as nanoGPT does; return the reason."""
    if machine.device.type != "cuda":
        return Message("does not apply")
    if torch.cuda.get_device_capability(machine.device)[0] < 8:
        return Message("off: the card does not support it")
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    return Message("on: what is left in float32 does not need full precision")


def pick_kernels(config: TrainConfig, shape: ModelShape, device: torch.device, ranks: int) -> tuple[str, str]:
    """'fused', 'compiled' or 'eager', and why. Our own kernels support what most people train, and no more."""
    if not config.compile:
        return "eager", Message("nothing is compiled")
    reasons = list(_against_ours(config, shape, device, ranks))
    if reasons:
        return "compiled", Message("torch.compile, {reason}", reason=reasons[0])
    return "fused", Message("our own kernels around torch's matrix products and attention")


def _against_ours(config: TrainConfig, shape: ModelShape, device: torch.device, ranks: int) -> dict[str, str]:
    """The reasons why our kernels cannot be used, each with the setting that causes it."""
    head = shape.n_embd // shape.n_head
    against = {
        Message("on device {device}", device=device.type): (device.type != "cuda", f"device={device.type}"),
        Message("as requested"): (not config.fused, "fused=False"),
        Message("with several processes"): (ranks > 1 or config.parallel == "fsdp", f"parallel={config.parallel}"),
        Message("for heads of width {head}", head=head): (
            shape.recipe != "gpt2" and head % 2 == 1,
            f"n_head={shape.n_head}",
        ),
        Message("on a card without bfloat16"): (_is_older(device, _OURS_SINCE), "a card without bfloat16"),
        Message("in {dtype}", dtype=config.dtype): (config.dtype != "bfloat16", f"dtype={config.dtype}"),
        Message("for {activation}", activation=shape.activation): (
            shape.activation != "gelu",
            f"activation={shape.activation}",
        ),
        Message("with dropout"): (shape.dropout > 0, f"dropout={shape.dropout}"),
        Message("with biases"): (shape.bias, "bias=True"),
        Message("without triton"): (find_spec("triton") is None, "no triton"),
    }
    return {reason: setting for reason, (holds, setting) in against.items() if holds}


def _is_older(device: torch.device, capability: tuple[int, int]) -> bool:
    """Whether it is a card below that compute capability. Not known of a card that is not in this computer."""
    if device.type != "cuda" or not torch.cuda.is_available():
        return False
    return torch.cuda.get_device_capability(device) < capability


def has_fp8(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= _FP8_SINCE


def takes_fp8(config: TrainConfig, shape: ModelShape, machine: Machine, ranks: int) -> bool:
    """Whether fp8=True would be possible."""
    try:
        check_fp8(replace(config, fp8=True), shape, machine.device, ranks)
    except ConfigError:
        return False
    return True


def check_fp8(config: TrainConfig, shape: ModelShape, device: torch.device, ranks: int) -> None:
    """Products in 8 bits are part of our kernels: refuse fp8 if those cannot run."""
    if not config.fp8:
        return
    if not has_fp8(device):
        raise ConfigError(
            "fp8=True needs a card that multiplies in 8 bits (Ada, Hopper or later), and {device} does not; use "
            "fp8=False",
            device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        )
    if ranks > 1:
        raise ConfigError(
            "fp8=True needs our own kernels, which train on one card, but this run has {ranks} processes; use "
            "fp8=False",
            ranks=ranks,
        )
    if shape.n_embd % 16:
        raise ConfigError(
            "with fp8=True, n_embd must be a multiple of 16, not {n_embd}; or use fp8=False", n_embd=shape.n_embd
        )
    against = list(_against_ours(config, shape, device, ranks).values()) if config.compile else ["compile=False"]
    if against:
        raise ConfigError(
            "fp8=True and {setting} cannot be combined: 8-bit products are part of our own kernels, which do not "
            "support that; change one of them",
            setting=against[0],
        )
