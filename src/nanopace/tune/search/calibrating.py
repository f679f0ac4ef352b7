"""The machine's real peak, for whoever tunes: what is kept of it, or else measured now where there is time."""

from __future__ import annotations

from pathlib import Path

from nanopace.config import TrainConfig
from nanopace.hardware.calibration import Calibration, question, read_calibration, rows_for
from nanopace.ledger import RunEvent
from nanopace.tune.trial import run_module

_SECONDS = {True: 6.0, False: 1.0}  # of products, on a card and on a CPU
_BESIDE_S = 4.0  # to start, and to warm up
_TIMEOUT_S = 60.0


def calibrated(event: RunEvent, config: TrainConfig, left_s: float, folder: Path) -> Calibration | None:
    """None where it is not known, and there was no time to find out, or nowhere to keep it."""
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
