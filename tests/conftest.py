"""What several tests share."""

from __future__ import annotations

import importlib
import os
import pkgutil
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

# A busy core is slow, and no property is about that. CI tries the same examples every time, so that only a change can
# break it; everywhere else they are new ones each time, which finds more.
settings.register_profile("side by side", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("side by side")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: the tests run side by side, one to a core
if not Path("/proc/driver/nvidia/version").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before triton is: without a card its kernels run as Python

invariants.strict = True  # a figure that cannot be fails the test, instead of being left out

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_logs() -> Path:
    """Real logs that stand beside a working copy; a fresh clone has none."""
    folder = ROOT.parent / "shared" / "logs"
    if not folder.is_dir():
        pytest.skip("no real logs beside this working copy")
    return folder


@pytest.fixture
def write_speedrun(tmp_path: Path) -> Callable[..., str]:
    """Writes what nanochat's programs print, each given by what it is like, and returns the path."""

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
        measuring._warn_preimported_source = False  # else it stumbles over torch's modules when it starts again
    try:
        yield measuring
    finally:
        if measuring is not None:
            measuring.start()


@pytest.fixture
def untraced() -> Iterator[None]:
    """For what is timed, since it is not coverage that is, and for long work whose lines shorter tests run, too."""
    with _untraced():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Most of it is pytest, which rewrites every assert. Our own modules run their first lines before that."""
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
    """A property runs a hundred times, and with luck, what plain tests run once and surely: those are measured."""
    if not is_hypothesis_test(getattr(item, "obj", None)):
        return (yield)
    with _untraced():
        return (yield)
