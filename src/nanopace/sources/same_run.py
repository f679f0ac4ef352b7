"""Detects a run of ours that a directory contains twice: as its ledger, and as its printed log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from nanopace.errors import InputError
from nanopace.ledger.events import RunEvent
from nanopace.ledger.file import EventReader
from nanopace.sources.formats.nanopace_log import HEADER


class Identity(NamedTuple):
    """How one of our logs names its run."""

    is_ledger: bool
    out_dir: str | None


def identify(head: Iterable[str]) -> Identity | None:
    """The identity in the first lines of a log; None if it is not one of ours, or its start is missing."""
    for line in head:
        if '"event"' in line and (event := _run_event(line)) is not None:
            out_dir = event.config.get("out_dir")
            return Identity(True, out_dir if isinstance(out_dir, str) else None)
        if "nanopace" in line and (found := HEADER.search(line)):
            return Identity(False, found[1])
    return None


def _run_event(line: str) -> RunEvent | None:
    with suppress(InputError):  # of a newer version: reading it will report that
        return next((event for event in EventReader().read(line) if isinstance(event, RunEvent)), None)
    return None


def without_printed_copies(logs: Mapping[Path, Identity | None]) -> list[Path]:
    """The logs of one directory, without printed logs of runs whose ledger is here.

    Both must name the same out_dir. So neither a renamed directory nor another run's log next to a ledger is mistaken
    for the same run.
    """
    with_ledger = {each.out_dir for each in logs.values() if each is not None and each.is_ledger}
    return [
        path
        for path, each in logs.items()
        if each is None or each.is_ledger or each.out_dir is None or each.out_dir not in with_ledger
    ]
