"""Compares our summary of torch traces with Holistic Trace Analysis (`pip install HolisticTraceAnalysis`).

    python bench/profile_against_hta.py trace.json.gz ...

Prints, for each trace, the window, the busy time and the idle time by cause as both count them, and how far they are
apart. HTA has no cause "copy" and counts it as host or kernel wait, so our copy and wait are compared with its other
waits.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from nanopace.trace.read import read_trace
from nanopace.trace.summary import TraceSummary, summarise

os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"  # otherwise it fails on traces with nanoseconds


def theirs(path: str) -> dict[str, float]:
    """HTA's figures for the first GPU, in milliseconds."""
    from hta.trace_analysis import TraceAnalysis

    found = TraceAnalysis(trace_files={0: path}, trace_dir=str(Path(path).parent), include_last_profiler_step=True)
    times = found.get_temporal_breakdown(visualize=False).iloc[0]
    idle = found.get_idle_time_breakdown(ranks=[0], visualize=False)[0]
    by_cause = idle.groupby("idle_category")["idle_time"].sum() / 1000
    return {
        "window": times["kernel_time(us)"] / 1000,
        "busy": (times["kernel_time(us)"] - times["idle_time(us)"]) / 1000,
        "idle, host": float(by_cause.get("host_wait", 0.0)),
        "idle, other": float(by_cause.drop("host_wait", errors="ignore").sum()),
    }


def ours(summary: TraceSummary) -> dict[str, float]:
    return {
        "window": summary.window_ms,
        "busy": summary.busy_ms,
        "idle, host": summary.idle_host_ms,
        "idle, other": summary.idle_copy_ms + summary.idle_wait_ms,
    }


def main(paths: list[str]) -> int:
    worst = 0.0
    for path in paths:
        mine, other = ours(summarise(read_trace(path))[0]), theirs(path)
        print(f"\n{Path(path).name}\n{'':12} {'ours ms':>10} {'HTA ms':>10}   difference, of the window")
        for name, value in mine.items():
            apart = abs(value - other[name]) / other["window"]
            worst = max(worst, apart)
            print(f"{name:12} {value:10.3f} {other[name]:10.3f}   {apart:.2%}")
    return 0 if worst <= 0.01 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
