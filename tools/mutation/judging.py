"""Puts a mutant into a copy of the tree to see whether a test notices it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import IO

import pytest

from mutation.children import NOTHING_NOTICED, Job, Request, run_pytest
from mutation.coverage_map import PACKAGE, TestMap
from mutation.operators import Mutant

_TIMES = count(1_000_000_000)  # seconds: unique per mutant, or Python would reuse another mutant's bytecode
Noticing = Generator[Request, int, tuple[bool, str]]  # whether the mutant is killed, and by what


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant, as stored in the results file."""

    key: str
    number: int
    killed: bool
    by: str  # the test that failed, "too long", or, for a survivor, how many tests ran

    def write(self, file: IO[str]) -> None:
        file.write(json.dumps(vars(self)) + "\n")
        file.flush()


Tell = Callable[[Verdict], None]


def read_verdicts(file: Path) -> dict[str, Verdict]:
    """The latest verdict on each mutant; a truncated line does not count."""
    found: dict[str, Verdict] = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        try:
            verdict = Verdict(**json.loads(line))
        except (ValueError, TypeError):
            continue
        found[verdict.key] = verdict
    return found


def judge(mutant: Mutant, tests: TestMap, budget: float, patience: float, tell: Tell) -> Callable[[Path], Job]:
    """A job that runs the module's own test file first, and then the other tests that run the function."""

    def job(copy: Path) -> Job:
        file = copy / PACKAGE / mutant.path
        source, before = file.read_bytes(), file.stat()
        file.write_bytes(mutant.apply(source))
        os.utime(file, (moment := next(_TIMES), moment))
        try:
            killed, by = yield from _noticed(copy, tests, tests.tests_for(mutant, budget), patience)
            tell(Verdict(mutant.key, mutant.number, killed, by))
        finally:
            file.write_bytes(source)
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    return job


def _noticed(copy: Path, tests: TestMap, rounds: tuple[list[str], ...], patience: float) -> Noticing:
    failed = copy.parent / f"{copy.name}.failed"
    for chosen in filter(None, rounds):
        failed.unlink(missing_ok=True)
        files = list(dict.fromkeys(test.partition("::")[0] for test in chosen))
        seconds = sum(map(tests.seconds.__getitem__, chosen))

        def work(chosen: list[str] = chosen, files: list[str] = files) -> int:
            return run_pytest(copy, ["-x", *files], _Chosen(set(chosen), failed))

        code = yield work, patience + 4 * seconds
        if code not in NOTHING_NOTICED:
            said = failed.read_text() if failed.exists() else f"pytest exits with {code}"
            return True, said if code >= 0 else "too long"
    return False, f"{sum(map(len, rounds))} tests"


class _Chosen:
    """A pytest plugin that runs only these tests, and records the first that fails."""

    def __init__(self, tests: set[str], failed: Path) -> None:
        self.tests, self.failed = tests, failed

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self.tests]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed.exists():
            self.failed.write_text(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.failed.exists():
            self.failed.write_text(report.nodeid)
