"""Derives facts that a log does not state but that follow from what it states.

Facts have a precedence: a flag overrides the log, the log overrides the config file, and all of them override an
inference. An inference gives its reason, and is not made if two answers would fit.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Literal

from nanopace.errors import CardError
from nanopace.hardware.cards import find_card, split_count
from nanopace.hardware.flops import flops_per_token, parameters
from nanopace.record import replace
from nanopace.run import Because, Evaluation, Fact, FactValue, Rows, Run
from nanopace.sources.formats.registry import find_format
from nanopace.sources.infer.cover import per_iteration
from nanopace.sources.infer.mfu_smoothing import seconds_of_work
from nanopace.sources.infer.parameter_groups import (
    GROUP_FACTS,
    common_tables,
    shape_of_groups,
    vocabulary_of_groups,
)
from nanopace.sources.infer.spacing import longest_spacing, usual_spacing
from nanopace.sources.infer.unit_of_time import with_times_in_ms
from nanopace.sources.infer.vocabulary_of_loss import vocabulary_of_loss

_ROUNDED = 5001  # nanoGPT prints parameters to 0.01M
_GPT2_VOCABULARIES = (50257, 50304)  # as it is, and padded
_OTHER_PEAK = 0.02  # a difference from the trainer's usual peak that rounding cannot explain
# Uncertainty of a printed mfu beyond which a peak would be a guess, and several numbers of GPUs or tokens would fit.
_EXACT_FOR_PEAK, _EXACT_FOR_TOKENS = 0.01, 0.03
_SMALLEST, _LARGEST = 1e-18, 1e18  # limits for numbers of a run: FLOPs per token are the largest

# Knobs whose default depends on the machine or the data.
_DEPENDENT = ("dtype", "device", "init_from")
# Printed even without an echoed config, so these do not show that all other knobs have their defaults.
_ALWAYS_PRINTED = frozenset(("vocab_size", "compile", "init_from", "n_layer", "n_head", "n_embd", "bias"))

# What a reader saw in the rows and the head. It is used for inference, and is not a fact of the run.
_HINTS = ("row_tokens", "other_columns", "fork_settings", "loss_unit")

Conflict = tuple[str, FactValue, FactValue]


class Known:
    """The facts so far. What is already known is never inferred."""

    def __init__(self, facts: Mapping[str, Fact]) -> None:
        self.facts = {name: fact for name, fact in facts.items() if _is_known(fact.value)}
        self.conflicts: list[Conflict] = []

    def number(self, name: str) -> int | None:
        fact = self.facts.get(name)
        known = fact is not None and isinstance(fact.value, (int, float)) and not isinstance(fact.value, bool)
        return int(fact.value) if fact is not None and known else None

    def add(self, name: str, value: FactValue | None, because: Because) -> None:
        if value is not None and name not in self.facts and _is_known(value):
            self.facts[name] = Fact(value, "inferred", because)

    def check(self, name: str, value: FactValue) -> None:
        """If the log contradicts a config file, the file's value stays in use, and the conflict is reported."""
        fact = self.facts.get(name)
        if fact is not None and fact.origin == "config file" and fact.value != value:
            self.conflicts.append((name, fact.value, value))


def _is_known(value: FactValue) -> bool:
    """False for a number that no real run can have: nothing should follow from it."""
    return not isinstance(value, (int, float)) or value == 0 or _SMALLEST < value < _LARGEST


