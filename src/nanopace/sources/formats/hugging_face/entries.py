"""What the Trainer's entries have in common, in files and on a console."""

from __future__ import annotations

from collections.abc import Mapping

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
