"""A run that is killed repeatedly with SIGKILL ends up bit-identical to one that was never killed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from nanopace.train.checkpoint.layout import checkpoint_directories, verified

from .. import fork_server

KILLING = Path(__file__).parents[1] / "killing.py"


def killed(corpus: Path, folder: Path, *flags: str) -> dict[str, Any]:
    """What happened. Killed processes leave nothing for coverage to count."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    command = [sys.executable, str(KILLING), str(corpus), str(folder), *flags]
    done = fork_server.run(command, env={**environment, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    tally: dict[str, Any] = json.loads(done.stdout)
    return tally


@pytest.mark.slow
def test_kills_at_any_moment_change_nothing(corpus: Path, tmp_path: Path) -> None:
    """Losses, evaluations, weights, averages and files; no temporary files pile up, and the ledger can be read.

    The seed decides at which moments; `bench/kill.py` has hundreds of them.
    """
    forked = killed(corpus, tmp_path, "--kills", "40")
    assert forked["kills"] >= 40
    assert forked["left"][".writing"] >= 10  # killed while writing a checkpoint: an unfinished one was left
    assert forked["left"][".removing"] >= 3
    assert any(forked["resumed_from"])
    assert forked["differences"] == []
    real = killed(corpus, tmp_path / "real", "--kills", "2", "--real", "--like", str(tmp_path / "whole"))
    assert real["kills"] >= 2
    assert real["differences"] == []
    for out in (tmp_path / "whole", tmp_path / "killed-0", tmp_path / "real" / "killed-0"):
        assert [verified(each).step for each in checkpoint_directories(out)] == [43, 42]
