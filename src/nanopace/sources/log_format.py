"""What there is to know about a log format before one of its logs is read.

A declaration is light: words, expressions and names of modules. Its reader is imported when a log of it is found. What
is not in a log, but the same in all logs of a format, is declared here too, so that nobody has to ask for its name.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast

from nanopace.record import Record
from nanopace.run import RowLoss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nanopace.sources.build import DocumentReader, LineReader, RunBuilder

# What the builder is given as the time of a row; infer/cover.py makes it that of one iteration.
RowTime = Literal[
    "iteration",  # of its iteration, however far apart the rows are
    "all",  # of all iterations since the row before
    "iteration_or_all",  # the one in some logs, the other in others: which, the log has to prove
    "mean",  # the mean of all iterations since the row before, as it is printed
    "clock",  # the same, as the reader takes it from a clock that runs on
]


class LogFormat(Record):
    """One trainer's log: how to recognise it, who reads it, and what its figures mean."""

    name: str  # of Run.format, and in JSON
    trainer: str  # as people write it; the formats of one trainer have the same
    reader: str  # "module:Class", a LineReader that is made with a RunBuilder and the terminal's width;
    # of a format with an `opening`, a DocumentReader that is made with a RunBuilder
    bulk_reader: str = ""  # "module:function", for logs of many megabytes: (reader, chunks of bytes)

    # --- how it is recognised: expressions on a line ---
    row: str = ""  # matches a row of this format, and no line of any other
    header: str = ""  # matches what this trainer prints before its rows: counts until a row is found
    words: tuple[str, ...] = ()  # plain words: one of them is in every row and header
    row_words: tuple[str, ...] = ()  # plain words: one of these is in every row, too; () where `words` say enough
    anchors: tuple[str, ...] = ()  # expressions: one of them matches in every row and header; () is the words
    opening: str = ""  # matches in the first bytes of a file that is one document: JSON, or binary
    written_anew: bool = False  # lines, all of which the trainer writes again when there are more
    extends: str = ""  # the format that its rows begin like: rows of that one behind a header of this one are of this

    # --- several processes that print into one log ---
    row_start: str = ""  # how a row begins, with its iteration as the group; "" where one process alone writes

    # --- what its figures mean ---
    row_contains_evaluation: bool = True  # a row's time contains the evaluation and the checkpoint of its iteration
    mfu_smoothing: float | None = None  # weight of the past in the printed mfu
    zero_mfu_is_unknown: bool = False  # 0.00 in every row: the trainer does not know the card's peak
    printed_peak: float | Literal["card"] | None = None  # TFLOP/s behind the mfu; "card": of the one that ran
    row_loss: RowLoss = "step"
    row_time: RowTime = "iteration"
    clock_ms: float = 0.0  # its times are differences of a clock that is rounded to this

    # --- what its log leaves out ---
    has_stages: bool = False  # one log holds several trainings: base, mid, SFT
    nanogpt_knobs: bool = False  # it is set by nanoGPT's knobs, such as dtype
    nanogpt_defaults: bool = False  # a knob that its config does not name has nanoGPT's default
    gpt2_shape: bool = False  # its parameters and FLOPs follow from layers and width as GPT-2's do
    compiles: bool = True  # it has torch.compile, or something like it
    ends_at_max_iters: bool = False  # its last row is of iteration max_iters
    ends_by_time: bool = False  # it stops when its time is over, mostly long before max_iters

    def open_reader(self, builder: RunBuilder, width: int = 0) -> LineReader:
        """Its reader. `width`: the columns of a terminal that may have broken the lines, if known."""
        builder.format = self
        return cast("LineReader", _load(self.reader)(builder, width))

    def read_document(self, builder: RunBuilder, chunks: Iterable[bytes]) -> None:
        """All of a file that is one document."""
        builder.format = self
        cast("DocumentReader", _load(self.reader)(builder)).read(chunks)

    def feed_bulk(self, reader: LineReader, chunks: Iterable[bytes]) -> None:
        """All lines of a long log."""
        _load(self.bulk_reader)(reader, chunks)


def _load(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")
    return cast("Callable[..., Any]", getattr(import_module(module), name))
