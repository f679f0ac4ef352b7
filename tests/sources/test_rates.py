"""Learning rates: kept of every format that prints them, thinned out, and taken back when a run goes back."""

from __future__ import annotations

from copy import copy
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.sources.bulk.nanochat import feed_bulk_nanochat
from nanopace.sources.formats.table import NANOCHAT
from nanopace.sources.rates import Rates, printed_rate

from .formats.test_every_example import EXAMPLES
from .reading import plain, read, read_one, runs_of


def rates_of(*added: tuple[int, float]) -> Rates:
    rates = Rates()
    for iteration, rate in added:
        rates.add(iteration, rate)
    return rates


@given(st.integers(1, 5000), st.integers(1, 50))
def test_a_few_hundred_are_kept_and_both_ends(count: int, every: int) -> None:
    added = [(k * every, 1 / (k + 1)) for k in range(count)]
    kept = rates_of(*added).in_order()
    assert len(kept) <= 512
    assert set(kept) <= set(added)
    assert (kept[0], kept[-1]) == (added[0], added[-1])
    if count > 2:
        gaps = [after[0] - before[0] for before, after in pairwise(kept[:-1])]
        assert max(gaps, default=0) <= max(every, 2 * count * every // 128)


def test_a_run_that_goes_back_repeats_its_rates() -> None:
    rates = rates_of((0, 1.0), (10, 0.9), (20, 0.8), (30, 0.7))
    before = copy(rates)
    rates.add(15, 0.5)
    assert rates.in_order() == ((0, 1.0), (10, 0.9), (15, 0.5))
    assert before.in_order()[-1] == (30, 0.7)
    rates.add_all(rates_of((10, 0.3), (20, 0.2)))
    assert rates.in_order() == ((0, 1.0), (10, 0.3), (20, 0.2))


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("| lr 8.57e-07 | 230 ms", 8.57e-7),
        ("s:1 trl:6.3 lr:0.000600 norm:0.8", 6e-4),
        (" learning rate: 1.500E-04 |", 1.5e-4),
        ("| lr 0.00 | 230 ms", 0.0),
        ("| blr 3 |", None),
        ("| lr nan |", None),
        ("lr_scheduler 3", None),
        ("no rate", None),
    ],
)
def test_a_rate_in_a_row(text: str, rate: float | None) -> None:
    assert printed_rate(text) == rate


@pytest.mark.parametrize(
    ("format", "first"),
    [
        ("build_nanogpt", (0, 8.3916e-07)),
        ("llama2c", (0, 0.0)),
        ("llmc", None),
        ("llmc_python", None),
        ("llmc_log", None),
        ("megatron", None),
        ("hf_trainer_state", (10, 5e-05)),
        ("hf_console", (10, 5e-05)),
        ("llama_factory", None),
    ],
)
def test_every_format_that_prints_them(format: str, first: tuple[int, float] | None) -> None:
    data: Any = EXAMPLES[format]
    (run, *_) = read(data)
    assert run.rates
    assert first in (None, run.rates[0])
    assert all(0 <= rate < 0.1 for _, rate in run.rates)


def chat(rates: list[float]) -> str:
    return "".join(
        f"step {k:05d}/01000 ({k / 10:.2f}%) | loss: 3.100000 | lrm: {rate:.2f} | dt: 100.00ms | tok/sec: 5,000 "
        f"| mfu: 20.00 | total time: 1.00m\n"
        for k, rate in enumerate(rates)
    )


def test_nanochats_multiplier_plainly_and_in_bulk() -> None:
    text = chat([1.0] * 60 + [0.5] * 20)
    (run,) = runs_of(NANOCHAT, plain, text)
    assert run.rates[0] == (0, 1.0)
    assert run.rates[60:] == tuple((k, 0.5) for k in range(60, 80))
    (bulk,) = runs_of(NANOCHAT, feed_bulk_nanochat, text)
    assert bulk.rates
    assert bulk.rates[-1] == (79, 0.5)
    assert set(bulk.rates) <= set(run.rates)


def test_a_trackers_series() -> None:
    table = "epoch,step,train_loss,learning_rate\n" + "".join(f"0,{n},2.5,{2.0**-n}\n" for n in range(1, 4))
    run = read_one(table)
    assert run.rates == ((1, 0.5), (2, 0.25), (3, 0.125))
    assert read_one(table.replace("learning_rate", "gradient")).rates == ()
