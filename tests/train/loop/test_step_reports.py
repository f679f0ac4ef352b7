from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from nanopace.train.loop.step_reports import Reporter


def test_the_usual_step_is_the_median_of_the_last_thousand() -> None:
    parts = SimpleNamespace(
        device=torch.device("cpu"),
        recent=(),
        scaler=torch.amp.GradScaler("cpu", enabled=False),
        measured_flops=1e6,
        flops_per_step=1000.0,
    )
    reporter = Reporter(cast(Any, parts), cast(Any, None), lambda: False)
    assert reporter.utilisation is None
    reporter._ms.extend([1.0] * 1500 + [3.0] * 500)
    assert reporter.utilisation == pytest.approx(1000 / 2e-3 / 1e6)
