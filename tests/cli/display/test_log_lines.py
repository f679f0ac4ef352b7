"""The lines are frozen: people's scripts read them, and so does our own analyst."""

from __future__ import annotations

import math
import re
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.cli.display import log_lines
from nanopace.version import __version__
from nanopace.wording.catalog import words

from ..sample_events import checkpoint, evaluation, introduction, outcome, step

# As in people's scripts for nanoGPT.
NANOGPT_ROW = re.compile(r"^iter (\d+): loss ([\d.]+|nan|inf), time ([\d.]+)ms, mfu (-?[\d.]+)%")
NANOGPT_EVALUATION = re.compile(r"^step (\d+): train loss ([\d.]+), val loss ([\d.]+)")


def test_the_introduction() -> None:
    assert list(log_lines.introduction(introduction(), words())) == [
        f"nanopace {__version__} train: out, 65,536 tokens a step, steps 0 to 2000",
        "  device: cpu: found no CUDA card",
    ]


@pytest.mark.parametrize(
    ("known", "line"),
    [
        ({}, "iter 100: loss 3.2841, time 168.65ms, mfu 41.20%, 388592 tok/s, norm 0.84, lr 6.00e-04"),
        ({"mfu": None}, "iter 100: loss 3.2841, time 168.65ms, mfu n/a, 388592 tok/s, norm 0.84, lr 6.00e-04"),
        ({"grad_norm": None}, "iter 100: loss 3.2841, time 168.65ms, mfu 41.20%, 388592 tok/s, lr 6.00e-04"),
        (
            {"loss": math.nan, "grad_norm": math.inf},
            "iter 100: loss nan, time 168.65ms, mfu 41.20%, 388592 tok/s, norm inf, lr 6.00e-04",
        ),
        (
            {"loss": math.nan, "skipped": True},
            "iter 100: loss nan, time 168.65ms, mfu 41.20%, skipped, 388592 tok/s, norm 0.84, lr 6.00e-04",
        ),
        (
            {"spike": 8.26},
            "iter 100: loss 3.2841, time 168.65ms, mfu 41.20%, spike 8.3σ, 388592 tok/s, norm 0.84, lr 6.00e-04",
        ),
        ({"ms": 0.0}, "iter 100: loss 3.2841, time 0.00ms, mfu 41.20%, 0 tok/s, norm 0.84, lr 6.00e-04"),
    ],
)
def test_a_row(known: dict[str, Any], line: str) -> None:
    mfu = known.pop("mfu", 0.412)
    assert log_lines.step(step(**known), mfu) == line


def test_the_mfu_is_of_the_real_peak_where_that_is_known() -> None:
    assert introduction().mfu(step()) == pytest.approx(0.412)
    assert introduction(peak_flops=None).mfu(step()) is None
    assert introduction().mfu(step(ms=0.0)) is None


@pytest.mark.parametrize(
    ("width", "ends"),
    [(90, "norm 0.84, lr 6.00e-04"), (80, "388592 tok/s, norm 0.84"), (60, "mfu 41.20%"), (20, "mfu 41.20%")],
)
def test_a_row_on_a_narrow_terminal(width: int, ends: str) -> None:
    row = log_lines.step(step(), 0.412)
    fitted = log_lines.fitting_row(row, width)
    assert fitted.endswith(ends)
    assert row.startswith(fitted)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            "  dtype: float32: as in nanoGPT on a CPU; torch finds nothing else",
            "  dtype: float32: as in nanoGPT on a\n    CPU; torch finds nothing else",
        ),
        (
            "interrupted after 812 steps; resume with: nanopace train --init_from=resume --out_dir=out",
            "interrupted after 812 steps; resume\n  with:\n  nanopace train --init_from=resume --out_dir=out",
        ),
        ("could not save", "could not save"),
    ],
)
def test_a_line_on_a_narrow_terminal(line: str, shown: str) -> None:
    assert log_lines.wrapped(line, 40) == shown


@pytest.mark.parametrize(
    ("known", "line"),
    [
        (
            {},
            "step 250: train loss (last 250 steps) 3.3121, val loss 3.2841, time 812.40ms, val error 0.0031, "
            "train error 0.0103, 0.9871 bits per byte, change -0.0312 (error 0.0009)",
        ),
        (
            {"train": None, "train_error": None, "train_steps": None},
            "step 250: val loss 3.2841, time 812.40ms, val error 0.0031, 0.9871 bits per byte, "
            "change -0.0312 (error 0.0009)",
        ),
        (
            {"train_steps": None, "bits_per_byte": None, "change": None, "change_error": None},
            "step 250: train loss 3.3121, val loss 3.2841, time 812.40ms, val error 0.0031, train error 0.0103",
        ),
        (
            {"train_error": None, "train_steps": 1, "change": 0.5, "change_error": None},
            "step 250: train loss (last 1 step) 3.3121, val loss 3.2841, time 812.40ms, val error 0.0031, "
            "0.9871 bits per byte, change +0.5000",
        ),
    ],
)
def test_an_evaluation(known: dict[str, Any], line: str) -> None:
    assert log_lines.evaluation(evaluation(**known)) == line


