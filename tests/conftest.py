"""What several tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: the tests run side by side, one to a core

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_logs() -> Path:
    """Real logs that stand beside a working copy; a fresh clone has none."""
    folder = ROOT.parent / "shared" / "logs"
    if not folder.is_dir():
        pytest.skip("no real logs beside this working copy")
    return folder
