"""Traces of torch.profiler on the command line: explain reads any trace, profile the one it has just made."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nanopace.cli.options import writer_of
from nanopace.errors import UsageError
from nanopace.trace.read import is_trace, read_trace
from nanopace.trace.summary import summarise
from nanopace.views.terminal.trace import write_traces

if TYPE_CHECKING:
    from nanopace.wording.catalog import Words

__all__ = ["is_trace", "show_traces"]


def show_traces(paths: Sequence[str], others: Sequence[str], args: argparse.Namespace, words: Words) -> int:
    """Show what the GPUs in each trace did, as text or JSON."""
    if others:
        raise UsageError("{path}: logs and traces are explained separately; name one kind at a time", path=others[0])
    if getattr(args, "html", None) is not None:
        raise UsageError("--html: a trace has no page; open {path} in https://ui.perfetto.dev", path=paths[0])
    summaries = []
    for path in paths:
        found = summarise(read_trace(path))
        if not found:
            print(words.text("{path}: no GPU activity in this trace", path=path), file=sys.stderr)
        summaries += found
    if getattr(args, "json", False):
        from nanopace.views.json import object_json

        sys.stdout.write(object_json({"version": 1, "traces": summaries}))
    elif summaries:
        writer = writer_of(args)
        write_traces(summaries, words, writer)
        writer.finish()
    return 0
