"""Two losses are called training loss: nanoGPT's second pass, and the mean of past steps, which lags behind the model
and includes dropout. Each is named wherever it is shown, and they are never compared with each other."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nanopace import compare, diagnose, open_run, render
from nanopace.record import replace
from nanopace.views.page.loss_charts import loss_charts
from nanopace.wording.catalog import words


def log(path: Path, of_steps: bool, lag: float = 0.3, over_fits: bool = False) -> Path:
    """As `nanopace train` prints it."""
    lines = ["nanopace 0.1.0 train: out, 4,096 tokens a step, steps 0 to 4000"]
    name = "train loss (last 250 steps)" if of_steps else "train loss"
    for iteration in range(0, 4001, 50):
        loss = 2 + 2 / (1 + iteration / 500)
        if iteration % 250 == 0:
            turned = 0.0005 * max(0, iteration - 2000) if over_fits else 0.0
            train = "" if of_steps and not iteration else f"{name} {loss + lag:.4f}, "
            lines.append(f"step {iteration}: {train}val loss {loss + turned:.4f}, time 800.00ms, val error 0.0020")
        lines.append(f"iter {iteration}: loss {loss:.4f}, time 100.00ms, mfu n/a, 40960 tok/s, lr 1.00e-03")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("of_steps", "training", "gap"),
    [
        (True, "training, last 250 steps", "validation minus training, last 250 steps"),
        (False, "last training", "validation minus training"),
    ],
)
def test_it_has_its_name_wherever_it_is_shown(tmp_path: Path, of_steps: bool, training: str, gap: str) -> None:
    found = diagnose(open_run(log(tmp_path / "log", of_steps)))
    text = render(found, width=100)
    assert re.search(rf"^ *{training} +2\.5222 ", text, re.MULTILINE)
    assert re.search(rf"^ *gap +-0\.3000 +{gap}$", text, re.MULTILINE)
    page = render(found, format="html")
    assert f">{training}<" in page
    assert f">{gap}<" in page
    told = json.loads(render(found, format="json"))
    assert told["loss"]["last_train_steps"] == (250 if of_steps else None)
    assert set(told["curves"]["eval_train_steps"][1:]) == {250 if of_steps else None}


def test_a_chart_has_no_line_of_both(tmp_path: Path) -> None:
    run = diagnose(open_run(log(tmp_path / "log", of_steps=True)))
    steps = tuple(count if number > 8 else None for number, count in enumerate(run.curves.eval_train_steps))
    changed = replace(run, curves=replace(run.curves, eval_train_steps=steps))
    (chart, *_) = loss_charts([changed], words("en"))
    drawn = {series.label: [y is not None for y in series.y] for series in chart.series}
    assert drawn["training"] == [False, *[True] * 8, *[False] * 8]
    assert drawn["training, mean of past steps"] == [False] * 9 + [True] * 8
    (chart, *_) = loss_charts([run], words("en"))
    assert "training" not in [series.label for series in chart.series]


@pytest.mark.parametrize("language", ["en", "de", "fr", "es"])
def test_over_fitting_says_what_it_rests_on(tmp_path: Path, language: str) -> None:
    by_steps = diagnose(open_run(log(tmp_path / "steps", of_steps=True, over_fits=True)))
    second = diagnose(open_run(log(tmp_path / "second", of_steps=False, lag=-0.1, over_fits=True)))
    said = {}
    for run in (by_steps, second):
        (finding,) = [each for each in run.findings if each.code == "overfitting"]
        said[run is by_steps] = words(language).finding(finding.code, finding.numbers)
    assert "250" in said[True]
    assert "250" not in said[False]


def test_a_comparison_does_not_look_at_them(tmp_path: Path) -> None:
    """One run has a second pass and the other does not: whatever these losses are, the comparison stays the same."""
    second = open_run(log(tmp_path / "second", of_steps=False))
    told: list[list[object]] = []
    for lag in (0.3, 5.0):
        found = compare(second, open_run(log(tmp_path / "other", of_steps=True, lag=lag)))
        alone = {"b": None, "runs": None}  # what each run has of its own
        told.append([render(found), render(found, format="html"), json.loads(render(found, format="json")) | alone])
    assert told[0] == told[1]
