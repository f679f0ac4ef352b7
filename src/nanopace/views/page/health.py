"""The state of a run in a word or two (healthy, or what is wrong with it), and the most useful change as a line to
paste.

The word only sums up the findings. If they say too little, so does the word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from nanopace.diagnosis.result import Diagnosis, Finding
from nanopace.sources.formats.registry import find_format
from nanopace.views.summary import WATCH, best_advice, gravest_alarm, to_watch
from nanopace.wording.catalog import Words
from nanopace.wording.template import label

Tone = Literal["bad", "warn", "good", "quiet"]  # a colour and an icon of the page
Picture = Literal["times", "wall", "loss"]

_STATES: Mapping[str, tuple[Tone, str]] = {
    "diverged": ("bad", label("Diverged")),
    "out_of_memory": ("bad", label("Out of memory")),
    "error": ("bad", label("Ended with an error")),
    "attention": ("warn", label("Needs attention")),
    "savings": ("warn", label("Time can be saved")),
    "half_idle": ("warn", label("The GPU is more than half idle")),
    "mostly_idle": ("warn", label("The GPU is mostly idle")),
    "change": ("warn", label("One change to try")),
    "interrupted": ("quiet", label("Interrupted")),
    "healthy": ("good", label("Healthy")),
    "clear": ("good", label("No problem found")),
    "unknown": ("quiet", label("Not enough is known")),
}
_ENDED: Mapping[str, str] = {
    "loss_diverged": "diverged",
    "ended_diverged": "diverged",
    "ended_corrupted": "error",
    "ended_out_of_memory": "out_of_memory",
    "ended_error": "error",
}
_OF_THE_LOSS = frozenset({"rollbacks", "skipped_steps", *WATCH})  # the loss chart shows these
_WELL_USED = ("near_limit", "good", "power_limited")
_FEW_ROWS = 15  # normal ones: with fewer, a log shows too little to be called free of problems
# The knobs that a piece of advice sets, and the number that each takes.
_KNOBS: Mapping[str, Mapping[str, str]] = {
    "raise_eval_interval": {"eval_interval": "to_interval"},
    "lower_eval_iters": {"eval_iters": "to_iters"},
    "larger_micro_batch": {"batch_size": "to_batch", "gradient_accumulation_steps": "to_accumulation"},
    "smaller_micro_batch": {"batch_size": "to_batch", "gradient_accumulation_steps": "to_accumulation"},
}
_SETTINGS = {"use_float16": "--dtype=float16", "turn_on_compile": "--compile=True"}


@dataclass(frozen=True, slots=True)
class Health:
    """A run's state, the picture that shows it best, and the flags that would change it."""

    state: str
    word: str
    tone: Tone
    picture: Picture
    flags: str | None  # as nanoGPT takes them; None if the change is not a knob


def health(diagnosis: Diagnosis, words: Words) -> Health:
    state, because = _state(diagnosis)
    advice = best_advice(diagnosis)
    flags = flags_of(advice, diagnosis) if advice is not None else None
    tone, word = _STATES[state]
    return Health(state, words.text(word), tone, _picture(state, because, diagnosis), flags)


def flags_of(advice: Finding, diagnosis: Diagnosis) -> str | None:
    """The change as typed on the command line; only for trainers with nanoGPT's knobs, and only if the value is
    known."""
    if not find_format(diagnosis.source.format).nanogpt_knobs or "elsewhere" in advice.numbers:
        return None
    if advice.code in _SETTINGS:
        return _SETTINGS[advice.code]
    values = {knob: advice.numbers.get(name) for knob, name in _KNOBS.get(advice.code, {}).items()}
    if not values or None in values.values():
        return None
    return " ".join(f"--{knob}={value}" for knob, value in values.items())


def _state(diagnosis: Diagnosis) -> tuple[str, Finding | None]:
    """The state, most serious first, with the finding it is based on, if any."""
    alarm, advice = gravest_alarm(diagnosis), best_advice(diagnosis)
    if alarm is not None:
        return _ENDED.get(alarm.code, "attention"), alarm
    if (watched := to_watch(diagnosis)) is not None:
        return "attention", watched
    nothing_to_gain = advice is not None and advice.code == "nothing_to_change"
    if advice is not None and advice.saves_s:
        return "savings", advice
    if diagnosis.mfu.verdict in ("half_idle", "mostly_idle"):
        return diagnosis.mfu.verdict, None
    if advice is not None and not nothing_to_gain:
        return "change", advice
    if diagnosis.source.ending == "interrupted":
        return "interrupted", None
    if nothing_to_gain and diagnosis.mfu.verdict in _WELL_USED:
        return "healthy", advice
    return ("clear" if diagnosis.timed and diagnosis.step.normal_rows >= _FEW_ROWS else "unknown"), None


def _picture(state: str, because: Finding | None, diagnosis: Diagnosis) -> Picture:
    """The loss if the state is about the loss, the wall clock if no row contains the lost time, else the rows."""
    if not diagnosis.timed or state == "diverged" or (because is not None and because.code in _OF_THE_LOSS):
        return "loss"
    return "wall" if state == "savings" and not diagnosis.slow_rows else "times"
