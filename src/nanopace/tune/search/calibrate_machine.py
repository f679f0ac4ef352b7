"""The peak that this machine really reaches: as measured before, or measured now if the budget allows."""

from __future__ import annotations

from pathlib import Path

from nanopace.config import TrainConfig
from nanopace.hardware.calibration import Calibration, question, read_calibration, rows_for
from nanopace.ledger import RunEvent
from nanopace.tune.trial import run_module

_SECONDS = {True: 6.0, False: 1.0}  # of matrix products, on a card and on a CPU
_BESIDE_S = 4.0  # to start and warm up
_TIMEOUT_S = 60.0


def calibrate_machine(event: RunEvent, config: TrainConfig, left_s: float, folder: Path) -> Calibration | None:
    """The calibration; None if it is not known yet and there is no time to measure or nowhere to store it."""
    on_a_card = event.gpu is not None
    rows = rows_for(on_a_card, config.batch_size * config.block_size, config.vocab_size)
    shape = (config.n_layer, config.n_embd, config.vocab_size, rows)
    asked = question(event.gpu or "cpu", event.torch or "", config.dtype, *shape)
    known = read_calibration(asked)
    if known is not None or left_s < _SECONDS[on_a_card] + _BESIDE_S:
        return known
    arguments = [config.device, config.dtype, *map(str, shape), str(_SECONDS[on_a_card])]
    run_module("nanopace.train.calibrate", arguments, folder / "calibrate.txt", _TIMEOUT_S)
    return read_calibration(asked)
