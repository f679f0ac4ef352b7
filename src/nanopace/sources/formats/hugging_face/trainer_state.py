"""Reads trainer_state.json, which Hugging Face's Trainer writes to every checkpoint: its log, without times.

`log_history` has an entry for each log, with its step. An entry with a `loss` is a row: the mean of the steps since the
previous one. It has no time, unless the Trainer counts tokens: `train_runtime` is then the time so far. Otherwise, that
occurs once, at the end. Durations of evaluations are always known. People also save `log_history` alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from math import inf

from nanopace.errors import InputError, Message, NotALog
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.hugging_face.entries import MOST_S, CountedTokens, ValidationSet, tell_rate
from nanopace.sources.running_clock import RunningClock
from nanopace.sources.scalars import to_count, to_number

MOST_BYTES = 256 << 20
_OF_ALL_STEPS = 0.98  # of the losses of all rows: a mean below that leaves some of them out


class TrainerStateReader:
    """Reads the document entry by entry. Each is passed to the builder as soon as it is parsed, then dropped."""

    def __init__(self, builder: RunBuilder) -> None:
        self._builder = builder
        self._validation = ValidationSet()
        self._clock = RunningClock(builder)
        self._tokens = CountedTokens(builder)
        self._knows_tokens = False  # of each step
        self._runtime = 0.0
        self._rows = 0
        self._evaluation_ms = 0.0
        self._ends: list[dict[str, object]] = []  # the last entries of each process
        self._last = 0  # step of the last row
        self._losses: float | None = 0.0  # the sum of the losses of all steps; None if they cannot be added

    def read(self, chunks: Iterable[bytes]) -> None:
        data = bytearray()
        for chunk in chunks:
            data += chunk
            if len(data) > MOST_BYTES:
                raise InputError(
                    "{path}: too large; a trainer_state.json is read up to {megabytes} MB",
                    path=self._builder.name,
                    megabytes=MOST_BYTES >> 20,
                )
        try:
            json.loads(data.decode("utf-8-sig", "replace"), object_hook=self._object)
        except (ValueError, RecursionError) as error:
            raise InputError(
                "{path}: is not complete JSON: {reason}", path=self._builder.name, reason=_reason(error)
            ) from None
        if not self._rows:
            raise NotALog("{path}: its log_history has no loss; there is nothing to explain", path=self._builder.name)
        self._clock.flush()
        if not self._knows_tokens:
            self._tokens.tell()
        if self._ends:
            self._builder.ending("finished", to_count(self._ends[-1].get("step")))
        # The duration of a run with several processes is unknown: a resumed run only has the time of its last process.
        alone = len(self._ends) == 1 and not self._is_resumed(self._ends[0])
        runtime = to_number(self._ends[0]["train_runtime"]) if alone else None
        if runtime is not None and self._evaluation_ms <= 1000 * runtime < 1000 * MOST_S:
            self._builder.wall_ms(1000 * runtime)
            tell_rate(self._builder, self._ends[0], self._evaluation_ms)

    def _object(self, found: dict[str, object]) -> object:
        """Takes each object of the document, the innermost first."""
        if "log_history" in found:
            steps = to_count(found.get("max_steps"))
            if steps:
                self._builder.fact("max_iters", steps)
            self._exactly(to_count(found.get("num_input_tokens_seen")), to_count(found.get("global_step")))
        elif (step := to_count(found.get("step"))) is not None:
            self._entry(step, found)
        return None

    def _entry(self, step: int, entry: dict[str, object]) -> None:
        loss, runtime = to_number(entry.get("loss")), to_number(entry.get("train_runtime"))
        if loss is not None:
            self._row(step, loss, runtime)
            self._tokens.add(step, self._tokens.read(entry))
            self._builder.rate(step, to_number(entry.get("learning_rate")))
        if (evaluated := self._validation.read(entry)) is not None:
            val, ms = evaluated
            self._evaluation_ms += ms or 0.0
            self._clock.evaluation(step, val, ms=ms)
        if loss is None and runtime:
            self._ends.append(entry)

    def _row(self, step: int, loss: float, runtime: float | None) -> None:
        self._rows += 1
        if self._losses is not None:
            adds_up = 0 < loss < inf and step >= self._last
            self._losses = self._losses + loss * (step - self._last) if adds_up else None
        self._last = step
        if runtime is None:
            self._builder.untimed_row(step, loss)
            return
        if runtime < self._runtime:
            self._clock.restart()
        self._runtime = runtime
        self._clock.row(step, runtime, loss)

    def _is_resumed(self, end: Mapping[str, object]) -> bool:
        """Whether an earlier process did a part of the steps. The mean loss that is printed at the end divides the
        losses of the last process by the steps of all."""
        mean, steps = to_number(end.get("train_loss")), to_count(end.get("step"))
        if not mean or not steps or not self._losses:
            return False
        return mean * steps < _OF_ALL_STEPS * self._losses

    def _exactly(self, tokens: int | None, steps: int | None) -> None:
        """Tokens per step, if all steps can have had the same number."""
        if tokens and steps and tokens % steps == 0:
            self._builder.fact("tokens_per_iteration", tokens // steps)
            self._knows_tokens = True


def _reason(error: Exception) -> str:
    return Message("it is nested too deeply") if isinstance(error, RecursionError) else str(error)
