"""Where a run ends that is not over, next to a finished one."""

from __future__ import annotations

import math
import random
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from nanopace import open_run
from nanopace.diagnosis.compare.align import Curve
from nanopace.diagnosis.compare.compare import compare
from nanopace.diagnosis.compare.outlook import end_of
from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Diagnosis, Finding
from nanopace.record import replace

END, EVERY = 2000, 100
KNOBS = {"batch_size": 8, "block_size": 64, "gradient_accumulation_steps": 1, "max_iters": END, "warmup_iters": 50}


def loss_at(iteration: int, factor: float = 1.0) -> float:
    """Falls along a power law, and faster near the end, as with a cosine."""
    return factor * (2.5 + 20 / math.sqrt(max(iteration, 20)) - 0.3 * (iteration / END) ** 2)


def curve(factor: float = 1.0, until: int = END, noise: float = 0.0, seed: int = 0) -> Curve:
    rng = random.Random(f"{seed} {until}")
    points = [(float(t), loss_at(t, factor) * (1 + rng.gauss(0, noise))) for t in range(EVERY, until + 1, EVERY)]
    return Curve.through(points)


def width(factor: float, until: int, noise: float = 0.0, seed: int = 0) -> float:
    band = end_of(curve(noise=noise, seed=seed), curve(factor, until, noise, seed))
    assert band is not None
    return math.log(band.high / band.low) / 2


def log(folder: Path, name: str, factor: float = 1.0, until: int = END, **knobs: Any) -> Diagnosis:
    lines = [f"{knob} = {value!r}" for knob, value in (KNOBS | knobs).items() if value is not None]
    for iteration in range(0, until + 1, 10):
        loss = loss_at(iteration, factor)
        if iteration % EVERY == 0:
            lines.append(f"step {iteration}: train loss {loss:.4f}, val loss {loss:.4f}")
        lines.append(f"iter {iteration}: loss {loss:.4f}, time {150 if iteration % EVERY else 950:.2f}ms, mfu 12.00%")
    path = folder / name
    path.write_text("Overriding config with c.py:\n" + "\n".join(lines) + "\n")
    return diagnose(open_run(path))


def said(a: Diagnosis, b: Diagnosis) -> list[Finding]:
    return [each for each in compare(a, b).findings if each.code.startswith("compare_end_")]


def test_a_run_keeps_its_distance() -> None:
    band = end_of(curve(), curve(1.02, until=500))
    assert band is not None
    assert band.value == pytest.approx(loss_at(END, 1.02))
    assert band.low < band.value < band.high


def test_the_interval_narrows_towards_the_end_and_grows_with_the_distance() -> None:
    assert width(1.02, 200) > width(1.02, 1000) > width(1.02, 1900)
    assert width(1.2, 1000) > 5 * width(1.02, 1000)
    assert width(0.98, 1000) == pytest.approx(width(1 / 0.98, 1000), rel=1e-6)
    still_to_fall = math.log(loss_at(1000) / loss_at(END))
    assert width(1.0, 1000) == pytest.approx(1.2816 * 0.05 * still_to_fall, rel=0.02)


def test_the_noise_of_evaluations_widens_the_interval() -> None:
    """At 95% of the run, of which the last tenth has two evaluations: two noisy ends, and two means of two."""
    widths = [width(1.0, 1900, noise=0.02, seed=seed) for seed in range(40)]
    assert median(widths) == pytest.approx(1.2816 * 0.02 * math.sqrt(2 + 2 / 2), rel=0.15)
    assert width(1.0, 1900, noise=0.0) < 0.05 * median(widths)


def test_a_printed_standard_error_is_the_noise() -> None:
    finished = Curve(curve().xs, curve().ys, error=0.05)
    band = end_of(finished, curve(until=1900))
    assert band is not None
    expected = 1.2816 * 0.05 / loss_at(END) * math.sqrt(2 + 2 / 2)
    assert math.log(band.high / band.low) / 2 == pytest.approx(expected, rel=0.01)


def test_the_distance_is_that_of_the_last_tenth() -> None:
    points = [(float(t), loss_at(t, 1.2 if t < 900 else 1.02)) for t in range(EVERY, 1001, EVERY)]
    band = end_of(curve(), Curve.through(points))
    assert band is not None
    assert band.value == pytest.approx(loss_at(END, 1.02))


