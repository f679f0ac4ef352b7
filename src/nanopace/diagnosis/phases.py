"""What training and start-up were made of, where the trainer measured it (our ledger)."""

from __future__ import annotations

from nanopace.diagnosis.result import Phases
from nanopace.run import Phase, Run


def find_phases(run: Run) -> Phases | None:
    """None where nothing was measured: a log of rows does not know what a row is made of."""
    if not any(span.phase == "step" for span in run.spans):
        return None

    def seconds(*phases: Phase) -> float:
        return sum(span.ms for span in run.spans if span.phase in phases and not span.background) / 1000

    background = sum(save.background_ms or 0.0 for save in run.checkpoints)
    return Phases(
        data_s=seconds("data"),
        forward_backward_s=seconds("step"),
        optimizer_s=seconds("optimizer"),
        startup_s=seconds("startup"),
        compile_s=seconds("compile"),
        logging_s=seconds("logging"),
        other_s=seconds("other"),
        checkpoint_background_s=background / 1000,
    )