def complete(
    run: Run,
    config: Mapping[str, FactValue] | None = None,
    overrides: Mapping[str, FactValue] | None = None,
    gpu: str | None = None,
) -> Run:
    """The run with every fact that can be known about it."""
    known = Known(run.facts)
    _add_config(known, config or {}, overrides or {})
    if gpu is not None:
        count, name = split_count(gpu)
        known.facts["gpu"] = Fact(name, "flag")
        if count > 1:
            known.facts["gpu_count"] = Fact(count, "flag")
    groups = {name: int(known.facts.pop(name).value) for name in GROUP_FACTS if name in known.facts}
    hints = {name: known.facts.pop(name).value for name in _HINTS if name in known.facts}
    format = find_format(run.format)
    _infer_intervals(known, run, running_clock=format.row_time == "clock")
    run = with_times_in_ms(run, known.number("tokens_per_iteration"), hints.get("row_tokens"))
    run = per_iteration(
        run, format.row_time, known.number, row_tokens=hints.get("row_tokens"), a_fork="other_columns" in hints
    )
    if format.printed_peak is not None and not len(run.untimed_rows):
        known.add("printed_peak_tflops", _printed_peak(known, format.printed_peak), "trainer")
    _correct_peak(known, run)
    if format.nanogpt_defaults:
        _infer_model(known, run, groups, had_config=config is not None, hints=frozenset(hints))
    elif format.gpt2_shape:
        _infer_shape(known, groups)
    if format.gpt2_shape:
        _infer_flops(known)
        _infer_tokens(known, run)
    return replace(
        run,
        rows=_without_zeros(run.rows) if format.zero_mfu_is_unknown else run.rows,
        facts=MappingProxyType(known.facts),
        conflicts=(*run.conflicts, *known.conflicts),
        ending=run.ending or ("finished" if format.ends_at_max_iters and _reached_max_iters(known, run) else None),
    )


def _without_zeros(rows: Rows) -> Rows:
    """An mfu that is always 0.00, because the trainer does not know the card's peak, is not a figure."""
    if any(mfu > 0 for mfu in rows.mfu):
        return rows
    unknown = rows[:]
    unknown.mfu = array("d", [math.nan]) * len(rows)
    return unknown


def _add_config(known: Known, config: Mapping[str, FactValue], overrides: Mapping[str, FactValue]) -> None:
    for knob, value in config.items():
        if not _is_knob(knob) or knob in overrides:
            continue
        before = known.facts.get(knob)
        if before is None or before.origin == "inferred":
            known.facts[knob] = Fact(value, "config file")
        elif before.value != value:
            known.conflicts.append((knob, before.value, value))
    for knob, value in overrides.items():
        known.facts[knob] = Fact(value, "flag")


def _reached_max_iters(known: Known, run: Run) -> bool:
    max_iters = known.number("max_iters")
    last = max(run.logged.last_iteration[-1], *(e.iteration for e in run.evaluations[-1:]), 0)
    return max_iters is not None and last >= max_iters


# --- intervals -------------------------------------------------------------------------------------------------------


def _infer_intervals(known: Known, run: Run, *, running_clock: bool) -> None:
    rows = run.logged
    groups = list(zip(rows.iteration, rows.last_iteration, rows.count, strict=True))
    interval = usual_spacing(groups)
    if running_clock and interval != longest_spacing(groups):  # most iterations are between other rows
        interval = longest_spacing(groups, least=2)
    if len(run.rows) or not all(map(math.isnan, rows.loss)):  # else its rows are its evaluations
        known.add("log_interval", interval, "row_spacing")
    evaluations = {each.iteration: each for each in run.evaluations if each.metric != "core"}
    if not _is_final(evaluations.values(), run):
        spacing = usual_spacing((each.first_iteration, each.iteration, each.count) for each in evaluations.values())
        known.add("eval_interval", spacing, "row_spacing")


def _is_final(evaluations: Collection[Evaluation], run: Run) -> bool:
    """Whether the only distance is the one to an evaluation that may be due to the end of training: other trainers than
    nanoGPT evaluate there whatever the interval."""
    last = max((each.iteration for each in evaluations), default=0)
    return len(evaluations) == 2 and not run.nanogpt_knobs and last >= run.logged.last_iteration[-1]


# --- the model -------------------------------------------------------------------------------------------------------


