"""Every knob of the config with its reason: a code and numbers, which wording/reasons.py turns into a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from nanopace.hardware.cards import Card
from nanopace.hardware.scaling_law import ALMOST_FRESH
from nanopace.hardware.speed import own_kernels
from nanopace.literals import Value
from nanopace.memory_ladder import keeps_gradients, on_host
from nanopace.tune.recommend.budget import Budget
from nanopace.tune.recommend.datasets import Dataset
from nanopace.tune.recommend.micro_batch import MicroBatch
from nanopace.tune.recommend.models import GPT2_VOCABULARY, Model

# GPT-3's table 2.1 (Brown et al. 2020): parameters and learning rate. Below that, nanoGPT's value for small models.
_RATES = ((30e6, 1e-3), (125e6, 6e-4), (350e6, 3e-4), (760e6, 2.5e-4), (1.3e9, 2e-4), (2.7e9, 1.6e-4), (6.7e9, 1.2e-4))
_SMALLEST_GPT3 = 125e6
_WARMUP_TOKENS = 375e6  # GPT-3's
_FEW_TOKENS = 65_536  # per step: with fewer, AdamW's average of squares needs a longer memory
_EVALUATION_TOKENS = 400_000  # the error of the loss is about 0.005 then
_EVALUATIONS = 20
_MOST_SHARE = 0.01  # of the time, for evaluations and checkpoints
_MOST_SHARE_OVERFITTING = 0.25  # if they must show when the model overfits
_HALF_AN_HOUR = 1800.0  # of work that may be lost
_HOUR = 3600.0  # between evaluations, at which nanoGPT saves
_FORWARD = 1 / 3  # of a step's compute per token
_DISK = 0.5e9  # bytes per second of nanoGPT's torch.save, while training waits
_TO_HOST = 10e9  # bytes per second at which ours copies before training continues
_NICE = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 2500, 5000, 10000, 20000, 50000)


@dataclass(frozen=True, slots=True)
class Choice:
    """One knob: its value and the reason."""

    knob: str
    value: Value
    reason: str
    numbers: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Frame:
    """What is decided before the knobs."""

    card: Card
    model: Model
    micro: MicroBatch
    accumulation: int
    budget: Budget
    dataset: Dataset
    epochs: float | None
    step_s: float | None
    fast_s: float | None  # to the same loss with recipe=fast


def choices(frame: Frame) -> tuple[tuple[Choice, ...], tuple[float, float]]:
    """All knobs in nanoGPT's order, and the share of time for evaluations and checkpoints, ours and nanoGPT's."""
    model, micro, max_iters = frame.model, frame.micro, frame.budget.max_iters
    interval, batches = _evaluations(frame)
    rate = learning_rate(model.parameters)
    warmup = max(1, min(round(_WARMUP_TOKENS / frame.budget.per_step), max_iters // 25)) if max_iters > 1 else 0
    knobs = [
        Choice("out_dir", f"out-{model.name}", "out_dir"),
        *_of_evaluations(frame, interval, batches),
        *([Choice("always_save_checkpoint", False, "always_save_checkpoint")] if model.dropout else []),
        Choice("log_interval", 10 if interval % 10 == 0 else 1, "log_interval"),
        Choice("dataset", frame.dataset.name, "dataset", {"command": frame.dataset.command}),
        Choice(
            "gradient_accumulation_steps",
            frame.accumulation,
            "accumulation",
            {"tokens_per_step": frame.budget.per_step},
        ),
        _batch_size(micro),
        Choice("block_size", model.block_size, "block_size"),
        Choice("n_layer", model.n_layer, "shape", {"weights": model.parameters}),
        Choice("n_head", model.n_head, "heads", {"width": model.n_embd // model.n_head}),
        Choice("n_embd", model.n_embd, "shape", {"weights": model.parameters}),
        *_vocabulary(frame),
        _dropout(frame),
        Choice("bias", False, "bias"),
        Choice("learning_rate", rate, _rate_reason(model.parameters), {"weights": model.parameters}),
        Choice("min_lr", _rounded(rate / 10), "min_lr"),
        _budget(frame),
        Choice("lr_decay_iters", max_iters, "lr_decay_iters"),
        Choice("warmup_iters", warmup, "warmup_iters", {"warmup_tokens": warmup * frame.budget.per_step}),
        Choice("weight_decay", 0.1, "weight_decay"),
        _beta2(frame.budget.per_step),
        Choice("grad_clip", 1.0, "grad_clip"),
        *_device(frame.card),
        *_own(frame),
    ]
    return tuple(knobs), _shares(frame, interval, batches)


def learning_rate(parameters: float) -> float:
    """From GPT-3's table, interpolated between sizes by their logarithms."""
    sizes, rates = zip(*_RATES, strict=True)
    if parameters <= sizes[0] or parameters >= sizes[-1]:
        return float(rates[0] if parameters <= sizes[0] else rates[-1])
    above = next(index for index, size in enumerate(sizes) if size > parameters)
    share = math.log(parameters / sizes[above - 1]) / math.log(sizes[above] / sizes[above - 1])
    return _rounded(rates[above - 1] * (rates[above] / rates[above - 1]) ** share)


