"""The scripts of bench/ import each other by their bare names, and the builders of runs from tests/evidence."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench"), str(ROOT)]  # at the end: none of them shall hide anything