def _infer_shape(known: Known, groups: Mapping[str, int]) -> None:
    """If no settings are printed. Vocabulary and context follow only if exactly one common pair fits."""
    shape = shape_of_groups(groups)
    for name, value in shape.items():
        known.add(name, value, "parameter_groups")
    tables = common_tables(groups) if shape else None
    for name, rows in zip(("vocab_size", "block_size"), tables or (), strict=False):
        known.add(name, rows, "parameter_groups")
    if shape or "parameters" not in known.facts:
        _infer_parameters(known)


def _infer_model(known: Known, run: Run, groups: Mapping[str, int], *, had_config: bool, hints: frozenset[str]) -> None:
    shape = shape_of_groups(groups)
    for name, value in shape.items():
        known.check(name, value)
        known.add(name, value, "parameter_groups")
    if "fork_settings" not in hints and _defaults_hold(known, run, had_config):
        from nanopace.config import KNOBS

        for knob in KNOBS.values():
            if knob.nanogpt and knob.name not in _DEPENDENT:
                known.add(knob.name, knob.default, "nanogpt_default")
        _forget_contradicted_bias(known)
    if shape:
        vocabulary, block = vocabulary_of_groups(
            groups, known.number("parameters"), known.number("vocab_size"), known.number("block_size")
        )
        known.add("vocab_size", vocabulary, "parameter_groups")
        known.add("block_size", block, "parameter_groups")
    init_from = known.facts.get("init_from")
    if (init_from is None or init_from.value == "scratch") and "loss_unit" not in hints:  # ln(V) is in nats
        known.add("vocab_size", vocabulary_of_loss(run, known.number("n_embd")), "first_loss")
    _infer_parameters(known)


def _forget_contradicted_bias(known: Known) -> None:
    """A resumed model has the biases of its checkpoint, whatever the default is: a run that began from OpenAI's GPT-2
    has them. The number of parameters shows it."""
    bias, printed = known.facts.get("bias"), known.facts.get("parameters")
    layers, width = known.number("n_layer"), known.number("n_embd")
    if bias is None or bias.because != "nanogpt_default" or printed is None or layers is None or width is None:
        return
    vocabularies = (known.number("vocab_size"),) if "vocab_size" in known.facts else _GPT2_VOCABULARIES
    off = {
        biased: min(
            abs(parameters(layers, width, size or 0, bias=biased) - float(printed.value)) for size in vocabularies
        )
        for biased in (False, True)
    }
    if off[not bias.value] <= _ROUNDED < off[bool(bias.value)]:
        del known.facts["bias"]


def _defaults_hold(known: Known, run: Run, had_config: bool) -> bool:
    """Whether knobs that are not named have today's defaults: there was a config, and it is today's nanoGPT.

    The defaults changed until spring 2023, when nanoGPT began to print its tokens per iteration.
    """
    today = "tokens_per_iteration" in known.facts
    if not today and not had_config:
        return False
    printed = (name for name, fact in known.facts.items() if fact.origin == "log" and name not in _ALWAYS_PRINTED)
    if any(map(_is_knob, printed)):
        return today
    return had_config and not all(map(math.isnan, run.rows.mfu))


def _is_knob(name: str) -> bool:
    from nanopace.config import KNOBS  # a log without a config does not need this import

    return name in KNOBS


def _infer_parameters(known: Known) -> None:
    """Exact if derived from the shape. The log's number is rounded, and in nanoGPT's first weeks included the
    positions.

    Biases are a thousandth of the parameters: if the log does not mention them, they are left out.
    """
    layers, width, vocabulary = (known.number(name) for name in ("n_layer", "n_embd", "vocab_size"))
    if layers is None or width is None or vocabulary is None:
        return
    bias = known.facts.get("bias")
    exact = parameters(layers, width, vocabulary, bias=bias is not None and bias.value is True)
    printed = known.facts.get("parameters")
    if printed is None:
        known.add("parameters", exact, "model_shape")
    elif abs(exact - float(printed.value)) <= _ROUNDED:
        known.facts["parameters"] = Fact(exact, printed.origin, printed.because)
    elif abs(exact + (known.number("block_size") or 0) * width - float(printed.value)) <= _ROUNDED:
        known.facts["parameters"] = Fact(exact, "inferred", "model_shape")