def test_eighty_per_cent_of_runs_end_inside() -> None:
    """The drift is that of the law; the noise of the evaluations comes from the curve."""
    held, rng = 0, random.Random(7)
    still_to_fall = math.log(loss_at(END // 2) / loss_at(END))
    for _ in range(400):
        noise, factor, later = 0.004, 1 + rng.gauss(0, 0.003), rng.gauss(0, 0.05 * still_to_fall)
        finished, running = (
            Curve.through([(float(t), loss_at(t) * f * (1 + rng.gauss(0, noise))) for t in range(50, until + 1, 50)])
            for f, until in ((1.0, END), (factor, END // 2))
        )
        band = end_of(finished, running)
        assert band is not None
        held += band.low <= loss_at(END) * factor * (1 + later) * (1 + rng.gauss(0, noise)) <= band.high
    assert 0.75 <= held / 400 <= 0.95


def test_a_first_evaluation_at_a_tenth_is_enough_but_none_before() -> None:
    finished = curve()
    assert end_of(finished, curve(until=200)) is not None
    assert end_of(finished, curve(until=100)) is None


def test_fewer_than_eight_evaluations_do_not_tell_their_noise() -> None:
    def every(step: int, until: int) -> Curve:
        return Curve.through((float(t), loss_at(t)) for t in range(step, until + 1, step))

    assert end_of(every(250, END), every(250, 500)) is not None
    assert end_of(every(285, 1995), every(285, 570)) is None


@pytest.mark.parametrize(
    ("factor", "code"), [(0.95, "compare_end_lower"), (1.05, "compare_end_higher"), (1.0005, "compare_end_open")]
)
def test_whichever_is_given_first_the_one_that_is_not_over_is_forecast(
    tmp_path: Path, factor: float, code: str
) -> None:
    finished, running = log(tmp_path, "old.log"), log(tmp_path, "new.log", factor, until=1000)
    (found,) = said(finished, running)
    assert said(running, finished) == [found]
    assert found.code == code
    assert found.numbers["run"] == "new.log"
    assert found.numbers["other"] == "old.log"
    assert found.numbers["iteration"] == END
    assert found.numbers["other_loss"] == pytest.approx(loss_at(END), abs=1e-4)
    assert found.numbers["loss"] == pytest.approx(loss_at(END, factor), rel=1e-3)


@pytest.mark.parametrize(
    ("given", "other"),
    [
        ({}, {"max_iters": 4000}),
        ({}, {"max_iters": None}),
        ({"max_iters": None}, {"max_iters": None}),
        ({}, {"warmup_iters": 500}),
        ({}, {"batch_size": 16}),
        ({"lr_decay_iters": 2000}, {"lr_decay_iters": 4000}),
        ({"decay_lr": True}, {"decay_lr": False}),
        ({"init_from": "gpt2"}, {"init_from": "gpt2"}),
    ],
)
def test_nothing_is_said_of_runs_with_different_schedules(tmp_path: Path, given: Any, other: Any) -> None:
    assert said(log(tmp_path, "old.log"), log(tmp_path, "new.log", until=1000))
    assert said(log(tmp_path, "old.log", **given), log(tmp_path, "new.log", until=1000, **other)) == []


def test_nothing_is_said_if_both_are_over_or_neither_is(tmp_path: Path) -> None:
    over, running = log(tmp_path, "old.log"), log(tmp_path, "new.log", until=1000)
    assert said(over, log(tmp_path, "again.log", 1.01)) == []
    assert said(running, log(tmp_path, "also.log", until=1500)) == []


def test_a_run_whose_loss_has_risen_keeps_no_distance(tmp_path: Path) -> None:
    finished, running = log(tmp_path, "old.log"), log(tmp_path, "new.log", until=1000)

    def risen(name: str, last: int) -> Diagnosis:
        path = tmp_path / name
        path.write_text(path.read_text().replace(f"val loss {loss_at(last):.4f}", "val loss 9.0000"))
        return diagnose(open_run(path))

    assert said(finished, running)
    assert said(risen("old.log", END), running) == said(finished, risen("new.log", 1000)) == []


def test_a_last_loss_slightly_above_the_best_is_no_reason_to_say_nothing(tmp_path: Path) -> None:
    running = log(tmp_path, "new.log", until=1000)
    log(tmp_path, "old.log")

    def ending_at(loss: float) -> Diagnosis:
        path = tmp_path / "old.log"
        path.write_text(path.read_text().replace(f"val loss {loss_at(END):.4f}", f"val loss {loss:.4f}"))
        return diagnose(open_run(path))

    assert said(ending_at(1.008 * loss_at(END - EVERY)), running)


def test_two_trainers_are_not_compared(tmp_path: Path) -> None:
    finished, running = log(tmp_path, "old.log"), log(tmp_path, "new.log", until=1000)
    other = replace(running, source=replace(running.source, format="llmc"))
    assert said(finished, running)
    assert said(finished, other) == []


def test_an_evaluation_shortly_before_the_end_is_the_last_of_a_finished_run(tmp_path: Path) -> None:
    running = log(tmp_path, "new.log", until=1000, max_iters=2040)
    assert said(log(tmp_path, "old.log", max_iters=2040), running)
    assert said(log(tmp_path, "cut.log", until=1900, max_iters=2040), running) == []
