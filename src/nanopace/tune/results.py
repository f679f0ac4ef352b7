"""Where trials are stored, with their results line by line as they end, so that an interrupted measurement can
continue."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nanopace.errors import UsageError, reason_of
from nanopace.files import check_own, open_own, read_bounded, write_durably
from nanopace.tune.trial import Outcome

RESULTS = "results.jsonl"
_PLAN = "plan.json"
_LARGEST = 64 << 20  # bytes: more than anyone's trials
_MOST = 1e30  # for any figure of a trial


@contextmanager
def trials_directory(keep: str | None, plan: str) -> Iterator[Path]:
    """The named directory, or a temporary one that is removed afterwards."""
    if keep is not None:
        folder = Path(keep)
        _claim(folder, plan)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="nanopace-trials-") as name:
        yield Path(name)


def _claim(folder: Path, plan: str) -> None:
    """Reserve the directory for this plan, so that its trials are never mixed with another's."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file, wanted = folder / _PLAN, plan.encode()
        for name in (_PLAN, RESULTS):
            check_own(folder / name)
        if os.path.lexists(file):
            if read_bounded(file, len(wanted)) != wanted:
                raise UsageError("{path}: contains other runs; choose another directory, or remove it", path=folder)
        elif any(folder.iterdir()):
            raise UsageError("{path}: is not empty; choose another directory, or remove it", path=folder)
        else:
            write_durably(file, wanted)
    except OSError as error:
        raise UsageError("{path}: cannot be written: {reason}", path=folder, reason=reason_of(error)) from None


def keep_result(folder: Path, changed: object, number: int, outcome: Outcome) -> None:
    """Store a result. `changed` identifies the trial, as any JSON; `number` is the repeat."""
    result = {"changed": changed, "number": number, "outcome": asdict(outcome)}
    line = "\n" + json.dumps(result)  # the line before may be torn
    with os.fdopen(open_own(folder / RESULTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as file:
        file.write(line.encode())


def kept_results(folder: Path) -> Iterator[tuple[Any, int, Outcome]]:
    """The stored results. A torn last line is ignored."""
    try:
        data = read_bounded(folder / RESULTS, _LARGEST)
    except FileNotFoundError:
        return
    for line in (data or b"").splitlines():
        try:
            read = json.loads(line)
            outcome = Outcome(**{**read["outcome"], "step_ms": tuple(read["outcome"]["step_ms"])})
            changed, number = read["changed"], read["number"]
            _check(outcome)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        yield changed, number, outcome


def _check(outcome: Outcome) -> None:
    """Raise ValueError for figures that no trial of ours could have written; TypeError if one is not a number."""
    figures = (outcome.tokens_per_second, outcome.flops_per_token, outcome.micro_batch, outcome.compile_ms)
    times = (outcome.seconds, *outcome.step_ms, *(each for each in figures if each is not None))
    if not all(0 <= each < _MOST for each in times):
        raise ValueError(outcome)
