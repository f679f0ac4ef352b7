"""What the user reads about tuning, in every case."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from nanopace.hardware.calibration import Calibration
from nanopace.tune.search.knob_trials import KnobTrial
from nanopace.tune.search.micro_batch_search import Cost
from nanopace.tune.search.trial_runner import Tried
from nanopace.tune.search.tune import Change, Tuned
from nanopace.tune.search.tune_view import config_text, write
from nanopace.tune.shapley import Share
from nanopace.tune.trial import Outcome
from nanopace.wording.numbers import LANGUAGES

from ..printing import printed

FASTER = Share("after", math.log(1.5), 0.1)
FOUND = Tuned(
    settings={"batch_size": 16, "gradient_accumulation_steps": 4, "fp8": True, "dataset": "größe"},
    changes=(
        Change("batch_size", 4, 16, "micro_batch"),
        Change("gradient_accumulation_steps", 16, 4, "tokens_per_step"),
        Change("fp8", False, True, "faster"),
    ),
    gain=FASTER,
    tokens_per_second=(1000.0, 1500.0),
    sequences=64,
    block_size=1024,
    cost=Cost(2.5, 4.0),
    knobs=(
        KnobTrial("fp8", True, "kept", Share("after", math.log(1.2), 0.01)),
        KnobTrial("fused", False, "no_gain", Share("after", math.log(0.8), None)),
        KnobTrial("compile", True, "failed", said="no such thing"),
    ),
    trials=(
        Tried({}, 0, Outcome(failure=None, seconds=3.0, step_ms=(10.0, 11.0, 12.0), tokens_per_second=1000.0)),
        Tried({"batch_size": 64, "gradient_accumulation_steps": 1}, 0, Outcome(failure="memory", seconds=1.0)),
    ),
    complete=False,
    predicted_wall=128,
    found_out={
        "attention": "cudnn: 0.19 ms a layer (flash 0.27 ms, efficient 0.57 ms)",
        "evaluation": "64 sequences at a time: more do not make a card any faster",
    },
    data_share=0.03,
    gpu="NVIDIA H200",
    calibration=Calibration(
        "NVIDIA H200", "2.11", "bfloat16", "2026-01-01", 790.0, 610.0, {"qkv": 600.0}, 6.0, 1755.0, "power_cap,thermal"
    ),
    utilisation=0.7,
)


def flat(found: Tuned) -> str:
    return " ".join(printed(write, found).replace("\u00a0", " ").split())


def test_everything_that_was_found_is_said() -> None:
    text = flat(FOUND)
    for expected in (
        "1.500x as fast as the given config (1.357 to 1.658): 1.5k tokens/s against 1.0k.",
        "batch_size 4 → 16 the smallest micro-batch within 2% of the fastest",
        "so a step keeps its 65,536 tokens",
        "1.200x as fast with it (1.188 to 1.212)",
        "fused=False does not help: 0.800x in its one trial.",
        "compile=True fails to train: no such thing",
        "takes 2.50 ms at any size, plus 4.00 ms per sequence of 1,024 tokens",
        "Micro-batches of 128 or more were not tried",
        "The micro-batch search ran out of budget",
        "What the trainer finds out itself attention cudnn: 0.19 ms a layer (flash 0.27 ms, efficient 0.57 ms)",
        "evaluation 64 sequences at a time: more do not make a card any faster Steps spend 3.0% of their time "
        "waiting for data.",
        "Here, sustained bfloat16 matrix products reach 790 TFLOP/s, and 610 TFLOP/s",
        "The chosen config reaches 70.0% of the latter.",
        "The clock stayed at 1,755 MHz. It was throttled by: power_cap, thermal.",
        "as given 1.0k 11.0 ms",
        "batch_size=64 out of memory 1.00 s",
    ):
        assert expected in text


@pytest.mark.parametrize("lang", LANGUAGES)
def test_it_fits_into_eighty_columns(lang: str) -> None:
    assert max(map(len, printed(write, FOUND, lang).splitlines())) <= 80


def test_what_is_not_known_is_not_said() -> None:
    none = replace(
        FOUND,
        changes=(),
        gain=None,
        knobs=(),
        cost=None,
        complete=True,
        predicted_wall=None,
        calibration=None,
        gpu=None,
        found_out={},
    )
    text = flat(none)
    assert text.startswith("The given config is as fast as anything tried: 1.5k tokens/s.")
    for word in ("trainer", "attention", "data", "clock", "budget", "any size"):
        assert word not in text
    unclear = replace(FOUND, gain=Share("after", 0.01, 0.02))
    assert flat(unclear).startswith("As fast as the given config, as far as the trials show: 1.010x")
    too_large = replace(FOUND, gain=None, tokens_per_second=(None, 1500.0))
    assert flat(too_large).startswith(
        "The given config does not fit in memory; the chosen one trains at 1.5k tokens/s."
    )
    for verdict, expected in (("no_time", "budget is too short"), ("no_compiler", "there is no C++ compiler")):
        assert expected in flat(replace(none, knobs=(KnobTrial("compile", True, verdict),)))


def test_the_config_is_ascii_with_its_reasons() -> None:
    text = config_text(FOUND, "train.py")
    assert text.isascii()
    assert text.startswith("# train.py, tuned: nanopace tune.\n# 1.500x as fast")
    assert "fp8 = True  # 1.200x as fast with it (1.188 to 1.212), was False\n" in text
    assert "dataset = 'gr\\xf6\\xdfe'\n" in text
    assert config_text(FOUND, None).startswith("# what nanopace train chooses, tuned")


def test_a_machine_that_does_other_things_is_named() -> None:
    again = Tried({}, 1, Outcome(failure=None, seconds=3.0, step_ms=(20.0,), tokens_per_second=1100.0))
    assert "something else is running here" not in flat(replace(FOUND, trials=(*FOUND.trials, again)))
    slow = replace(again, outcome=replace(again.outcome, tokens_per_second=500.0))
    assert "Trials of the same setting differ by up to 2.00x" in flat(replace(FOUND, trials=(*FOUND.trials, slow)))


def test_one_thread_is_enough_where_nothing_waits_for_it() -> None:
    assert "0.9% of their time waiting for data: one loader thread is enough." in flat(replace(FOUND, data_share=0.009))
    assert "waiting for data" not in flat(replace(FOUND, data_share=None))
