"""Which settings differ between two runs, and which of them may have made the difference.

Two runs show the effect of a single difference, not of several at once. But a learning rate cannot change the speed,
and halving the micro-batch while doubling accumulation is one change, not two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nanopace.config import KNOBS
from nanopace.diagnosis.compare.comparable import settings_help
from nanopace.diagnosis.comparison import Change, Settling
from nanopace.diagnosis.result import Diagnosis, Finding
from nanopace.knob import Effect
from nanopace.run import Fact, FactValue
from nanopace.sources.formats.registry import find_format

STEP_KNOBS = ("batch_size", "gradient_accumulation_steps", "block_size", "n_layer", "n_head", "n_embd")
_CARDS = ("gpu", "gpu_count")  # facts, not knobs
_COUPLED = ("batch_size", "gradient_accumulation_steps")
_SHAPE = frozenset(("n_layer", "n_embd", "vocab_size", "block_size", "bias"))  # what the parameters follow from
_SAME_SIZE = 0.002  # logs round
_SAME_SPEED = 0.1  # another day, or another card of the same kind
_NEAR = 0.05  # a vocabulary inferred from a loss is only about this accurate


@dataclass(frozen=True, slots=True)
class Attribution:
    unattributable: tuple[str, ...]
    settling: tuple[Settling, ...]
    findings: tuple[Finding, ...]


def effect_of(setting: str) -> Effect:
    """What a knob or a different card can change."""
    return "speed" if setting in _CARDS else KNOBS[setting].effect


def changes(a: Diagnosis, b: Diagnosis) -> tuple[Change, ...]:
    """The settings that are known in both runs and differ."""
    found = []
    for name in (*KNOBS, *_CARDS):
        of_a, of_b = _setting(a, name), _setting(b, name)
        if of_a is not None and of_b is not None and not _same(of_a, of_b):
            found.append(Change(name, of_a.value, of_b.value, of_a.origin, of_b.origin))
    return tuple(found)


def known_in_one(a: Diagnosis, b: Diagnosis) -> tuple[str, ...]:
    """The settings that only one run knows."""
    names = (*KNOBS, "gpu")
    return tuple(name for name in names if (_setting(a, name) is None) != (_setting(b, name) is None))


def attribute(a: Diagnosis, b: Diagnosis, changed: Sequence[Change]) -> Attribution:
    """What the changes may have done to the speed, as far as two runs can show."""
    relevant = [change for change in changed if effect_of(change.knob) != "bookkeeping"]
    groups = _groups([change for change in relevant if effect_of(change.knob) == "speed"])
    alone = groups[0] if len(groups) == 1 else relevant if not groups and len(relevant) == 1 else []
    together = tuple(change.knob for group in groups for change in group) if len(groups) > 1 else ()
    findings = []
    if together:
        findings.append(Finding("compare_several_knobs", {"count": len(together), "knobs": ", ".join(together)}))
    elif alone:
        only = len(alone) == len(relevant)
        if _all_known(a, b) and not _something_else(a, b, alone):
            findings.append(Finding("compare_one_knob" if only else "compare_speed_knob", {"knob": _knob(alone)}))
        elif only:
            findings.append(Finding("compare_known_differ", {"knob": _knob(alone)}))
    missing = [name for name in STEP_KNOBS if name not in a.facts or name not in b.facts]
    if missing:
        named = ", ".join(missing) if settings_help(a, b) else None
        findings.append(Finding("compare_settings_unknown", {"missing": named}))
    elif not relevant:
        findings.append(Finding("compare_same_settings"))
    return Attribution(together, tuple(_settling(group) for group in groups) if together else (), tuple(findings))


def _all_known(a: Diagnosis, b: Diagnosis) -> bool:
    """Whether one difference can be the cause: same trainer, and both runs name everything that affects speed."""
    trainers = {find_format(run.source.format).trainer for run in (a, b)}
    main = all(name in run.facts for name in STEP_KNOBS for run in (a, b))
    return (
        len(trainers) == 1
        and "" not in trainers
        and main
        and not any(effect_of(name) == "speed" for name in known_in_one(a, b))
    )


def _something_else(a: Diagnosis, b: Diagnosis, changed: Sequence[Change]) -> bool:
    """Whether the runs differ in more than these settings can change: in the number of parameters, or in speed."""
    effects = {effect_of(change.knob) for change in changed}
    sizes_may_differ = not _SHAPE.isdisjoint(change.knob for change in changed)
    if not sizes_may_differ and _apart(a.model.parameters, b.model.parameters, _SAME_SIZE):
        return True
    return "speed" not in effects and _apart(a.throughput.tokens_per_s, b.throughput.tokens_per_s, _SAME_SPEED)


def _apart(a: float | None, b: float | None, allowed: float) -> bool:
    return a is not None and b is not None and not math.isclose(a, b, rel_tol=allowed)


def _setting(diagnosis: Diagnosis, name: str) -> Fact | None:
    """A setting as a fact. The card gets its name from the table, so that two spellings of one card are equal."""
    fact = diagnosis.facts.get(name)
    if name == "gpu" and fact is not None and diagnosis.mfu.card_name is not None:
        return Fact(diagnosis.mfu.card_name, fact.origin, fact.because)
    return fact


def _same(a: Fact, b: Fact) -> bool:
    if "first_loss" not in (a.because, b.because) or isinstance(a.value, str) or isinstance(b.value, str):
        return a.value == b.value
    return abs(a.value - b.value) <= _NEAR * max(abs(a.value), abs(b.value))


def _groups(changed: Sequence[Change]) -> list[list[Change]]:
    """The changes, with those that belong together in one group."""
    pair = [change for change in changed if change.knob in _COUPLED]
    if len(pair) < 2 or _product([change.a for change in pair]) != _product([change.b for change in pair]):
        return [[change] for change in changed]
    rest = [[change] for change in changed if change.knob not in _COUPLED]
    return [sorted(pair, key=lambda change: _COUPLED.index(change.knob)), *rest]


def _product(values: Sequence[FactValue | None]) -> float | None:
    product = 1.0
    for value in values:
        if not isinstance(value, (int, float)):
            return None
        product *= value
    return product


def _knob(group: Sequence[Change]) -> str:
    return " × ".join(change.knob for change in group)


def _settling(group: Sequence[Change]) -> Settling:
    """Repeat run b with this set to its value in run a."""
    if len(group) == 1:
        return Settling(group[0].knob, group[0].a)
    return Settling(_knob(group), " × ".join(str(change.a) for change in group))