@given(st.floats(0, 100), st.floats(0.01, 1e7), st.floats(0, 2))
def test_scripts_for_nanogpt_go_on_working(loss: float, ms: float, mfu: float) -> None:
    row = NANOGPT_ROW.match(log_lines.step(step(loss=loss, ms=ms), mfu))
    assert row
    assert [float(value) for value in row.groups()] == pytest.approx([100, loss, ms, 100 * mfu], abs=0.00501)
    found = NANOGPT_EVALUATION.match(log_lines.evaluation(evaluation(train=loss, train_steps=None)))
    assert found
    assert [float(value) for value in found.groups()] == pytest.approx([250, loss, 3.2841], abs=0.00005)


def test_no_script_takes_the_loss_of_the_steps_for_nanogpts() -> None:
    assert NANOGPT_EVALUATION.match(log_lines.evaluation(evaluation(train_steps=250))) is None


@pytest.mark.parametrize(
    ("count", "size"), [(1_483_047_936, "1.48 GB"), (12_345_678, "12.35 MB"), (98_765, "98.77 kB"), (0, "0.00 kB")]
)
def test_a_checkpoint(count: int, size: str) -> None:
    line = f"saved out/checkpoints/step-00000250, time 12.30ms, in the background 1840.00ms, {size}"
    assert log_lines.saved(checkpoint(bytes=count)) == line


@pytest.mark.parametrize(
    ("known", "line"),
    [
        ({}, "finished after 2000 steps in 2 min 3 s, 0.012 kWh"),
        ({"energy_kwh": None}, "finished after 2000 steps in 2 min 3 s"),
        ({"wall_ms": 8_040.0, "energy_kwh": 0.000321}, "finished after 2000 steps in 8.0 s, 0.00032 kWh"),
        ({"wall_ms": 59_960.0, "energy_kwh": 0.0}, "finished after 2000 steps in 1 min 0 s, 0.000 kWh"),
        ({"wall_ms": 97_385_400.0, "energy_kwh": 18.25}, "finished after 2000 steps in 27 h 3 min 5 s, 18.250 kWh"),
        (
            {"reason": "interrupted", "iteration": 812},
            "interrupted after 812 steps; resume with: nanopace train --init_from=resume --out_dir=out",
        ),
        ({"reason": "interrupted", "iteration": 3, "checkpoint": None}, "interrupted after 3 steps; nothing was saved"),
    ],
)
def test_the_end(known: dict[str, Any], line: str) -> None:
    assert log_lines.outcome(outcome(**known), "out", words()) == line


@pytest.mark.parametrize(("peak", "shown"), [(0.029771, "0.0298"), (58.44, "58.4"), (789.6, "790"), (2250.4, "2,250")])
def test_the_share_of_what_was_measured_has_a_line_of_its_own(peak: float, shown: str) -> None:
    (line,) = log_lines.utilisation(outcome(utilisation=0.5412, measured_tflops=peak), words())
    assert line == f"a typical step reaches 54.1% of the {shown} TFLOP/s that nanopace tune measured here"
    assert not [*log_lines.utilisation(outcome(), words())]
    assert not [*log_lines.utilisation(outcome(measured_tflops=peak), words())]  # no step was done


def test_what_rows_leave_out_is_said_where_it_is_to_be_seen() -> None:
    (line,) = log_lines.left_out(outcome(logging=0.0934), words())
    assert line == "the times above leave out logging, which took 9.3% on top of them"
    assert not [*log_lines.left_out(outcome(logging=0.0099), words())]


@given(st.text(min_size=1).filter(str.isprintable))
def test_the_way_to_go_on_can_be_pasted_into_a_shell(out_dir: str) -> None:
    line = log_lines.outcome(outcome(reason="interrupted"), out_dir, words())
    command = shlex.split(line.partition("resume with: ")[2])
    assert command == ["nanopace", "train", "--init_from=resume", f"--out_dir={out_dir}"]


def test_a_name_breaks_no_line_and_moves_no_cursor() -> None:
    odd = "a\nb\x1b[2Jc"
    lines = [*log_lines.introduction(introduction(out_dir=odd, choices={odd: odd}), words())]
    lines += [log_lines.saved(checkpoint(path=odd)), log_lines.outcome(outcome(reason="interrupted"), odd, words())]
    assert len(lines) == 4
    assert all(line.isprintable() for line in lines)
