"""Measures which functions each test runs and how long it takes, once per test file, and keeps the results.

Functions rather than lines, because they stay valid when a file is edited. Processes that a test starts count, too."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import coverage
import pytest

from mutation.children import run_pytest
from mutation.operators import Mutant, functions_of

PACKAGE = Path("src/nanopace")
FILE_S = 0.3  # to collect one more test file
SETTINGS = """[run]
source = {source}
data_file = {data}
context = ${{MUTATE_TEST-}}
parallel = true
disable_warnings = module-not-imported, no-data-collected, module-not-measured
"""


@dataclass
class TestMap:
    """The tests that pass without a mutant."""

    seconds: dict[str, float] = field(default_factory=dict)  # per test
    runs: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # function: tests
    modules: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # path: tests

    def tests_for(self, mutant: Mutant, budget: float) -> tuple[list[str], list[str]]:
        """The tests in the file named after the module, and then the quickest others, up to `budget` seconds."""
        able = self.modules[mutant.path]
        if mutant.function and (runs := self.runs.get(f"{mutant.path}:{mutant.function}")):
            able = set(runs)
        named = f"test_{Path(mutant.path).stem}.py"
        first = [test for test in self.seconds if Path(test.partition("::")[0]).name == named]
        chosen: list[str] = []
        files: set[str] = set()
        for test in sorted(able.difference(first), key=self.seconds.__getitem__):
            file = test.partition("::")[0]
            budget -= self.seconds[test] + (0 if file in files else FILE_S)
            if budget < 0:
                break
            files.add(file)
            chosen.append(test)
        return first, chosen


def read(cache: Path, files: Iterable[str]) -> TestMap:
    tests = TestMap()
    for file in files:
        measured = json.loads(_place(cache, file).read_text())
        tests.seconds.update(measured["seconds"])
        for function, those in measured["runs"].items():
            tests.runs[function] += those
            tests.modules[function.partition(":")[0]].update(those)
    return tests


def is_fresh(cache: Path, root: Path, file: str) -> bool:
    place = _place(cache, file)
    return place.exists() and json.loads(place.read_text())["hash"] == _hash(root / file)


def measure(copy: Path, cache: Path, file: str) -> int:
    """Run a test file in a child, and record what each test ran."""
    data = copy.parent / f"{copy.name}.coverage"
    data.mkdir(exist_ok=True)
    for old in data.iterdir():
        old.unlink()
    settings = data / "settings"
    settings.write_text(SETTINGS.format(source=copy / PACKAGE, data=data / "lines"))
    os.environ["COVERAGE_PROCESS_START"] = str(settings)  # for processes that a test starts
    measuring = coverage.Coverage(config_file=str(settings))
    coverage.Coverage.current = lambda: None  # type: ignore[method-assign] # conftest would pause it for long tests
    recorder = _Recorder(measuring)
    measuring.start()
    code = run_pytest(copy, [file], recorder)
    measuring.stop()
    measuring.save()
    seconds = {test: round(s, 3) for test, s in recorder.seconds.items() if test not in recorder.failed}
    _write(copy, cache, file, seconds, _only(_runs(copy, data, recorder.names), seconds))
    return code


def leave_out(copy: Path, cache: Path, file: str) -> None:
    """Record a test file that takes too long, or crashes Python, as empty."""
    _write(copy, cache, file, {}, {})


def _write(copy: Path, cache: Path, file: str, seconds: dict[str, float], runs: dict[str, list[str]]) -> None:
    place = _place(cache, file)
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_suffix(".part")
    part.write_text(json.dumps({"hash": _hash(copy / file), "seconds": seconds, "runs": runs}))
    part.replace(place)


class _Recorder:
    """A pytest plugin that tells coverage which test runs, and records the results."""

    def __init__(self, measuring: coverage.Coverage) -> None:
        self.measuring = measuring
        self.names: dict[str, str] = {}  # context: test
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        context = f"t{len(self.names)}"
        self.names[context] = item.nodeid
        os.environ["MUTATE_TEST"] = context
        self.measuring.switch_context(context)
        began = time.monotonic()
        result = yield
        self.seconds[item.nodeid] = time.monotonic() - began
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.failed.add(report.nodeid)


def _runs(copy: Path, data: Path, names: dict[str, str]) -> dict[str, set[str]]:
    runs: dict[str, set[str]] = defaultdict(set)
    functions: dict[str, dict[int, str]] = {}
    for part in data.glob("lines*"):
        lines = coverage.CoverageData(str(part))
        lines.read()
        for path in (each for each in lines.measured_files() if each.endswith(".py")):  # jinja2 runs templates
            name = Path(path).relative_to(copy / PACKAGE).as_posix()
            if name not in functions:
                functions[name] = functions_of(Path(path).read_bytes())
            for number, contexts in lines.contexts_by_lineno(path).items():
                if number in functions[name]:
                    known = (names[each] for each in contexts if each in names)
                    runs[f"{name}:{functions[name][number]}"].update(known)
    return runs


def _only(runs: dict[str, set[str]], passed: dict[str, float]) -> dict[str, list[str]]:
    kept = {function: sorted(tests & passed.keys()) for function, tests in runs.items()}
    return {function: tests for function, tests in kept.items() if tests}


def _place(cache: Path, file: str) -> Path:
    return cache / "map" / f"{file.replace('/', '+')}.json"


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
