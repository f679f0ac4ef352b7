"""A trace's summary in the terminal: how busy the GPU was, with what, and what it waited for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nanopace.views.document import Cell, Table
from nanopace.wording.template import label

if TYPE_CHECKING:
    from nanopace.trace.summary import TraceSummary
    from nanopace.views.terminal.writer import TerminalWriter
    from nanopace.wording.catalog import Words

CLASSES: Mapping[str, str] = {
    "matrix products": label("matrix products"),
    "attention": label("attention"),
    "normalisation": label("normalisation"),
    "loss": label("softmax and loss"),
    "optimizer": label("optimizer"),
    "communication": label("communication"),
    "embedding": label("embedding and indexing"),
    "reductions": label("reductions"),
    "elementwise": label("elementwise"),
    "copies": label("copies"),
    "other": label("other kernels"),
}
_LONGEST_NAME = 60  # of a kernel: templates include their whole signature
_WORTH_A_LINE = 0.02  # of the window: less idle time gets no advice
_IDLE: Mapping[str, str] = {
    "host": label("waiting for the host to launch more work"),
    "copy": label("waiting for a copy between host and GPU"),
    "wait": label("launched in time, but not started yet: waiting for another stream, or the gap between two kernels"),
}


def write_traces(summaries: Sequence[TraceSummary], words: Words, writer: TerminalWriter) -> None:
    for number, summary in enumerate(summaries):
        if number:
            writer.blank()
        _write(summary, words, writer)


def _write(summary: TraceSummary, words: Words, writer: TerminalWriter) -> None:
    name = summary.device_name or words.text("GPU {number}", number=summary.device)
    writer.line(Cell(f"{summary.trace}: {name}", "bold"), indent=0)
    writer.line(_opening(summary, words))
    steps = summary.steps or 1
    per_step = words.text("per step") if summary.steps else words.text("in all")
    head = (words.text("kernels"), words.text("share"), per_step, words.text("launches"), words.text("largest"))
    rows = [
        (
            words.text(CLASSES[each.name]),
            words.percent(each.share),
            words.duration(each.busy_ms / steps / 1000),
            words.count(round(each.count / steps)),
            _short(each.kernels[0][0]),
        )
        for each in summary.classes
    ]
    writer.heading(words.text("What the GPU computed"))
    writer.table(Table(rows, "lrrrl", head=head))
    writer.heading(words.text("What it waited for"))
    idle = {"host": summary.idle_host_ms, "copy": summary.idle_copy_ms, "wait": summary.idle_wait_ms}
    for cause, ms in sorted(idle.items(), key=lambda each: -each[1]):
        share = words.percent(ms / summary.window_ms if summary.window_ms else 0.0)
        writer.line(f"{share}: {words.text(_IDLE[cause])}")
    if idle["host"] > _WORTH_A_LINE * summary.window_ms:
        writer.line(words.text("Fewer, larger kernels would help: compile, CUDA graphs or a larger micro-batch."))


def _opening(summary: TraceSummary, words: Words) -> str:
    window, busy = words.duration(summary.window_ms / 1000), words.percent(summary.busy_share)
    if summary.steps is None:
        return words.text("{window}, with the GPU busy for {busy}.", window=window, busy=busy)
    each = words.duration(summary.window_ms / 1000 / summary.steps)
    return words.plural(
        "{n} step of {each}; the GPU was busy for {busy} of {window}.",
        "{n} steps of {each}; the GPU was busy for {busy} of {window}.",
        summary.steps,
        each=each,
        busy=busy,
        window=window,
    )


def _short(name: str) -> str:
    """A kernel's own name without namespaces and template arguments, cut to fit on a line."""
    plain = name.removeprefix("void ").partition("<")[0].rpartition("::")[2] or name
    return plain if len(plain) <= _LONGEST_NAME else f"{plain[: _LONGEST_NAME - 1]}…"
