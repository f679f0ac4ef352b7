"""The scripts of bench/ import each other by their bare names."""

from __future__ import annotations

import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.append(str(BENCH))  # at the end: none of them shall hide anything
