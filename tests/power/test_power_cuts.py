"""Power cuts: unsynced changes are lost, or survive without earlier ones. Everything promised must still be there, the
rest must be readable, and work must continue."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import nanopace
from nanopace import files

from . import checkpoints, corpora, runs
from .disk import State, Trace, write
from .scenario import Scenario

SCENARIOS: dict[str, Callable[[Path], AbstractContextManager[Scenario]]] = {
    each.__name__: each
    for each in (
        runs.writing_a_ledger,
        runs.losing_the_ledger,
        runs.setting_a_run_aside,
        checkpoints.losing_the_directory,
        checkpoints.replacing_a_checkpoint,
        checkpoints.saving_in_parts,
        checkpoints.exporting,
        corpora.downloading,
        corpora.preparing,
        runs.training,
    )
}

SYNCING = re.compile(r"(?<!def )\b(?:fsync|sync_directory|sync_file|make_directory)\(")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """In memory if possible: nothing needs to outlive the test."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as folder:
        yield Path(folder) / "disk"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is written during checks is discarded."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def failure(trace: Trace, scenario: Scenario, disk: Path, passed: set[Hashable]) -> tuple[State, Exception] | None:
    """The first state that loses something it must not. States that have passed are not tried again."""
    for state in trace.states():
        for number, check in enumerate(scenario.checks):
            tree = {path: data for path, data in state.tree.items() if check.concerns(path)}
            owed = check.owed(state.promises)
            key = number, owed, frozenset(tree.items())
            if key in passed:
                continue
            write(tree, disk)
            try:
                check.check(disk, owed)
            except Exception as error:
                return state, error
            passed.add(key)
    return None


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("name", SCENARIOS)
def test_after_a_power_cut(name: str, tmp_path: Path, disk: Path) -> None:
    with SCENARIOS[name](tmp_path / "work") as scenario:
        found = failure(scenario.trace, scenario, disk, set())
    if found is not None:
        state, error = found
        raise AssertionError(f"after {state.after} operations, without {state.lost}: {[*state.tree]}") from error


@pytest.mark.usefixtures("untraced")
def test_no_sync_can_be_left_out(tmp_path: Path, disk: Path) -> None:
    """Without any one of them, a test above fails. So the tests can fail, and no sync is superfluous."""
    needed: set[str] = set()
    asked: set[str] = set()
    for name, begin in SCENARIOS.items():
        with begin(tmp_path / name) as scenario:
            asked |= scenario.trace.sites
            passed: set[Hashable] = set()
            for site in sorted(scenario.trace.sites - needed):
                if failure(scenario.trace.without(site), scenario, disk, passed):
                    needed.add(site)
    assert asked - needed == set()
    lines = {site.split(" < ")[-1] for site in asked}
    assert set(syncing_lines()) - lines == set(), "no scenario comes by here"


def syncing_lines() -> Iterator[str]:
    """Every source line that syncs, except the helpers that do it for others, and doctor, which only times it."""
    root = Path(nanopace.__file__).parent
    others = (Path(files.__file__), root / "cli" / "commands" / "doctor.py")
    for path in sorted(root.rglob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if path not in others and SYNCING.search(line):
                yield f"{path.relative_to(root)}:{number}"
