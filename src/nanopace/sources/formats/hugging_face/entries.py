"""What the Trainer's entries have in common, in files and on a console."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.sources.build import RunBuilder
from nanopace.sources.scalars import to_number

MOST_S = 1e9  # longer than anything takes


class ValidationSet:
    """Evaluations of one data set. If there are several, each has separate entries, and the first one counts."""

    def __init__(self) -> None:
        self._name = ""

    def read(self, entry: Mapping[str, object]) -> tuple[float | None, float | None] | None:
        """The loss and milliseconds of an evaluation; None if it is none. The loss of another data set is None."""
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
    """Warn about the Trainer's final rate: its time includes evaluations."""
    runtime_s, rate = to_number(end.get("train_runtime")), to_number(end.get("train_steps_per_second"))
    if runtime_s and rate and 0 < runtime_s < MOST_S and 10 * runtime_s <= evaluation_ms <= 1000 * runtime_s:
        builder.caveat("rate_with_evaluations", printed=rate, evaluation_s=evaluation_ms / 1000, runtime_s=runtime_s)
