"""A process that gives one target one input after another and reports what should not happen.

That is an exception other than NanopaceError, an impossible figure (diagnosis/invariants.py), or more CPU time or
memory than an input may take. A small file records which input it is working on and since when, so that the parent
process notices an input that does not end.
"""

from __future__ import annotations

import faulthandler
import json
import mmap
import os
import re
import resource
import signal
import struct
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple, TextIO

PLACE = struct.Struct("<qqd")  # the case, the size of its input in bytes, the monotonic time when it began
TRACE = "trace.txt"  # written when the process is asked where it is
_FREE_BYTES = 2 << 30  # in addition to what a process has at the start: beyond that, allocations raise MemoryError
_NUMBER = re.compile(r"-?\d[\d.e+-]*|\b(?:nan|inf)\b")
_OWN = f"{os.sep}nanopace{os.sep}"


class Target(NamedTuple):
    """What is tested. `make` draws an input; `ready` takes a directory and returns the function to call with it."""

    make: Callable[[Random], bytes]
    ready: Callable[[Path], Callable[[bytes], None]]
    seconds: float = 10  # of CPU time per 5 MB of input
    megabytes: float = 500
    share: float = 1  # of the requested executions, for slow targets


class Wrong(Exception):
    """A finding in a target that raised nothing itself."""


def made(target: Target, name: str, seed: int, case: int) -> bytes:
    return target.make(Random(f"{seed} {name} {case}"))


def seconds_for(target: Target, size: int) -> float:
    return target.seconds * max(1.0, size / 5e6)


def work(
    target: Target, name: str, seed: int, cases: range, seconds: float, room: Path, report: TextIO, given: bytes | None
) -> None:
    """Run all cases, or as many as there is time for. `given` is an input to use instead of a drawn one."""
    with (room / "place").open("r+b") as file:
        place = mmap.mmap(file.fileno(), PLACE.size)
    trace = (room / TRACE).open("w")
    faulthandler.register(signal.SIGUSR1, file=trace, all_threads=False)
    _be_strict()
    check = target.ready(room)
    base, end = _megabytes(), time.monotonic() + seconds
    _limit_memory()
    done, slowest, told = 0, (0.0, -1), time.monotonic()
    for case in cases:
        now = time.monotonic()
        if now > end or now - told > 0.5 or done == len(cases):
            _tell(report, done=done, slowest=slowest, peak=_megabytes() - base)
            done, slowest, told = 0, (0.0, -1), now
        if now > end:
            break
        place[:] = PLACE.pack(case, 0, now)
        data = made(target, name, seed, case) if given is None else given
        place[:] = PLACE.pack(case, len(data), now)
        begin = time.process_time()
        found = _outcome(check, data)
        took = time.process_time() - begin
        slowest = max(slowest, (took, case))
        done += 1
        if (peak := _megabytes() - base) > target.megabytes:
            found = found or (f"memory: {peak:,.0f} MB", "")
        if took > seconds_for(target, len(data)):
            found = found or (f"slow: {took:.1f} s of CPU time", "")
        if found is not None:
            _tell(report, case=case, size=len(data), where=found[0], trace=found[1])
        if peak > target.megabytes:
            break  # the next input's memory could not be measured
    _tell(report, done=done, slowest=slowest, peak=_megabytes() - base)


def _be_strict() -> None:
    """Make impossible figures a finding; normally, explain leaves them out of a report."""
    from nanopace.diagnosis import invariants

    invariants.strict = True


def _tell(report: TextIO, **what: object) -> None:
    report.write(json.dumps(what) + "\n")
    report.flush()


def _outcome(check: Callable[[bytes], None], data: bytes) -> tuple[str, str] | None:
    from nanopace.diagnosis.invariants import InvariantError
    from nanopace.errors import NanopaceError

    try:
        check(data)
    except NanopaceError:
        return None
    except InvariantError as error:  # always raised at the same place
        return _NUMBER.sub("#", f"InvariantError: {error}")[:200], str(error)
    except Wrong as wrong:
        return str(wrong).partition("\n")[0][:200], str(wrong)
    except BaseException as error:
        return where(error), "".join(traceback.format_exception(error, limit=-12))
    return None


def where(error: BaseException) -> str:
    """Identifies a finding: the type of the error, and its last place in nanopace and beyond."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _OWN in frame.filename][-1:]
    last = [frame for frame in frames[-1:] if frame not in own]
    named = " > ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in own + last)
    return f"{type(error).__name__} in {named}"


def _megabytes() -> float:
    """This process's peak memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _limit_memory() -> None:
    try:
        data = int(Path("/proc/self/status").read_text().partition("VmData:")[2].split()[0]) << 10
    except (OSError, IndexError):  # not Linux
        return
    resource.setrlimit(resource.RLIMIT_DATA, (data + _FREE_BYTES,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
