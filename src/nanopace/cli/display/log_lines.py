"""The lines that `nanopace train` prints. They start like nanoGPT's, so that existing scripts keep working.

What nanoGPT prints comes first in a line, in its format; additions follow. Anything that differs has a different name:
a training loss of past steps never appears where a script would take it for nanoGPT's separate measurement. Evaluations
and checkpoints have their own lines with their own times.

Whatever sources/formats/nanopace_log.py reads is the same in every language: the first line, the name and value of each
choice, rows, evaluations, checkpoints and the ending. Reasons, notes and next steps are in the user's language.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from nanopace.ledger import CheckpointEvent, EvalEvent, Event, NoteEvent, StepEvent
from nanopace.train.listener import Introduction, Outcome
from nanopace.version import __version__
from nanopace.views.terminal.writer import columns, wrap
from nanopace.wording.printable import one_line

if TYPE_CHECKING:
    from nanopace.wording.catalog import Words

_OF_NANOGPT = 3  # loss, time and mfu
_COMMAND = ": nanopace "  # precedes a command to copy
_TOO_NARROW = 20  # columns: words would have to be broken
_WORTH_SAYING = 0.01  # of logging time relative to the steps


def introduction(intro: Introduction, words: Words) -> Iterator[str]:
    yield (
        f"nanopace {__version__} train: {one_line(intro.out_dir)}, {intro.tokens_per_step:,} tokens a step, "
        f"steps {intro.first_step} to {intro.last_step}"
    )
    for name, choice in intro.choices.items():
        yield f"  {one_line(name)}: {words.message(choice)}"


def of_event(event: Event, words: Words) -> str | None:
    """The line for an event other than a step; None if it has none."""
    match event:
        case EvalEvent():
            return evaluation(event)
        case CheckpointEvent():
            return saved(event)
        case NoteEvent():
            return words.message(event.text)
    return None


def step(event: StepEvent, mfu: float | None) -> str:
    parts = [
        f"iter {event.iteration}: loss {event.loss:.4f}",
        f"time {event.ms:.2f}ms",
        "mfu n/a" if mfu is None else f"mfu {100 * mfu:.2f}%",
        "skipped" if event.skipped else "",
        "" if event.spike is None else f"spike {event.spike:.1f}σ",
        f"{tokens_per_second(event):.0f} tok/s",
        "" if event.grad_norm is None else f"norm {event.grad_norm:.2f}",
        f"lr {event.lr:.2e}",
    ]
    return ", ".join(filter(None, parts))


def is_worth_a_row(event: StepEvent, log_interval: int) -> bool:
    """Whether to print a row: every log_interval-th step, and every step that stands out."""
    return event.iteration % log_interval == 0 or event.skipped or event.spike is not None


def fitting_row(row: str, width: int) -> str:
    """A row for a terminal: leave out what does not fit after nanoGPT's own three figures."""
    parts = row.split(", ")
    while len(parts) > _OF_NANOGPT and len(", ".join(parts)) > width:
        parts.pop()
    return ", ".join(parts)


def wrapped(line: str, width: int) -> str:
    """A line for a terminal, which would break it inside a word. A command to copy stays in one piece."""
    if columns(line) <= width or width < _TOO_NARROW:
        return line
    said, command, rest = line.partition(_COMMAND)
    margin = len(line) - len(line.lstrip()) + 2
    lines = wrap(said.lstrip() + command[:1], width - margin)
    lines += [command[2:] + rest] if command else []
    return " " * (margin - 2) + ("\n" + " " * margin).join(lines)


def tokens_per_second(event: StepEvent) -> float:
    return 1000 * (event.tokens or 0) / event.ms if event.ms > 0 else 0.0


def evaluation(event: EvalEvent) -> str:
    parts = [
        f"step {event.iteration}: {_train(event)}val loss {event.val:.4f}",
        f"time {event.ms:.2f}ms",
        f"val error {event.val_error:.4f}",
        "" if event.train is None or event.train_error is None else f"train error {event.train_error:.4f}",
        "" if event.bits_per_byte is None else f"{event.bits_per_byte:.4f} bits per byte",
        _change(event),
    ]
    return ", ".join(filter(None, parts))


def _train(event: EvalEvent) -> str:
    """The training loss, with the number of steps if it is a mean of past steps."""
    if event.train is None:
        return ""
    count = event.train_steps
    name = "train loss" if count is None else f"train loss (last {count} step{'' if count == 1 else 's'})"
    return f"{name} {event.train:.4f}, "


