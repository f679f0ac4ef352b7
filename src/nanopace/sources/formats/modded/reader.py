"""Reads the logs of modded-nanogpt (all eras and tracks since October 2024) and parameter-golf.

What the log does not say about its figures:

- `step:250/1770` is printed after 250 steps. Rows have that number here, too, and so has the evaluation after them.
- `train_time` is cumulative. It stops for evaluations, and only there does it wait for the GPU
  (unsynchronized_clock.py).
- Until January 2025, it was reset to 0 after step 10: the final time includes neither the first steps nor compilation.
- `train_loss` is that of the last micro-batch on the first GPU; in parameter-golf, of all its micro-batches.
- Before its rows, a modded-nanogpt log has the complete program, then the output of nvidia-smi (source_code.py).
"""

from __future__ import annotations

import re

from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.modded.cooldown import CooldownCode
from nanopace.sources.formats.modded.lines import LAYERS_REPEATED, STOPPED, STOPPED_AT, Printed, is_complete, read_row
from nanopace.sources.formats.modded.source_code import SourceCode
from nanopace.sources.formats.modded.unsynchronized_clock import UnsynchronizedClock
from nanopace.sources.head.card_lines import card_of
from nanopace.sources.processes.died import ending_of

_RUNNING = re.compile(
    r"^Running (?:Python|[Pp]y[Tt]orch) \d\S{0,60}(?:.{0,60}? on (\S.{0,60}?)\s{1,40}with world_size (\d{1,5})$)?"
)
_TABLE_ROW = re.compile(r"^\|\s{1,6}\d{1,3}\s{1,4}\S")
_RULE = "=" * 40
_LIST_ITEM = r"(?:^|(?<=\s))"
_GOLF = tuple(
    (re.compile(_LIST_ITEM + pattern), name)
    for pattern, name in (
        (r"train_batch_tokens: ?(\d{1,12})(?!\S)", "tokens_per_iteration"),
        (r"world_size: ?(\d{1,5})(?!\S)", "gpu_count"),
        (r"model_params: ?(\d{1,15})(?!\S)", "parameters"),
    )
)
_MATERIAL_WAIT = 0.1  # of a step, for each evaluation
_FIRST_STEPS = 10  # that the clock leaves out if it was reset to 0
_OTHER_SPEED = 0.2  # of the previous run's: a clock that started at the first step shows at least this share per step
_MOST_REMEMBERED = 10_000  # evaluations


