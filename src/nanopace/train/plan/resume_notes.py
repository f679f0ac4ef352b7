"""Notes for the user when a run resumes, especially a nanoGPT run: what is kept, and what is not."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from nanopace.config import KNOBS, Asked, knobs_of
from nanopace.errors import Message
from nanopace.knob_values import ingredients
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import Saved
from nanopace.train.plan.device import Machine
from nanopace.train.plan.origin import other_shape
from nanopace.version import __version__


def notes_on(saved: Saved, asked: Asked) -> list[str]:
    """The notes; our own trainer's checkpoints need few."""
    notes: list[str] = []
    if other := other_shape(saved, asked):
        said = ", ".join(f"{name}={has}, not {wanted}" for name, (has, wanted) in other.items())
        notes.append(
            Message("{path}: keeps its shape, whatever the config file says: {shape}", path=saved.path, shape=said)
        )
    notes += _note_on_rates(saved, asked.given)
    if "random" in saved.state:
        return notes
    if not saved.ours:
        notes += _notes_on_nanogpt(saved, asked.given)
    anew = Message(
        "{path}: does not say which windows were read; the data continues in nanopace's order with window {window:,}, "
        "and dropout draws new random numbers",
        path=saved.path,
        window=saved.state.get("windows", 0),
    )
    return [*notes, anew]


def notes_on_bits(saved: Saved, settings: Mapping[str, Value], machine: Machine) -> list[str]:
    """With deterministic=True: what is not as it was, so that the bits will not be, either."""
    if not settings.get("deterministic", KNOBS["deterministic"].default):
        return []
    versions = saved.state.get("versions", {})
    before = {"nanopace": versions.get("nanopace"), "torch": versions.get("torch")}
    now = {"nanopace": __version__, "torch": torch.__version__}
    if "card" in saved.state:  # older checkpoints do not say
        before["device"], now["device"] = saved.state["card"] or "cpu", machine.name or machine.device.type
    other = {name: was for name, was in before.items() if was not in (None, now[name])}
    if not other:
        return []
    return [
        Message(
            "{path}: from here on, the bits differ from those of a run that was never stopped: {changes}",
            path=saved.path,
            changes=", ".join(f"{name} {was} -> {now[name]}" for name, was in other.items()),
        )
    ]


def _note_on_rates(saved: Saved, given: Mapping[str, Value]) -> list[str]:
    """A longer run may raise rates again that have begun to fall, if they follow the trapezoid."""
    now = {**saved.config, **given}
    steps, before = now.get("max_iters"), saved.config.get("max_iters")
    has_trapezoid = "trapezoid" in ingredients(saved.shape.recipe, saved.shape.without)
    if not has_trapezoid or not isinstance(steps, int) or not isinstance(before, int) or steps <= before:
        return []
    falling = int(steps * (1 - float(now.get("cooldown", KNOBS["cooldown"].default))))
    if falling <= saved.step:
        return []
    return [
        Message(
            "{path}: max_iters is now {steps:,} instead of {before:,}; the learning rate is at its maximum until step "
            "{falling:,}, then it falls",
            path=saved.path,
            steps=steps,
            before=before,
            falling=falling,
        )
    ]


def _notes_on_nanogpt(saved: Saved, given: Mapping[str, Value]) -> list[str]:
    begun = {"path": saved.path, "step": saved.step}
    if saved.best is None:
        note = Message(
            "{path}: resuming nanoGPT's run at iteration {step:,}, with its weights and AdamW's averages; it has no "
            "best_val_loss yet",
            **begun,
        )
    else:
        note = Message(
            "{path}: resuming nanoGPT's run at iteration {step:,}, with its weights, AdamW's averages and "
            "best_val_loss {loss:.4f}",
            loss=saved.best[1],
            **begun,
        )
    notes: list[str] = [note]
    aside = {*knobs_of("shape", "recipe", "machine", "call", "site"), *given}
    kept = {name: value for name, value in saved.config.items() if name not in aside and value != KNOBS[name].default}
    if kept:
        said = ", ".join(f"{name}={value}" for name, value in kept.items())
        notes.append(
            Message(
                "{path}: keeps its settings where nanoGPT would now use its defaults: {settings}",
                path=saved.path,
                settings=said,
            )
        )
    return notes
