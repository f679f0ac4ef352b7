"""Notes for the user when a run resumes, above all one of nanoGPT's: what is taken over, and what is not."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.config import KNOBS, Asked, knobs_of
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import Saved
from nanopace.train.plan.origin import other_shape


def notes_on(saved: Saved, asked: Asked) -> list[str]:
    """A checkpoint that our own training wrote needs few."""
    notes = []
    if other := other_shape(saved, asked):
        said = ", ".join(f"{name}={has} and not {wanted}" for name, (has, wanted) in other.items())
        notes.append(f"{saved.path}: keeps its shape, whatever the config file says: {said}")
    if "random" in saved.state:
        return notes
    if not saved.ours:
        notes += _notes_on_nanogpt(saved, asked.given)
    anew = (
        f"{saved.path}: does not say which windows came before; the data goes on in nanopace's order with window "
        f"{saved.state.get('windows', 0):,}, and dropout draws anew"
    )
    return [*notes, anew]


def _notes_on_nanogpt(saved: Saved, given: Mapping[str, Value]) -> list[str]:
    best = "no best_val_loss yet" if saved.best is None else f"best_val_loss {saved.best[1]:.4f}"
    has = f"its weights, AdamW's averages and {best}"
    notes = [f"{saved.path}: nanoGPT's run goes on at iteration {saved.step:,}, with {has}"]
    aside = {*knobs_of("shape", "recipe", "machine", "call", "site"), *given}
    kept = {name: value for name, value in saved.config.items() if name not in aside and value != KNOBS[name].default}
    if kept:
        said = ", ".join(f"{name}={value}" for name, value in kept.items())
        notes.append(f"{saved.path}: its settings are kept where nanoGPT would take its defaults now: {said}")
    return notes