def _rounded(rate: float) -> float:
    return float(f"{rate:.1e}")


def _batch_size(micro: MicroBatch) -> Choice:
    if not keeps_gradients(micro.steps):
        return Choice("batch_size", micro.sequences, "batch_size_released")
    if on_host(micro.steps):
        return Choice("batch_size", micro.sequences, "batch_size_host")
    if not micro.timed:
        return Choice("batch_size", micro.sequences, "batch_size_tight" if micro.tight else "batch_size_untimed", {})
    if micro.faster is None:
        return Choice("batch_size", micro.sequences, "batch_size")
    larger, gain = micro.faster
    return Choice("batch_size", micro.sequences, "batch_size_shared", {"larger": str(larger), "gain_share": gain})


def _rate_reason(parameters: float) -> str:
    return "learning_rate" if parameters >= 0.9 * _SMALLEST_GPT3 else "learning_rate_small"


def _dropout(frame: Frame) -> Choice:
    """Only against overfitting: our kernels do not support it, and repeating text alone is not a reason to give them
    up."""
    if frame.model.dropout:
        return Choice("dropout", frame.model.dropout, "dropout_overfitting", {"dataset": frame.dataset.name})
    if frame.epochs is None:
        return Choice("dropout", 0.0, "dropout_unknown")
    if frame.epochs <= 1:
        return Choice("dropout", 0.0, "dropout")
    reason = "dropout_few" if frame.epochs <= ALMOST_FRESH else "dropout_repeated"
    return Choice("dropout", 0.0, reason, {"epochs": round(frame.epochs, 1)})


def _vocabulary(frame: Frame) -> list[Choice]:
    """Only if requested: the dataset's own is read from its files."""
    size = frame.model.vocab_size
    return [] if size in (GPT2_VOCABULARY, frame.dataset.vocab_size) else [Choice("vocab_size", size, "vocab_size")]


def _budget(frame: Frame) -> Choice:
    numbers = {"tokens": frame.budget.tokens, "dataset": frame.dataset.name}
    return Choice("max_iters", frame.budget.max_iters, frame.budget.reason, numbers)


def _beta2(tokens_per_step: int) -> Choice:
    if tokens_per_step < _FEW_TOKENS:
        return Choice("beta2", 0.99, "beta2_few_tokens", {"tokens_per_step": tokens_per_step})
    return Choice("beta2", 0.95, "beta2")


def _device(card: Card) -> list[Choice]:
    if card.arch == "Apple":
        return [
            Choice("device", "mps", "device_apple"),
            Choice("dtype", "float32", "dtype_apple"),
            Choice("compile", False, "compile_apple"),
        ]
    if own_kernels(card) or card.bf16_tflops is not None:
        return [Choice("dtype", "bfloat16", "dtype")]
    if card.fp16_tflops is not None:
        return [Choice("dtype", "float16", "dtype_half")]
    uncompiled = [Choice("compile", False, "compile_old")] if card.without_compiling else []
    return [Choice("dtype", "float32", "dtype_single"), *uncompiled]