def _change(event: EvalEvent) -> str:
    if event.change is None:
        return ""
    error = "" if event.change_error is None else f" (error {event.change_error:.4f})"
    return f"change {event.change:+.4f}{error}"


def saved(event: CheckpointEvent) -> str:
    times = f"time {event.stall_ms:.2f}ms, in the background {event.background_ms:.2f}ms"
    return f"saved {one_line(event.path or '')}, {times}, {size(event.bytes or 0)}"


def ending(end: Outcome, out_dir: str, words: Words) -> Iterator[str]:
    """The last lines of a run."""
    yield from utilisation(end, words)
    yield from left_out(end, words)
    yield outcome(end, out_dir, words)


def outcome(end: Outcome, out_dir: str, words: Words) -> str:
    if end.failure is not None:
        return one_line(_unsaved(end, out_dir, words))
    if end.reason == "finished":
        energy = "" if end.energy_kwh is None else f", {kwh(end.energy_kwh)}"
        return f"finished after {end.iteration} steps in {duration(end.wall_ms / 1000)}{energy}"
    next_step = words.text("nothing was saved") if end.checkpoint is None else _go_on(out_dir, words)
    return f"{end.reason} after {end.iteration} steps; {next_step}"


def _unsaved(end: Outcome, out_dir: str, words: Words) -> str:
    """The message if out_dir lacks the last step: which checkpoint is the newest, where it is, and what to do."""
    interrupted = end.reason == "interrupted"
    done = f"interrupted after {end.iteration} steps"
    if not interrupted:
        done = words.text("trained {count} steps", count=end.iteration)
    if end.checkpoint is None or end.out_dir is None:
        return words.text(
            "{done}, but nothing was saved ({reason}); before you train again, make room there or choose another "
            "--out_dir, and name a --rescue_dir on another disk",
            done=done,
            reason=words.message(end.failure or ""),
        )
    newest = int(end.checkpoint.rpartition("-")[2])
    if newest == end.iteration:
        next_step = words.text("the run's directory is now {path}", path=end.out_dir)
        return words.text(
            "{done}; step {step} is not in {out_dir} ({reason}), but saved as {path}; {next}",
            done=done,
            step=str(newest),
            out_dir=out_dir,
            reason=words.message(end.failure or ""),
            path=end.checkpoint,
            next=_go_on(end.out_dir, words) if interrupted else next_step,
        )
    return words.text(
        "{done}, but step {step} could not be saved ({reason}); the newest intact checkpoint is step {newest}, {path}; "
        "make room, then {next}",
        done=done,
        step=str(end.iteration),
        reason=words.message(end.failure or ""),
        newest=str(newest),
        path=end.checkpoint,
        next=_go_on(end.out_dir, words),
    )


def _go_on(out_dir: str, words: Words) -> str:
    command = shlex.join(["nanopace", "train", "--init_from=resume", f"--out_dir={out_dir}"])
    return words.text("resume with: {command}", command=one_line(command))


def utilisation(end: Outcome, words: Words) -> Iterator[str]:
    """The share of the measured peak, if known. The mfu in the rows is relative to the data sheet's peak."""
    if end.utilisation is not None and end.measured_tflops is not None:
        yield words.text(
            "a typical step reaches {share} of the {peak} that nanopace tune measured here",
            share=words.percent(end.utilisation),
            peak=words.tflops(end.measured_tflops),
        ).replace("\u00a0", " ")


def left_out(end: Outcome, words: Words) -> Iterator[str]:
    """nanoGPT's times include its logging, ours do not: say so if it makes a difference."""
    if end.logging > _WORTH_SAYING:
        yield words.text(
            "the times above leave out logging, which took {share} on top of them", share=words.percent(end.logging)
        ).replace("\u00a0", " ")


# --- numbers ---------------------------------------------------------------------------------------------------------


def duration(seconds: float) -> str:
    """A time to the second, even after days: readers of the log may need it."""
    if seconds < 59.95:
        return f"{max(0.0, seconds):.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours} h " if hours else "") + f"{minutes} min {rest} s"


def kwh(energy: float) -> str:
    """Three decimals; small amounts get two significant digits."""
    digits = 3 if not 0 < energy < 0.1 else 1 - math.floor(math.log10(energy))
    return f"{energy:.{digits}f} kWh"


def size(count: int) -> str:
    for unit, of in (("GB", 1e9), ("MB", 1e6)):
        if count >= of:
            return f"{count / of:.2f} {unit}"
    return f"{count / 1e3:.2f} kB"