def _printed_peak(known: Known, peak: float | Literal["card"]) -> float | None:
    """The peak that the printed mfu is relative to: always the same, or that of the card that ran, in its precision."""
    if peak != "card":
        return peak
    gpu, dtype = known.facts.get("gpu"), known.facts.get("dtype")
    if gpu is not None and dtype is not None and dtype.value == "bfloat16":
        with suppress(CardError):
            return find_card(str(gpu.value)).bf16_tflops
    return None


def _correct_peak(known: Known, run: Run) -> None:
    """A fork may divide by another peak than its trainer always does. The log shows it if it prints all the rest."""
    peak = known.facts.get("printed_peak_tflops")
    printed = [known.facts.get(name) for name in ("flops_per_token", "tokens_per_iteration", "gpu_count")]
    if peak is None or peak.because != "trainer" or any(fact is None or fact.origin == "inferred" for fact in printed):
        return
    flops, tokens, gpus = (float(fact.value) for fact in printed if fact is not None)
    work_s = seconds_of_work(run, _EXACT_FOR_PEAK) if gpus else None
    if work_s is None:
        return
    shown = float(f"{flops * tokens / gpus / work_s / 1e12:.4g}")
    if abs(shown / float(peak.value) - 1) > _OTHER_PEAK:
        known.facts["printed_peak_tflops"] = Fact(shown, "inferred", "printed_mfu")


def _infer_flops(known: Known) -> None:
    count, layers, width, block = (known.number(name) for name in ("parameters", "n_layer", "n_embd", "block_size"))
    if count is None or layers is None or width is None or block is None:
        return
    known.add("flops_per_token", flops_per_token(count, layers, width, block), "model_shape")
    whole = known.number("flops_per_token")  # as the trainer counts: not every weight is multiplied
    if whole is not None:
        skipped = flops_per_token(0, layers, width, block, causal=True)
        known.add("flops_per_token_causal", max(0.0, whole - skipped), "model_shape")


# --- tokens per iteration --------------------------------------------------------------------------------------------


def _infer_tokens(known: Known, run: Run) -> None:
    batch, steps, block = (known.number(name) for name in ("batch_size", "gradient_accumulation_steps", "block_size"))
    if batch is not None and steps is not None and block is not None:
        tokens = batch * steps * block  # nanoGPT divides its steps among the GPUs
        printed = known.facts.get("tokens_per_iteration")
        if printed is not None and printed.value != tokens and _is_known(tokens):
            known.conflicts.append(("tokens_per_iteration", printed.value, tokens))
        known.add("tokens_per_iteration", tokens, "batch_shape")
    flops, peak = known.facts.get("flops_per_token"), known.facts.get("printed_peak_tflops")
    if flops is None or peak is None:
        return
    work_s = seconds_of_work(run, _EXACT_FOR_TOKENS)
    if work_s is None:
        return
    per_gpu = work_s * (float(peak.value) * 1e12 / float(flops.value))
    total = known.number("tokens_per_iteration")
    if total is not None:
        gpus = round(total / per_gpu)
        if gpus >= 1 and abs(total / per_gpu / gpus - 1) < 0.03:
            known.add("gpu_count", gpus, "mfu_time_parameters")
        return
    estimate = per_gpu * (known.number("gpu_count") or 1)
    unit = (block or 1) * (batch or 1)
    whole = round(estimate / unit) * unit
    if abs(whole / estimate - 1) > 0.01:
        whole = round(estimate)
    known.add("tokens_per_iteration", whole, "mfu_time_parameters")
