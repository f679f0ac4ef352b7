"""Scripts in bench/ import each other by their bare names, and the run builders from tests/evidence."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench"), str(ROOT)]  # at the end, so that they hide nothing