class ModdedReader:
    """Passes the lines of such a log to a builder."""

    def __init__(self, builder: RunBuilder, _width: int = 0) -> None:
        self._builder = builder
        self._clock = UnsynchronizedClock(builder.row)
        self._code = SourceCode()
        self._cooldown = CooldownCode()
        self._in_code = False
        self._cards: list[str] = []  # from nvidia-smi, one per GPU
        self._head: dict[str, int | str] = {}  # facts from the lines before the rows
        self._stepped = False  # a row has been read since the head began
        self._last_row: Printed | None = None  # that is no evaluation
        self._layers_repeated = False
        self._evaluated: dict[int, float | None] = {}  # by step: the clock at each evaluation of this process

    def feed(self, line: str) -> bool:
        if not line or line.isspace():
            return False
        row = read_row(line, int(self._head.get("tokens_per_iteration", 0)))
        if row is not None:
            self._row(row)
            return True
        return self._event(line) or self._read_head(line)

    def feed_cut(self, line: str) -> bool:
        """A row is complete if its time has a unit: `train_time:24` may be the start of `train_time:24037ms`."""
        return is_complete(line) and self.feed(line)

    def finish(self) -> None:
        self._end_process()

    # --- rows --------------------------------------------------------------------------------------------------------

    def _row(self, row: Printed) -> None:
        clock = self._clock
        if self._is_repeated(row):
            return
        if not self._stepped or row.step < clock.step or self._is_of_another(row):
            self._begin_process(row)
        if not row.is_evaluation:
            self._last_row = row
        if row.at_ms is None:
            if not row.is_evaluation:
                self._builder.untimed_row(row.step, row.loss)
        elif row.step > clock.step:
            clock.row(row.step, row.at_ms, None if row.is_evaluation else row.loss)
            if row.is_evaluation:
                clock.wait(row.at_ms)
        elif row.is_evaluation and row.step > 0:
            clock.wait(row.at_ms)
        if row.is_evaluation:
            clock.finish()
            self._builder.evaluation(row.step, None, row.loss, bits_per_byte=row.bits_per_byte)
            if len(self._evaluated) < _MOST_REMEMBERED:
                self._evaluated[row.step] = row.at_ms

    def _is_repeated(self, row: Printed) -> bool:
        """Whether it repeats an earlier evaluation: scripts print the last ones again."""
        known = row.is_evaluation and self._stepped and row.step in self._evaluated
        return known and row.step <= self._clock.step and self._evaluated[row.step] == row.at_ms

    def _is_of_another(self, row: Printed) -> bool:
        """Whether it is another first step: a trial of one step came before it."""
        last = self._last_row
        begins = row.step == self._clock.step <= 1 and not row.is_evaluation
        return begins and last is not None and (row.of, row.at_ms) != (last.of, last.at_ms)

    def _begin_process(self, row: Printed) -> None:
        again = self._stepped
        fresh = row.step <= 1 or (again and self._is_from_start(row))
        self._end_process()
        if again or fresh:
            self._builder.begin_process(fresh=fresh or None)
        self._clock.begin(max(0, row.step - 1) if again and not fresh else 0)
        self._stepped, self._in_code, self._layers_repeated = True, False, False
        self._evaluated.clear()
        self._tell_facts(row.of)

    def _is_from_start(self, row: Printed) -> bool:
        """Whether the clock includes all steps so far, not just those since a checkpoint."""
        usual_ms = self._clock.at_ms / max(1, self._clock.step)
        return row.at_ms is not None and row.at_ms > _OTHER_SPEED * usual_ms * row.step

    def _end_process(self) -> None:
        """Add the facts that only all rows together reveal."""
        clock = self._clock
        clock.finish()
        if clock.set_back_at:
            left_out_s = clock.left_out_ms / 1000
            self._builder.caveat("clock_set_to_zero", iteration=clock.set_back_at, left_out_s=left_out_s)
        if clock.set_back_at == _FIRST_STEPS:
            self._builder.training_time(clock.at_ms / 1000)
        step_ms = clock.at_ms / max(1, clock.step - clock.set_back_at)
        if clock.waits and clock.waited_ms / clock.waits > _MATERIAL_WAIT * step_ms:
            self._builder.caveat("rows_ahead_of_gpu", wait_ms=clock.waited_ms / clock.waits)
        clock.begin(0)

    def _event(self, line: str) -> bool:
        """Events between the rows: parameter-golf changes its model or reaches its time limit, or the process dies."""
        if not self._stepped:
            return False
        if (found := STOPPED.match(line)) is not None:
            at = STOPPED_AT.search(line, found.end())
            if at is not None and int(at[1]) > self._clock.step:
                self._clock.row(int(at[1]), float(found[1]), None)
            self._clock.finish()
            self._builder.ending("finished")
            return True
        if (repeated := LAYERS_REPEATED.match(line)) is not None:
            if not self._layers_repeated:  # it may happen in several phases
                self._layers_repeated = True
                self._builder.caveat("layers_repeated", iteration=int(repeated[1]))
            return True
        if (ending := ending_of(line)) is not None:
            self._clock.finish()
            self._builder.ending(ending)
        return ending is not None

    # --- the lines before them ---------------------------------------------------------------------------------------

    def _tell_facts(self, steps: int) -> None:
        facts: dict[str, float | str] = {"max_iters": steps}
        if len(set(self._cards)) == 1:
            facts["gpu"] = self._cards[0]
        if len(self._cards) == 1:
            facts["gpu_count"] = 1
        if self._code.gpus is not None:
            facts["gpu_count"] = self._code.gpus
        facts |= self._head
        gpus = facts.get("gpu_count")
        tokens = self._code.tokens(gpus if isinstance(gpus, int) else None)
        if tokens is not None:
            facts.setdefault("tokens_per_iteration", tokens)
        if (share := self._cooldown.share(steps)) is not None:
            facts["cooldown"] = share
        if (warmup := self._cooldown.warmup) is not None:
            facts["warmup_iters"] = warmup
        for name, value in facts.items():
            self._builder.fact(name, value)
        if (schedule := self._code.schedule) is not None:
            self._builder.caveat("batch_scheduled", smallest=schedule[0], largest=schedule[1])
        if self._code.schedules_attention:
            self._builder.caveat("attention_scheduled")

    def _read_head(self, line: str) -> bool:
        """Read any line that is not a row. Source code counts as understood: it is not prose around a log."""
        if line.startswith(_RULE):
            self._in_code = False
            return True
        if line.startswith(("import ", "from ")) and not self._in_code:
            self._new_head()
            self._in_code = True
        if self._in_code:
            self._code.read(line)
            self._cooldown.read(line)
            return True
        if (found := _RUNNING.match(line)) is not None:
            self._new_head()
            if found[1]:
                self._head |= {"gpu": card_of(found[1]) or found[1], "gpu_count": int(found[2])}
            return True
        if _TABLE_ROW.match(line):
            card = card_of(line)
            if card is not None and len(self._cards) < 1024:
                self._cards.append(card)
            return card is not None
        return self._read_golf(line[:400])

    def _read_golf(self, line: str) -> bool:
        understood = False
        for pattern, name in _GOLF:
            if (found := pattern.search(line)) is not None and int(found[1]):
                self._head[name] = int(found[1])
                understood = True
        return understood

    def _new_head(self) -> None:
        """Start the head of another process, if rows were read since the last head."""
        if self._stepped:
            self._end_process()
            self._builder.begin_process()
            self._code, self._cooldown, self._cards, self._head = SourceCode(), CooldownCode(), [], {}
            self._stepped = False
