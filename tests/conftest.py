"""What several tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest
from hypothesis import settings

settings.register_profile("side by side", deadline=None)  # a busy core is slow, and no property is about that
settings.load_profile("side by side")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: the tests run side by side, one to a core
if not Path("/proc/driver/nvidia/version").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before triton is: without a card its kernels run as Python

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_logs() -> Path:
    """Real logs that stand beside a working copy; a fresh clone has none."""
    folder = ROOT.parent / "shared" / "logs"
    if not folder.is_dir():
        pytest.skip("no real logs beside this working copy")
    return folder


@pytest.fixture
def untraced() -> Iterator[None]:
    """Coverage makes Python four to six times slower, and it is not coverage that is timed."""
    measuring = coverage.Coverage.current()
    if measuring is not None:
        measuring.stop()
    yield
    if measuring is not None:
        measuring.start()
