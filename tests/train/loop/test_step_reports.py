from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from nanopace.train.loop.parts import Flops
from nanopace.train.loop.step_reports import StepReports


def test_the_usual_step_is_the_median_of_the_last_thousand() -> None:
    parts = SimpleNamespace(
        plan=SimpleNamespace(device=torch.device("cpu")),
        recent=(),
        scaler=torch.amp.GradScaler("cpu", enabled=False),
        flops=Flops(per_step=1000.0, measured=1e6),
    )
    reports = StepReports(cast(Any, parts), cast(Any, None), lambda: False)
    assert reports.utilisation is None
    reports._ms.extend([1.0] * 1500 + [3.0] * 500)
    assert reports.utilisation == pytest.approx(1000 / 2e-3 / 1e6)
