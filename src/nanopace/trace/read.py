"""Reads the JSON that torch.profiler exports: the work of each GPU, and the calls that launched it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from nanopace.errors import InputError, NotALog
from nanopace.sources.opening import open_log

_LARGEST = 1 << 30  # bytes of JSON: a window of a few steps has a hundredth of that
_OPENING = 1 << 16  # bytes at the start that show whether it is a trace
_ON_THE_CARD = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "copy"}  # by category
_CALLS = ("cuda_runtime", "cuda_driver", "hip_runtime", "hip_driver")
_STEP = "ProfilerStep#"


class Work(NamedTuple):
    """One kernel or copy on a GPU; times in microseconds on the trace's clock."""

    name: str
    begin: float
    end: float
    stream: int
    is_copy: bool
    asked: float | None  # when the host's launch call began; None: the trace does not contain the call


class Trace(NamedTuple):
    name: str
    devices: Mapping[int, str]  # names of the GPUs, by index
    work: Mapping[int, list[Work]]  # by GPU, sorted by start
    steps: tuple[tuple[float, float], ...]  # start and end of each step that the profiled program marked


def is_trace(path: str) -> bool:
    """Whether a file is a trace. Traces are named *.json, so other files are not opened."""
    if not path.removesuffix(".gz").endswith(".json"):
        return False
    try:
        with open_log(path) as opened:
            opening = next(opened.chunks, b"")[:_OPENING]
    except InputError:
        return False
    return b'"traceEvents"' in opening or (b'"schemaVersion"' in opening and b'"deviceProperties"' in opening)


def read_trace(path: str) -> Trace:
    document = _document(path)
    events = document.get("traceEvents")
    if not isinstance(events, list):
        raise NotALog("{path}: has no traceEvents, so it is not a torch.profiler trace", path=path)
    known = [each for each in events if isinstance(each, dict) and each.get("ph") == "X" and _is_timed(each)]
    asked = _calls(known)
    work: dict[int, list[Work]] = {}
    for event in known:
        kind = _ON_THE_CARD.get(str(event.get("cat")).lower())
        if kind is not None:
            about = _about(event)
            device, stream = _int(about.get("device")), _int(about.get("stream"))
            begin = float(event["ts"])
            launched = asked.get(_int(about.get("correlation")))
            each = Work(str(event.get("name")), begin, begin + float(event["dur"]), stream, kind == "copy", launched)
            work.setdefault(device, []).append(each)
    for own in work.values():
        own.sort(key=lambda each: (each.begin, each.end))
    return Trace(Path(path).name, _devices(document), work, _steps(known))


def _document(path: str) -> dict[str, Any]:
    parts, size = [], 0
    with open_log(path) as opened:
        for chunk in opened.chunks:
            size += len(chunk)
            if size > _LARGEST:
                raise InputError("{path}: is too large; profile fewer steps", path=path)
            parts.append(chunk)
    try:
        document = json.loads(b"".join(parts))
    except (ValueError, RecursionError) as error:
        raise NotALog("{path}: not JSON, or truncated: {reason}", path=path, reason=str(error)[:200]) from None
    if not isinstance(document, dict):
        raise NotALog("{path}: has no traceEvents, so it is not a torch.profiler trace", path=path)
    return document


def _is_timed(event: Mapping[str, Any]) -> bool:
    begin, length = event.get("ts"), event.get("dur")
    numbers = isinstance(begin, (int, float)) and isinstance(length, (int, float))
    return numbers and math.isfinite(cast(float, begin)) and 0 <= cast(float, length) < math.inf


def _calls(events: list[dict[str, Any]]) -> dict[int, float]:
    """When each host call began, by correlation id."""
    calls = (each for each in events if str(each.get("cat")).lower() in _CALLS)
    found = {_int(_about(each).get("correlation")): float(each["ts"]) for each in calls}
    found.pop(-1, None)
    return found


def _about(event: Mapping[str, Any]) -> Mapping[str, Any]:
    about = event.get("args")
    return about if isinstance(about, dict) else {}


def _int(value: object) -> int:
    return value if isinstance(value, int) else -1


def _devices(document: Mapping[str, Any]) -> dict[int, str]:
    listed = document.get("deviceProperties")
    known = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return {_int(each.get("id")): str(each.get("name")) for each in known}


def _steps(events: list[dict[str, Any]]) -> tuple[tuple[float, float], ...]:
    """Each step once: it is marked on the host's track and, in some versions, also on the GPU's."""
    spans = {}
    for event in events:
        if str(event.get("name")).startswith(_STEP) and str(event.get("cat")).lower() != "gpu_user_annotation":
            spans[event["name"]] = (float(event["ts"]), float(event["ts"]) + float(event["dur"]))
    return tuple(sorted(spans.values()))
