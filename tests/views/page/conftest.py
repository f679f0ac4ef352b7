"""The runs whose pages are looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from nanopace.diagnosis.compare.compare import compare
from nanopace.diagnosis.comparison import Comparison
from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Diagnosis
from nanopace.sources.runs import open_runs

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def run() -> Diagnosis:
    return diagnose(open_runs(EXAMPLES / "slow-rows.log")[0])


@pytest.fixture(scope="module")
def known() -> Diagnosis:
    """A run whose card and tokens are known."""
    return diagnose(open_runs(EXAMPLES / "wide-header.log", gpu="RTX 4070")[0])


@pytest.fixture(scope="module")
def pair(known: Diagnosis) -> Comparison:
    narrow = open_runs(EXAMPLES / "narrow.log", config=EXAMPLES / "narrow.py", gpu="RTX 4070")[0]
    return compare(diagnose(narrow), known)