def _own(frame: Frame) -> list[Choice]:
    """Knobs that nanoGPT does not have."""
    saves = _saves(frame)
    lost = None if frame.step_s is None else frame.step_s * saves
    knobs = [Choice("save_interval", saves, "save_interval", {"lost_s": lost})]
    if frame.micro.steps:
        knobs.append(Choice("memory", "auto", "memory", {"steps": ", ".join(frame.micro.steps)}))
    if own_kernels(frame.card):
        knobs.append(Choice("recipe", "gpt2", "recipe", {"fast_about_s": frame.fast_s}))
    return knobs


def _saves(frame: Frame) -> int:
    """The steps in half an hour, or more if copying the weights would take more than its share; 0 if unknown."""
    if frame.step_s is None:
        return 0
    most = max(_HALF_AN_HOUR, 2 * _copied_s(frame) / _MOST_SHARE) / frame.step_s
    return min(frame.budget.max_iters, max(each for each in _NICE if each <= max(1.0, most)))


def _copied_s(frame: Frame) -> float:
    return 12 * frame.model.parameters / _TO_HOST


# --- evaluations -----------------------------------------------------------------------------------------------------


def _of_evaluations(frame: Frame, interval: int, batches: int) -> list[Choice]:
    """The two knobs. A run may be so short that its only evaluation takes more than its share."""
    ours, theirs = _shares(frame, interval, batches)
    evaluations = frame.budget.max_iters // interval
    numbers: dict[str, object] = {"evaluations": evaluations, "own_share": ours, "nanogpt_share": theirs}
    if theirs > _MOST_SHARE and evaluations == 1:
        reason = "eval_interval_short"
    else:
        reason = "eval_interval_overfitting" if frame.model.dropout else "eval_interval"
    looked_at = batches * frame.micro.sequences * frame.model.block_size
    return [
        Choice("eval_interval", interval, reason, numbers),
        Choice(
            "eval_iters",
            batches,
            "eval_iters" if looked_at >= _EVALUATION_TOKENS / 2 else "eval_iters_short",
            {"eval_tokens": looked_at},
        ),
    ]


def _evaluations(frame: Frame) -> tuple[int, int]:
    """Twenty or more evaluations, as precise as useful, as long as nanoGPT's (both splits, with a save) cost little.

    In a short run, the evaluation gets smaller, and if that is still too expensive, the interval grows.
    """
    per_batch = frame.micro.sequences * frame.model.block_size
    batches = max(1, round(_EVALUATION_TOKENS / per_batch))
    most = frame.budget.max_iters / _EVALUATIONS
    if frame.step_s is not None:
        most = min(most, _HOUR / frame.step_s)
    interval = max((each for each in _NICE if each <= most), default=1)
    most_share = _MOST_SHARE_OVERFITTING if frame.model.dropout else _MOST_SHARE
    while batches > 1 and 2 * _steps_worth(frame, batches) / interval > most_share / 2:
        batches //= 2
    while _shares(frame, interval, batches)[1] > most_share and interval < frame.budget.max_iters:
        interval = _next(interval)
    return min(interval, frame.budget.max_iters), batches


def _steps_worth(frame: Frame, batches: int) -> float:
    """An evaluation of one split, in units of steps."""
    return batches * frame.micro.sequences * frame.model.block_size * _FORWARD / frame.budget.per_step


def _next(interval: int) -> int:
    return next((each for each in _NICE if each > interval), 2 * interval)


def _shares(frame: Frame, interval: int, batches: int) -> tuple[float, float]:
    """The share of time for evaluations and checkpoints, ours and nanoGPT's. Checkpoints are left out if the speed is
    unknown."""
    looked_at = _steps_worth(frame, batches)
    if frame.step_s is None:
        return looked_at / interval, 2 * looked_at / interval
    ours = _copied_s(frame) / frame.step_s / _saves(frame)
    theirs = 12 * frame.model.parameters / _DISK / frame.step_s
    return looked_at / interval + ours, (2 * looked_at + theirs) / interval
