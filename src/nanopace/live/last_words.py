"""The final comments, when a log ends or the user stops watching: the first lines of its report, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nanopace.diagnosis.result import Diagnosis
from nanopace.live.comments import Comment
from nanopace.run import Ending
from nanopace.views.report import Report
from nanopace.views.summary import summary
from nanopace.wording.catalog import Words

_OF_A_PART = 2  # lines of a summary that hold even if lines are missing: what it is, and the step time


@dataclass(frozen=True, slots=True)
class Close:
    """How watching ends."""

    closed: bool  # the log is complete; else the user has stopped watching
    left_out: int = 0  # lines missing from the figures
    partial: bool = False  # the middle of the history is missing, too
    exit_code: int | None = None  # of the command that wrote it
    path: str | None = None  # for `nanopace explain`


def no_log(words: Words) -> Comment:
    """The comment if no log was recognised."""
    from nanopace.sources.formats.registry import known_trainers

    known = known_trainers()
    said = words.text("No training log found in these lines; supported: logs from {formats}.", formats=known)
    return Comment(said, "ended")


def last_words(diagnosis: Diagnosis, close: Close, words: Words, told: Ending | None) -> Iterator[Comment]:
    """A few lines, and how the run ended unless that was already `told`."""
    if close.left_out:
        yield Comment(
            words.plural(
                "{n} line arrived too fast to be read: it was passed through but is not in these figures.",
                "{n} lines arrived too fast to be read: they were passed through but are not in these figures.",
                close.left_out,
            )
        )
    lines = summary(Report(diagnosis, words))
    yield from (Comment(line) for line, _ in (lines[:_OF_A_PART] if close.left_out or close.partial else lines))
    if close.path is not None:
        yield Comment(words.text("For more: nanopace explain {path}", path=close.path))
    ending = diagnosis.source.ending
    if close.closed and (ending in (None, "finished") or ending != told):
        yield _end(diagnosis, close.exit_code, words)


def of_ending(ending: Ending | None, last: int, words: Words, *, elsewhere: bool) -> Comment | None:
    """The comment for an ending worth an alert, as the log reports it; `elsewhere`: the trainer does not use nanoGPT's
    knobs."""
    if ending is None or ending == "finished":
        return None
    numbers = {"last_iteration": last, "elsewhere": elsewhere and ending == "out_of_memory"}
    return Comment(words.finding(f"ended_{ending}", numbers), ending, last)


def _end(diagnosis: Diagnosis, exit_code: int | None, words: Words) -> Comment:
    """How it ended: as the log reports, too early, or unknown."""
    from nanopace.sources.formats.registry import find_format

    last, ending = diagnosis.source.last_iteration, diagnosis.source.ending
    bad = of_ending(ending, last, words, elsewhere=not find_format(diagnosis.source.format).nanogpt_knobs)
    if bad is not None:
        return bad
    if ending == "finished":
        return Comment(words.text("The run has finished."), "finished", last)
    at = words.count(last)
    if _is_short(diagnosis):
        limit = words.count(diagnosis.ahead.max_iters)
        said = words.text(
            "The log ends at iteration {at} of {last}: the run crashed or was stopped.", at=at, last=limit
        )
        return Comment(said, "died", last)
    if exit_code:
        return Comment(words.text("The command ended with exit code {code}.", code=exit_code), "died", last)
    return Comment(words.text("The log ends at iteration {at}.", at=at), "ended", last)


def _is_short(diagnosis: Diagnosis) -> bool:
    """Whether it ends before its last iteration, if that is known and not a trainer's default."""
    last, left = diagnosis.facts.get("max_iters"), diagnosis.ahead.remaining_iterations
    if last is None or last.origin == "inferred" or left is None:
        return False
    return left > max(1, diagnosis.source.log_interval or 1)
