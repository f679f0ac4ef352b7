"""What the Trainer's entries have in common, in files and on a console."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.sources.build import RunBuilder
from nanopace.sources.scalars import to_number

MOST_S = 1e9  # that something may have taken


class ValidationSet:
    """Evaluations are of one set. With several, each has entries of its own, and the first of them is the one."""

    def __init__(self) -> None:
        self._name = ""

    def read(self, entry: Mapping[str, object]) -> tuple[float | None, float | None] | None:
        """The loss and the milliseconds of an evaluation; the loss of another set is None. None: it is none."""
        name = "eval_loss" if "eval_loss" in entry else next(filter(_is_loss, entry), "")
        if not name or entry[name] is None:
            return None
        self._name = self._name or name
        seconds = to_number(entry.get(f"{name.removesuffix('loss')}runtime"))
        ms = 1000 * seconds if seconds is not None and 0 <= seconds < MOST_S else None
        return to_number(entry[name]) if name == self._name else None, ms


def _is_loss(key: str) -> bool:
    return key.startswith("eval_") and key.endswith("_loss")


def tell_rate(builder: RunBuilder, end: Mapping[str, object], evaluation_ms: float) -> None:
    """What the Trainer's rate at the end does not mean: it is of all its time, with evaluations."""
    runtime_s, rate = to_number(end.get("train_runtime")), to_number(end.get("train_steps_per_second"))
    if runtime_s and rate and 0 < runtime_s < MOST_S and 10 * runtime_s <= evaluation_ms <= 1000 * runtime_s:
        builder.caveat("rate_with_evaluations", printed=rate, evaluation_s=evaluation_ms / 1000, runtime_s=runtime_s)
