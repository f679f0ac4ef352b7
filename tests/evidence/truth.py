"""Simulates a training run, second by second, and the log that nanoGPT would have written.

The log is text, as a user would pass it. With it comes everything that is true about the run: what each row's time
consists of, what an evaluation and a checkpoint took, where the speed changed and why, and the losses without noise.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median

from .plan import Plan
from .writing import evaluation_text, header, row_text

PEAK = 312e12  # nanoGPT divides by this, whatever the card
START_S = 1.77e9  # a day in 2026


@dataclass(frozen=True)
class Evaluated:
    """One evaluation, and the checkpoint after it."""

    iteration: int
    process: int
    ms: float
    save_ms: float | None  # None: nothing was saved
    train: float
    val: float
    at_s: float

    @property
    def all_ms(self) -> float:
        return self.ms + (self.save_ms or 0.0)


@dataclass(frozen=True)
class Told:
    """One row: what is printed, and what its time consists of."""

    iteration: int
    process: int
    ms: float  # as printed
    level_ms: float  # a step here, without noise
    step_ms: float  # this step
    compile_ms: float
    stall_ms: float
    evaluated: Evaluated | None
    first: bool  # of its process
    between_ms: float  # steps since the row before that have no row
    loss: float
    mfu: float | None  # as printed, in per cent
    at_s: float

    @property
    def plain(self) -> bool:
        return not self.first and self.evaluated is None


@dataclass(frozen=True)
class Line:
    text: str
    row: Told | None = None
    evaluated: Evaluated | None = None


@dataclass(frozen=True)
class Truth:
    """What is true about the part of the run that the log shows."""

    plan: Plan
    lines: tuple[Line, ...]

    @property
    def text(self) -> str:
        return "".join(line.text + "\n" for line in self.lines)

    @cached_property
    def told(self) -> list[Told]:
        return [line.row for line in self.lines if line.row]

    @cached_property
    def resumed(self) -> dict[int, int]:
        """Where each later process resumed, if its rows are in the log."""
        firsts = (row for before, row in pairwise(self.told) if row.process > before.process)
        return {row.process: row.iteration for row in firsts}

    def lost(self, item: Told | Evaluated) -> bool:
        """Whether a later process did this again."""
        return any(process > item.process and item.iteration >= at for process, at in self.resumed.items())

    @cached_property
    def rows(self) -> list[Told]:
        return [row for row in self.told if not self.lost(row)]

    @cached_property
    def plain(self) -> list[Told]:
        return [row for row in self.rows if row.plain]

    @cached_property
    def evaluations(self) -> list[Evaluated]:
        """All evaluations in the log."""
        return [line.evaluated for line in self.lines if line.evaluated]

    def of_start(self, evaluated: Evaluated) -> bool:
        """Whether it belongs to the start of a process."""
        return any(row.first and row.evaluated is evaluated for row in self.told) or evaluated.iteration == 0

    @cached_property
    def counted(self) -> list[Evaluated]:
        """The run's own evaluations: not part of a start-up, not repeated later, not before the first row."""
        since = self.rows[0].iteration
        own = [each for each in self.evaluations if not self.of_start(each) and not self.lost(each)]
        return [each for each in own if each.iteration >= since]

    @cached_property
    def visible(self) -> list[Told]:
        """The rows of these evaluations."""
        return [row for row in self.rows if row.evaluated is not None and not row.first]

    @property
    def hidden(self) -> list[Evaluated]:
        shown = {id(row.evaluated) for row in self.told}
        return [each for each in self.counted if id(each) not in shown]

    @cached_property
    def seconds(self) -> dict[str, float]:
        """Where the time went, from the start of the first row."""
        spent = dict.fromkeys(("training", "evaluation", "checkpoint", "startup", "stall", "restart"), 0.0)
        for index, row in enumerate(self.told):
            before = self.told[index - 1] if index else None
            if before is not None:  # steps without a row are lost if the row before them is
                spent["restart" if self.lost(before) and self.lost(row) else "training"] += row.between_ms
            if self.lost(row):
                spent["restart"] += row.step_ms + row.stall_ms + row.compile_ms
            else:
                spent["training"] += row.step_ms
                spent["stall"] += row.stall_ms
                spent["restart" if row.process else "startup"] += row.compile_ms
        for each in self.evaluations:
            if each.iteration < self.told[0].iteration:
                continue  # before the first row
            if self.lost(each) or (self.of_start(each) and each.process):
                spent["restart"] += each.all_ms
            elif self.of_start(each):
                spent["startup"] += each.all_ms
            else:
                spent["evaluation"] += each.ms
                spent["checkpoint"] += each.save_ms or 0.0
        last = self.told[-1]
        reached = max((each.iteration for each in self.evaluations), default=0)
        spent["training"] += (
            max(0, reached - last.iteration - 1) * last.level_ms
        )  # before an evaluation after the last row
        return {phase: ms / 1000 for phase, ms in spent.items()}

    @property
    def total_s(self) -> float:
        return sum(self.seconds.values())

    @property
    def begins(self) -> bool:
        """Whether the log has the run's first row."""
        return bool(self.told) and self.told[0].iteration == 0

    # --- speed -------------------------------------------------------------------------------------------------------

    @cached_property
    def levels(self) -> list[float]:
        """What a step takes without noise, at each plain row (at each row if none is plain)."""
        return [row.level_ms for row in self.plain or self.rows]

    @property
    def step_ms(self) -> float:
        return median(self.levels)

    @property
    def slowing(self) -> float:
        """The last fifth relative to the first, without noise."""
        fifth = max(1, len(self.levels) // 5)
        return median(self.levels[-fifth:]) / median(self.levels[:fifth]) - 1

    @property
    def unsteady(self) -> float:
        """The slowest fifth relative to the fastest, wherever they are."""
        ordered, fifth = sorted(self.levels), max(1, len(self.levels) // 5)
        return median(ordered[-fifth:]) / median(ordered[:fifth]) - 1

    @cached_property
    def jumps(self) -> list[tuple[int, float]]:
        """Iterations at which the speed jumps, and by what factor."""
        found = []
        for before, after in pairwise(self.rows):
            if abs(after.level_ms / before.level_ms - 1) > 0.02:
                found.append((after.iteration, after.level_ms / before.level_ms))
        return found

    def mfu_at(self, ms: float) -> float:
        """What nanoGPT would print for such a step, without smoothing, as a fraction."""
        return self.plan.shape.flops / (ms / 1000) / PEAK

    @property
    def nan_from(self) -> int | None:
        """The first line with a loss that is nan."""
        bad = [row.iteration for row in self.rows if row.loss != row.loss]
        bad += [each.iteration for each in self.evaluations if each.val != each.val]
        return min(bad, default=None)

    # --- loss --------------------------------------------------------------------------------------------------------

    @cached_property
    def curve(self) -> list[tuple[int, float]]:
        """Validation losses as printed; if an iteration was evaluated twice, the later one."""
        found = {each.iteration: each.val for each in self.evaluations if each.val == each.val}
        return sorted(found.items())

    @cached_property
    def moments(self) -> list[tuple[int, float, float]]:
        """(iteration, seconds since the start, validation loss) during training, without repeated work."""
        kept = [each for each in self.evaluations if not self.lost(each) and each.val == each.val]
        return [(each.iteration, each.at_s - START_S, each.val) for each in kept]

    @property
    def turned_up(self) -> float:
        """How far above its lowest value the validation loss ended, without noise."""
        true = [val_of(self.plan, iteration) for iteration, _ in self.curve]
        return true[-1] - min(true) if true else 0.0


def train_of(plan: Plan, iteration: int) -> float:
    """The training loss; an untrained model knows nothing about its vocabulary."""
    loss = plan.losses
    if iteration == 0:
        return math.log(plan.shape.vocab_size)
    return loss.floor + loss.scale * (iteration + 20) ** -loss.power


def val_of(plan: Plan, iteration: int) -> float:
    loss = plan.losses
    late = max(0.0, iteration / plan.max_iters - loss.turns_at) / (1 - loss.turns_at)
    return train_of(plan, iteration) + 0.01 + loss.turns_up * late


def trained(plan: Plan) -> Truth:
    """Train, and write the log."""
    lines = _Trainer(plan).run()
    cut = Truth(plan, tuple(_cut(plan, lines)))
    ends = [row.iteration for row in (*cut.rows[:12], *cut.rows[-12:])]
    return Truth(plan, tuple(lines)) if any(at in ends for at, _ in cut.jumps) else cut  # fewer rows are not a level


class _Trainer:
    """nanoGPT's loop with a simulated clock."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rng = random.Random(f"{plan.seed} train")
        self.lines: list[Line] = []
        self.clock_ms = 1000 * START_S
        self.best = float("inf")
        self.saved = 0  # the iteration of the last checkpoint
        interval = plan.log_interval
        self.stalls = {round(share * plan.max_iters / interval) * interval: steps for share, steps in plan.stalls}

    def run(self) -> list[Line]:
        plan, start, factor = self.plan, 0, 1.0
        deaths = [round(share * plan.max_iters / plan.log_interval) * plan.log_interval for share, _ in plan.restarts]
        for process, end in enumerate([*deaths, plan.max_iters]):
            if process and (not self.saved or end <= start):
                continue
            factor *= plan.restarts[process - 1][1] if process else 1.0
            self._process(process, start, end, factor)
            start = self.saved
        if plan.ending == "interrupt":
            self._print("Traceback (most recent call last):")
            self._print("KeyboardInterrupt")
        elif plan.ending == "memory":
            self._print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
        return self.lines

    def _process(self, process: int, start: int, end: int, factor: float) -> None:
        plan = self.plan
        if plan.header:
            for text in header(plan, resumed=process > 0):
                self._print(text)
        mfu = -1.0
        between, covered, previous = 0.0, 0.0, start
        held: Evaluated | None = None  # since the last row: a row that covers its iterations holds it
        marks = {*range(start, end + 1, plan.log_interval)}
        marks |= {each for each in range(start, end + 1) if each % plan.eval_interval == 0}
        for iteration in sorted(marks):
            level = self._level(iteration, factor)
            skipped = max(0, iteration - previous - 1) * level
            between, covered = between + skipped, covered + skipped
            self.clock_ms += skipped
            previous = iteration
            evaluated = self._evaluate(iteration, process, level) if iteration % plan.eval_interval == 0 else None
            step = level * self._noise()
            if iteration % plan.log_interval:
                between, covered = between + step, covered + step + (evaluated.all_ms if evaluated else 0.0)
                held = evaluated if plan.fork == "covers" else None
                self.clock_ms += step
                continue
            first = iteration == start
            compiling, stall = plan.compile_ms if first else 0.0, self._stall(iteration, level)
            ms = step + compiling + stall + (evaluated.all_ms if evaluated else 0.0)
            self.clock_ms += step + compiling + stall
            printed = ms + covered if plan.fork == "covers" else ms
            if iteration - start >= 5:
                own = plan.shape.flops / (printed / 1000) / PEAK
                mfu = own if mfu == -1.0 else 0.9 * mfu + 0.1 * own
            loss = self._row_loss(iteration)
            row = Told(
                iteration, process, round(printed, 2), level, step, compiling, stall, evaluated or held, first, between,
                loss, round(100 * mfu, 2), self.clock_ms / 1000,
            )  # fmt: skip
            held = None
            self._print(row_text(plan, iteration, loss, row.ms, 100 * mfu), row=row)
            between = covered = 0.0

    def _level(self, iteration: int, factor: float) -> float:
        plan, share = self.plan, iteration / self.plan.max_iters
        level = plan.step_ms * factor * (1 + plan.drift * share)
        for place, change in plan.shifts:
            level *= change if share >= place else 1.0
        return level * (plan.nan_factor if self._is_nan(iteration) else 1.0)

    def _noise(self) -> float:
        return self.rng.lognormvariate(0.0, self.plan.noise)

    def _is_nan(self, iteration: int) -> bool:
        place = self.plan.losses.nan_at
        return place is not None and iteration > place * self.plan.max_iters

    def _stall(self, iteration: int, level: float) -> float:
        plan = self.plan
        steps = self.stalls.get(iteration, 0.0)
        if plan.period and iteration:
            every, length, shift = plan.period
            steps += length if iteration % (every * plan.log_interval) == shift * plan.log_interval else 0.0
        if plan.tails and self.rng.random() < plan.tails:
            steps += self.rng.expovariate(5)
        return steps * level

    def _evaluate(self, iteration: int, process: int, level: float) -> Evaluated:
        plan, nan = self.plan, self._is_nan(iteration)
        ms = plan.evaluation_steps * level * max(0.5, self.rng.gauss(1, plan.evaluation_noise))
        train, val = (
            float("nan") if nan else round(value + self.rng.gauss(0, plan.losses.noise), 4)
            for value in (train_of(plan, iteration), val_of(plan, iteration))
        )
        save_ms = None
        if val < self.best or plan.always_save:
            self.best = val
            save_ms = plan.checkpoint_steps * plan.step_ms * self.rng.gauss(1, 0.02) if iteration else None
        self.clock_ms += ms
        evaluated = Evaluated(iteration, process, ms, save_ms, train, val, self.clock_ms / 1000)
        self._print(evaluation_text(plan, iteration, train, val), evaluated=evaluated)
        if save_ms is not None:
            self._print("saving checkpoint to out")
            self.saved = iteration
            self.clock_ms += save_ms
        return evaluated

    def _row_loss(self, iteration: int) -> float:
        plan = self.plan
        if self._is_nan(iteration):
            return float("nan")
        loss = train_of(plan, iteration) + self.rng.gauss(0, plan.losses.row_noise)
        at = plan.losses.spike_at
        if at is not None and iteration == round(at * plan.max_iters / plan.log_interval) * plan.log_interval:
            loss += 20 * plan.losses.row_noise
        return round(max(loss, 0.01), 4)

    def _print(self, text: str, row: Told | None = None, evaluated: Evaluated | None = None) -> None:
        if self.plan.stamped:
            second = int(self.clock_ms / 1000) % 86400
            day = int(self.clock_ms / 1000) // 86400 % 27 + 1
            text = f"2026-03-{day:02} {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02} {text}"
        self.lines.append(Line(text, row, evaluated))


def _cut(plan: Plan, lines: list[Line]) -> list[Line]:
    """Part of the log, as people paste it. A restarted run is kept complete."""
    rng = random.Random(f"{plan.seed} cut")
    rows = [index for index, line in enumerate(lines) if line.row]
    if plan.cut == "none" or plan.restarts or len(rows) < 12:
        return lines
    if plan.cut == "head":
        return lines[rows[rng.randrange(1, len(rows) // 2)] + 1 :]
    if plan.cut == "tail":
        return lines[: rows[rng.randrange(len(rows) // 2, len(rows))] + 1]
    ends = [index for index in rows if lines[index].row.evaluated and index > rows[0]]  # type: ignore[union-attr]
    return lines[: ends[-1]] if ends else lines
