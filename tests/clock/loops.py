"""What the tests of clocks read and start."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from nanopace.ledger import StepEvent

from .hands import ledger_of


def steps_of(path: Path) -> list[StepEvent]:
    return [event for event in ledger_of(path).events if isinstance(event, StepEvent)]


def run_python(code: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
