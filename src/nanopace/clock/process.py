"""The process that a clock runs in: when it started, and how it ended."""

from __future__ import annotations

import sys
import time

from nanopace.host_clock import process_start

_first = True  # this process has not created a clock yet


def ending_of(error: BaseException | None) -> str:
    """Why training ended, as the ledger names it."""
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return "finished"
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    full = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return "out_of_memory" if full else "error"


def beginning() -> float:
    """When the run started, by `time.perf_counter`: with the process, unless that did something else first."""
    global _first
    alone = _first and not hasattr(sys, "ps1") and "ipykernel" not in sys.modules
    _first = False
    now = time.perf_counter()
    return now - max(0.0, time.monotonic() - process_start()) if alone else now
