"""What the Trainer's entries have in common, in files and on a console."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.errors import NotALog
from nanopace.sources.build import RunBuilder
from nanopace.sources.scalars import to_count, to_number

MOST_S = 1e9  # longer than anything takes
_COUNTS = ("num_input_tokens_seen", "num_tokens", "total_tokens")


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


class CountedTokens:
    """The tokens of a step, from a count of all so far: the Trainer's, TRL's or LLaMA-Factory's. TRL's leaves out
    padding. A resumed training may count from 0."""

    def __init__(self, builder: RunBuilder) -> None:
        self._builder = builder
        self._before: tuple[int, int] | None = None  # step and count
        self._steps = self._tokens = 0
        self._each: set[int] = set()  # what steps may have, if all have the same number; 0 or several: they do not

    def read(self, entry: Mapping[str, object]) -> int | None:
        """The count in an entry, if there is one."""
        return next((count for name in _COUNTS if (count := to_count(entry.get(name)))), None)

    def add(self, step: int, count: int | None) -> None:
        """Add a row. If it has no count, those before it say nothing about it."""
        if count is None or not step:
            self._before, self._steps, self._tokens, self._each = None, 0, 0, {0}
            return
        before, self._before = self._before, (step, count)
        if len(self._each) < 2:
            self._each.add(0 if count % step else count // step)
        if before is not None and step > before[0] and count > before[1]:
            self._steps, self._tokens = self._steps + step - before[0], self._tokens + count - before[1]

    def tell(self) -> None:
        """Add the fact, or remove the one that was added before: the number of every step, or else their mean."""
        if len(self._each) == 1 and (each := next(iter(self._each))):
            self._builder.fact("tokens_per_iteration", each)
        elif self._steps:
            mean = round(self._tokens / self._steps)
            self._builder.fact("tokens_per_iteration", mean, "inferred", "counted_tokens")
        else:
            self._builder.drop_fact("tokens_per_iteration")


def tell_rate(builder: RunBuilder, end: Mapping[str, object], evaluation_ms: float) -> None:
    """Warn about the Trainer's final rate: its time includes evaluations."""
    runtime_s, rate = to_number(end.get("train_runtime")), to_number(end.get("train_steps_per_second"))
    if runtime_s and rate and 0 < runtime_s < MOST_S and 10 * runtime_s <= evaluation_ms <= 1000 * runtime_s:
        builder.caveat("rate_with_evaluations", printed=rate, evaluation_s=evaluation_ms / 1000, runtime_s=runtime_s)


def without_steps(name: str, rows: int) -> NotALog:
    """No step of any row is known."""
    return NotALog(
        "{path}: rows of Hugging Face's Trainer ({count}), but the progress bars with their steps and times are "
        "missing or incomplete; try the same run's trainer_state.json (with LLaMA-Factory, trainer_log.jsonl)",
        path=name,
        count=rows,
    )
