"""Everything about a log format that is known before reading one of its logs.

A declaration is light: words, expressions and module names. The reader is imported when such a log is found. Facts that
no log states, but that hold for all logs of a format, are also declared here, so that no code depends on its name.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast

from nanopace.record import Record
from nanopace.run import RowLoss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nanopace.sources.build import RunBuilder
    from nanopace.sources.readers import DocumentReader, LineReader

# What the builder gets as the time of a row. infer/cover.py converts it to that of one iteration.
RowTime = Literal[
    "iteration",  # of one iteration, however far apart the rows are
    "all",  # of all iterations since the previous row
    "iteration_or_all",  # one of the two, depending on the log, which must prove it
    "mean",  # the mean of all iterations since the previous row, as printed
    "clock",  # the same, derived by the reader from a running clock
]


class LogFormat(Record):
    """One trainer's log: how to recognise it, who reads it, and what its figures mean."""

    name: str  # for Run.format and JSON
    trainer: str  # as people write it; all formats of a trainer have the same
    reader: str  # "module:Class": a LineReader, created with a RunBuilder and the terminal's width;
    # for a format with an `opening`, a DocumentReader, created with a RunBuilder
    bulk_reader: str = ""  # "module:function", for logs of many megabytes: (reader, chunks of bytes)

    # --- how it is recognised: expressions on a line ---
    row: str = ""  # matches a row of this format, and no line of any other
    header: str = ""  # matches what this trainer prints before its rows: a hint until a row is found
    words: tuple[str, ...] = ()  # plain words: each row and header contains one of them
    row_words: tuple[str, ...] = ()  # plain words: each row also contains one of these; () if `words` are enough
    anchors: tuple[str, ...] = ()  # expressions: one of them matches in each row and header; (): the words
    opening: str = ""  # matches in the first bytes of a file that is one document: JSON, or binary
    written_anew: bool = False  # lines that the trainer rewrites completely when there are more
    extends: str = ""  # the format with the same rows: after a header of this format, its rows belong to this one

    # --- several processes that print to one log ---
    row_start: str = ""  # how a row begins, with its iteration as the group; "" if only one process writes

    # --- what its figures mean ---
    row_contains_evaluation: bool = True  # the time of a row includes the evaluation and checkpoint of its iteration
    mfu_smoothing: float | None = None  # weight of the past in the printed mfu
    zero_mfu_is_unknown: bool = False  # 0.00 in every row: the trainer does not know the card's peak
    printed_peak: float | Literal["card"] | None = None  # TFLOP/s that the mfu is relative to; "card": the one in use
    row_loss: RowLoss = "step"
    row_time: RowTime = "iteration"
    clock_ms: float = 0.0  # resolution of the clock whose differences are its times

    # --- what its log leaves out ---
    has_stages: bool = False  # one log contains several trainings: base, mid, SFT
    nanogpt_knobs: bool = False  # its settings are nanoGPT's knobs, such as dtype
    nanogpt_defaults: bool = False  # a knob that its config does not name has nanoGPT's default
    gpt2_shape: bool = False  # its parameters and FLOPs follow from layers and width, as in GPT-2
    compiles: bool = True  # it has torch.compile, or something similar
    ends_at_max_iters: bool = False  # its last row is iteration max_iters
    stops_before_max_iters: bool = False  # its rows count from 0 to max_iters - 1
    cools_down: bool = False  # its learning rate falls towards the end: see Run.cools_down
    ends_by_time: bool = False  # it stops at a time limit, usually long before max_iters

    def open_reader(self, builder: RunBuilder, width: int = 0) -> LineReader:
        """Create its reader. `width`: the columns of a terminal that may have wrapped the lines, if known."""
        builder.format = self
        return cast("LineReader", _load(self.reader)(builder, width))

    def read_document(self, builder: RunBuilder, chunks: Iterable[bytes]) -> None:
        """Read a file that is one document."""
        builder.format = self
        cast("DocumentReader", _load(self.reader)(builder)).read(chunks)

    def feed_bulk(self, reader: LineReader, chunks: Iterable[bytes]) -> None:
        """Read all lines of a long log."""
        _load(self.bulk_reader)(reader, chunks)


def _load(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")
    return cast("Callable[..., Any]", getattr(import_module(module), name))
