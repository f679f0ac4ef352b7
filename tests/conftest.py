"""What several tests share."""

from __future__ import annotations

import importlib
import multiprocessing.util
import os
import pkgutil
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import coverage
import pytest
import xdist
from hypothesis import is_hypothesis_test, settings

import nanopace
from nanopace.diagnosis import invariants

from .sources.nanochat_logs import Program, speedrun

# A busy core is slow, which no property is about. CI tries the same examples every time, so that only a change can
# break it; elsewhere they are new each time, which finds more.
settings.register_profile("side by side", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("side by side")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: tests run in parallel, one per core
if not Path("/proc/driver/nvidia/version").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before importing triton: its kernels then run as Python

invariants.strict = True  # an impossible figure fails the test instead of being left out

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_logs() -> Path:
    """Real logs next to a working copy; a fresh clone has none."""
    folder = ROOT.parent / "shared" / "logs"
    if not folder.is_dir():
        pytest.skip("no real logs beside this working copy")
    return folder


@pytest.fixture
def write_speedrun(tmp_path: Path) -> Callable[..., str]:
    """Writes what nanochat's programs print, given a description of each, and returns the path."""

    def write(name: str, *programs: dict[str, Any]) -> str:
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in speedrun(*(Program(**program) for program in programs))))
        return str(path)

    return write


@contextmanager
def _untraced() -> Iterator[coverage.Coverage | None]:
    """Coverage makes Python two to six times slower."""
    measuring = coverage.Coverage.current()
    if measuring is not None:
        measuring.stop()
        measuring._warn_preimported_source = False  # otherwise it fails on torch's modules when it restarts
    try:
        yield measuring
    finally:
        if measuring is not None:
            measuring.start()


@pytest.fixture
def untraced() -> Iterator[None]:
    """For timed code, so that coverage is not timed, and for long work whose lines shorter tests run, too."""
    with _untraced():
        yield


def pytest_xdist_auto_num_workers() -> int:
    """Many tests wait for processes, browsers and disks: another one can run meanwhile."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Most of the work is pytest's, which rewrites every assert. Our own modules run their first lines before that."""
    with _untraced() as measuring:
        if measuring is not None and not xdist.is_xdist_controller(session):
            import torch  # noqa: F401 (thousands of files, and none of them ours)

            measuring.start()
            for module in pkgutil.walk_packages(nanopace.__path__, "nanopace."):
                if not module.name.endswith("__main__"):
                    importlib.import_module(module.name)
            measuring.stop()
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Coverage measures plain tests, not properties, which run the same lines a hundred times, and only by luck."""
    if not is_hypothesis_test(getattr(item, "obj", None)):
        return (yield)
    with _untraced():
        return (yield)


# --- `make test-quick`: the unit tests alone -------------------------------------------------------------------------

# Prefixes of tests that nearly all train, or start processes or a browser; others are marked individually.
SLOW = (
    *("browser/", "frozen/", "nanogpt_readme/", "power/"),
    *("train/test_", "train/fused/", "train/loop/", "train/kernels/test_targets.py", "train/models/test_recipe"),
    *(f"train/checkpoint/test_{name}.py" for name in ("best", "choose", "disk", "kill", "lock", "run_dir")),
    *("train/checkpoint/test_two_trainings.py", "train/plan/test_changed_settings.py"),
    *(f"train/formats/test_{name}" for name in ("nanogpt_run", "huggingface", "foreign_files")),
    *("train/models/test_fast.py::test_the_compiler", "train/plan/test_nanogpt_knobs.py::test_every_choice"),
    *("train/plan/test_device.py::test_what_was_chosen", "train/plan/test_settings.py::test_two_minutes"),
    *("train/checkpoint/test_state_checks.py::test_every_value", "train/checkpoint/test_reassemble.py::test_the_parts"),
    *("train/optim/test_bf16_adamw.py", "train/kernels/test_fp8.py::test_the_ledger"),
    *("diagnosis/time/test_pace_findings.py::test_noise", "diagnosis/time/test_pace_findings.py::test_a_change_where"),
    *("diagnosis/time/test_rows.py::test_a_hundred", "diagnosis/test_curves.py::test_a_long_run"),
    *("sources/test_open_runs.py::test_endless", "sources/bulk/test_nanogpt.py::test_a_folded"),
    *("cli/commands/test_train.py", "cli/commands/test_tune.py", "cli/test_configs_of_nanogpt.py"),
    *("cli/test_streams.py", "cli/test_foreign_directory.py", "views/page/test_notebook.py::test_a_long_run"),
)
MOST_CPU_S = 2.0  # of a unit test

_began = pytest.StashKey[float]()


def _quick_only(config: pytest.Config) -> bool:
    return "not slow" in config.option.markexpr


def _is_slow(name: str) -> bool:
    return name.startswith(tuple(f"tests/{each}" for each in SLOW))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files with only slow tests need not even be imported."""
    slow = collection_path.suffix == ".py" and _is_slow(collection_path.relative_to(ROOT).as_posix())
    return True if slow and _quick_only(config) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A property is slow, too: it runs a hundred times."""
    for item in items:
        if _is_slow(item.nodeid) or is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker("slow")


@pytest.fixture(scope="session", autouse=True)
def unit_tests_start_no_process(pytestconfig: pytest.Config) -> Iterator[None]:
    """In the quick run, a test that tries to start a process is skipped at that point."""

    def skip(*_: object, **__: object) -> None:
        pytest.skip("starts a process")

    with pytest.MonkeyPatch.context() as patch:
        if _quick_only(pytestconfig):
            patch.setattr(subprocess.Popen, "__init__", skip)
            patch.setattr(multiprocessing.util, "spawnv_passfds", skip)
            patch.setattr(os, "fork", skip)
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[_began] = time.process_time()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """A test in the quick run fails if it is slow."""
    result = yield
    took = time.process_time() - item.stash[_began]
    if _quick_only(item.config) and took > MOST_CPU_S:
        pytest.fail(f"not a unit test, since it takes {took:.1f} s of CPU time: mark it slow", pytrace=False)
    return result
