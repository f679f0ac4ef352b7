from __future__ import annotations

from pathlib import Path

import pytest

from .recipe_runs import run


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, shared_corpus: Path) -> Path:
    """A run of ten steps; the newest checkpoint is of step 11."""
    out = tmp_path_factory.mktemp("trained") / "out"
    run(shared_corpus, out, max_iters=10, always_save_checkpoint=False)
    return out
