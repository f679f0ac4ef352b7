"""Epochs that no training prints: they say nothing, and break nothing."""

from __future__ import annotations

import pytest

from nanopace.sources.formats.hugging_face.steps_of_epochs import Epochs, Known, steps_of_logs


@pytest.mark.parametrize("epoch", ["1e999", "1e-999", "9e400", "1.5e308", "1e-320", "nan", "0", "1e8"])
@pytest.mark.parametrize("last", ["1e999", "1e-320", "1e-999", "0.0", "1e8", "2.0"])
def test_any_number_may_be_printed_as_an_epoch(epoch: str, last: str) -> None:
    assert steps_of_logs([epoch, epoch, last], Known(10, 10, last), 10.0) is None
    epochs = Epochs()
    epochs.add(10, last)
    assert epochs.allow(5, epoch) in (True, False)
    assert (epochs.exact(epoch) or 0) >= 0


def test_an_epoch_that_spans_nothing() -> None:
    assert steps_of_logs(["0.0", "0.0"], Known(1e11, 1e11, "1e-300"), 1e11) is None
