"""Reads nanoGPT's logs, from any era and any terminal.

The time of a row with an evaluation includes the evaluation (and the checkpoint): nanoGPT's clock keeps running. The
printed mfu is smoothed, is -100% until it is measured, and is always relative to an A100's peak.

A printed loss of `nan` or `inf` becomes infinity, to distinguish it from a missing loss.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from nanopace.errors import UsageError
from nanopace.run import Row
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.nanogpt_lines import (
    HEADER,
    Line,
    begins_line,
    like_evaluation,
    mentions_validation,
    read_line,
    read_untimed_row,
    shows_time,
)
from nanopace.sources.printed_numbers import nan_as_inf, to_int
from nanopace.sources.processes.died import ENDINGS, RANK

if TYPE_CHECKING:
    from nanopace.sources.fold import Mixture
    from nanopace.sources.head.config_echo import EchoedConfig
    from nanopace.sources.head.head import Head
    from nanopace.sources.time_stamps import Stamps

_MOST_PIECES = 12  # a terminal of 5 columns; more is something else

_GPT2 = {  # (n_layer, n_head, n_embd)
    "gpt2": (12, 12, 768),
    "gpt2-medium": (24, 16, 1024),
    "gpt2-large": (36, 20, 1280),
    "gpt2-xl": (48, 25, 1600),
}


class NanogptReader:
    """Feeds a RunBuilder. Holds a line that a terminal of `width` columns may have wrapped until the next is known."""

    reads_forks = True  # a fork may print its settings before the rows in its own words

    def __init__(self, builder: RunBuilder, width: int = 0) -> None:
        self._builder = builder
        self._width = width or 1 << 30
        self.line = 0  # number of the current line
        self._held = ""
        self._held_line = 0
        self._pieces = 0
        self._config: EchoedConfig | None = None  # the config being printed
        self._head: Head | None = None  # what a fork prints before the rows of a process
        self._rows_seen = False
        self._alone: tuple[int, ...] | None = None  # the first evaluation, until another shows whether rows follow
        self._losses_seen = False  # of rows without a time
        self._untimed: tuple[int, str] | None = None  # of a held line that has no time so far
        self.mfu_seen = False
        self._measured = False  # this process has printed an mfu

    # --- lines -------------------------------------------------------------------------------------------------------

    def feed(self, line: str) -> bool:
        """Read one line: it continues a held line, starts something, or stands alone."""
        self.line += 1
        if not line and not self._held and self._config is None:
            return False
        if line.startswith("["):
            line = RANK.sub("", line, count=1)
        known = read_line(line)
        if self._held:
            if known is None and not begins_line(line) and self._try_join(line):
                return True
            self._release()
        if known is None:
            return self._unknown(line)
        if self._may_continue(known, line, line):
            self._hold(line)
        else:
            self._take(known, line)
        return True

    def feed_cut(self, line: str) -> bool:
        """Read the last line, without its newline. Used only if nothing that matters can be missing."""
        if self._held and read_line(line) is None:
            joined = self._held + line
            if (known := read_line(joined)) is not None and known.end > len(self._held):
                line, self._held = joined, ""
        self._release_last()
        known = read_line(line)
        if known is None or known.kind not in ("row", "evaluation", *ENDINGS):
            return False
        if known.complete or (known.kind == "row" and self._rows_seen and not self.mfu_seen):
            self._take(known, line)
            return True
        return False

    def feed_row(self, row: Row) -> None:
        """Take a row parsed elsewhere (bulk/nanogpt.py), in order with the lines."""
        self._release()
        self._close_config()
        self.mfu_seen |= row.mfu is not None
        self._add(row, restarted=False)

    def feed_mixture(self, folded: Mixture) -> None:
        """Take rows that follow the last one, with their evaluations, in order with the lines."""
        self._measured = folded.rows[-1].mfu is not None
        self._builder.mixture(folded)

    def finish(self) -> None:
        """No more lines."""
        self._release_last()
        self._close_config()

    # --- lines that a terminal has wrapped ---------------------------------------------------------------------------

    def _may_continue(self, known: Line, text: str, last: str) -> bool:
        """Whether the line may continue; `last` is its last piece. Rows and evaluations reveal it by their decimals."""
        if known.kind in ("row", "evaluation"):
            return not known.complete
        return len(last) >= self._width and known.end == len(text)

    def _hold(self, line: str) -> None:
        self._held, self._pieces, self._held_line = line, 1, self.line

    def _try_join(self, line: str) -> bool:
        """Try the line as the continuation of the held line."""
        if self._pieces >= _MOST_PIECES:
            return False
        joined = self._held + line
        known = read_line(joined)
        if known is None:
            goes_on = begins_line(joined)
        elif known.end <= len(self._held):
            return False
        else:
            goes_on = self._may_continue(known, joined, line)
        if goes_on:
            self._held, self._pieces = joined, self._pieces + 1
        elif known is not None:
            self._held = ""
            self._take(known, joined)
        return goes_on or known is not None

    def _release(self) -> None:
        """The held line has no continuation: it counts if it can be read as it is."""
        held, self._held = self._held, ""
        if not held:
            return
        if (known := read_line(held)) is not None:
            self._take(known, held)
        elif self._untimed is not None:
            self._losses_seen = True
            self._builder.untimed_row(self._untimed[0], nan_as_inf(float(self._untimed[1])))
        elif like_evaluation(held):
            self._builder.unread(self._held_line, held)

    def _release_last(self) -> None:
        """The same at the end of the log: the held line is either complete after all, or the log was cut off there."""
        known = read_line(self._held) if self._held else None
        if known is None:
            self._held = ""
        elif not known.complete:
            cut = self.mfu_seen if known.kind == "row" else len(self._held) >= self._width
            if cut:
                self._held = ""
        self._release()

    def _unknown(self, line: str) -> bool:
        understood = self._read_head(line)
        if self._config is not None:
            self._config.add(line)
            return True
        if len(line) >= self._width or begins_line(line):
            self._hold(line[-1000:])
            self._untimed = None if self._rows_seen else read_untimed_row(line)
        elif like_evaluation(line) or self._may_be_the_only_kind(line):
            self._builder.unread(self.line, line)
        return understood

    def _may_be_the_only_kind(self, line: str) -> bool:
        return self._rows_seen and not self._builder.evaluations_seen and mentions_validation(line)

    def _read_head(self, line: str) -> bool:
        """Read a line before the first row of a process: a fork's settings, or the card."""
        if not self.reads_forks or (self._rows_seen and self._head is None):
            return False
        return self._open_head().feed(line, settings=self._config is None)

    def _open_head(self) -> Head:
        if self._head is None:
            from nanopace.sources.head.head import Head

            self._head = Head(self._builder)
        return self._head

    # --- what the lines contain --------------------------------------------------------------------------------------

    def _take(self, known: Line | None, text: str) -> None:
        self._close_config()
        while known is not None:
            if known.kind == "row":
                self._row(known.values, self._at_s(known.start, text))
            elif known.kind == "evaluation":
                iteration, train, val, unit = known.values
                self._builder.evaluation(
                    int(iteration),
                    nan_as_inf(float(train)) if train else None,
                    nan_as_inf(float(val)),
                    metric="bpc" if unit else "loss",
                    at_s=self._at_s(known.start, text),
                )
                if not self._rows_seen and not self._losses_seen and not shows_time(text, known.start, known.end):
                    self._evaluated_alone(int(iteration))
            elif known.kind in ENDINGS:
                self._builder.ending(ENDINGS[known.kind])
            else:
                self._header(known)
                return
            text = text[known.end :]  # two processes may print on one line
            known = read_line(text) if text else None

    def _evaluated_alone(self, iteration: int) -> None:
        """A log may have evaluations and nothing else, as that of gpt.py, nanoGPT's ancestor. If no row comes between
        two of them, each is its own row."""
        if self._alone in (None, (iteration,)):
            self._alone = (iteration,)
            return
        for each in (*self._alone, iteration):
            self._builder.untimed_row(each, None)
        self._alone = ()

    def _row(self, values: tuple[str, ...], at_s: float | None) -> None:
        iteration, loss, ms, percent, unit, tokens, others = values
        mfu = float(percent) / 100 if percent else None
        if mfu is not None and not mfu >= 0:
            mfu = None  # -100% until five iterations are done
        restarted = bool(percent) and mfu is None and self._measured and int(iteration) > 0
        row = Row(int(iteration), float(ms), nan_as_inf(float(loss)), mfu, at_s=at_s)
        if row.ms > 0:  # otherwise, the clock did not advance
            self.mfu_seen |= bool(percent)
            self._add(row, restarted)
            if tokens:
                self._builder.fact("row_tokens", float(tokens) * row.ms / 1000)
            if others:
                self._builder.fact("other_columns", True)
            if unit:
                self._builder.fact("loss_unit", "bpc")

    def _at_s(self, start: int, text: str) -> float | None:
        """The time stamp before what starts there, if there is one."""
        return self._stamps.read(text[:start]) if start else None

    @cached_property
    def _stamps(self) -> Stamps:
        from nanopace.sources.time_stamps import Stamps  # which few logs need

        return Stamps()

    def _add(self, row: Row, restarted: bool) -> None:
        self._rows_seen = True
        self._head = None
        self._measured = row.mfu is not None
        self._builder.row(row, restarted=restarted)

    def _header(self, known: Line) -> None:
        """Read facts about the run, or about the process that starts."""
        builder, values = self._builder, known.values
        if known.kind in HEADER:
            fresh = {"scratch": True, "pretrained": True, "resuming": False}.get(known.kind)
            builder.begin_process(fresh=fresh)
            if self.reads_forks:
                self._open_head()
        match known.kind:
            case "saving":
                builder.checkpoint(path=values[0].strip())
            case "config":
                from nanopace.sources.head.config_echo import EchoedConfig  # imports Python's parser

                self._config = EchoedConfig(self._width)
            case "override":
                self._override(*values)
            case "tokens":
                builder.fact("tokens_per_iteration", to_int(values[0]))
            case "parameters":
                builder.fact("parameters", round(float(values[0]) * 1e6))
            case "groups":
                which = "non_decayed" if len(values) == 3 else "decayed"
                builder.fact(f"{which}_tensors", to_int(values[-2]))
                builder.fact(f"{which}_parameters", to_int(values[-1]))
            case "vocabulary":
                builder.fact("vocab_size", int(values[-1]))
            case "pretrained":
                builder.fact("init_from", values[0])
                for knob, value in zip(("n_layer", "n_head", "n_embd"), _GPT2.get(values[0], ()), strict=False):
                    builder.fact(knob, value)
            case "forcing":
                builder.fact("vocab_size", int(values[0]))
                builder.fact("bias", values[2] == "True")
            case "compiling":
                builder.fact("compile", True)

    def _close_config(self) -> None:
        config, self._config = self._config, None
        for knob, value in config.knobs().items() if config else ():
            self._builder.fact(knob, value)

    def _override(self, knob: str, value: str) -> None:
        from nanopace.config import KNOBS
        from nanopace.config_text import read_override

        # Skip a fork's own knobs. nanoGPT's flags have no braces, and f-strings take long to parse.
        if knob not in KNOBS or "{" in value:
            return
        with suppress(UsageError):
            self._builder.fact(*read_override(f"{knob}={value}"))
