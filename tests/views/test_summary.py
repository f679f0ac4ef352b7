"""The answer: the first lines of a report."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from nanopace import diagnose, open_run, render
from nanopace.diagnosis.codes import FINDINGS
from nanopace.diagnosis.result import Finding
from nanopace.wording.catalog import words
from nanopace.wording.numbers import LANGUAGES

from .cases import case_1, explain

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_answer_is_in_the_first_five_lines() -> None:
    assert explain().splitlines()[:6] == [
        "train.log · nanoGPT · 201 rows, iterations 0 to 20,000 · 1 h 0 min",
        "A normal step takes 169 ms. 41 of 201 rows are slower, none because of training.",
        "Evaluation takes 5.14 s, a checkpoint 0.47 s: 6.1% of the run (3 min 41 s).",
        "GPU: 12.06% is relative to 312 TFLOP/s, not to your card; pass --gpu NAME.",
        "Try: Raise eval_interval from ~500 to 2000. Saves 2 min 46 s (4.6%).",
        "",
    ]


def headline(**changes: Any) -> str:
    return " ".join(explain(**changes).partition("\n\n")[0].split())


def test_the_price_of_a_checkpoint_is_told_as_far_as_it_is_known() -> None:
    def said(*, contains: bool = False, **known: Any) -> str:
        evaluations = dataclasses.replace(case_1().evaluations, contains_checkpoint=contains)
        return headline(evaluations=evaluations, checkpoints=dataclasses.replace(case_1().checkpoints, **known))

    assert "Evaluation takes 5.14 s, a checkpoint 0.47 s:" in said(low_ms=450.0, high_ms=490.0)
    wide = "Evaluation takes 5.14 s, a checkpoint 0.47 s (80% interval 0.40 s to 0.55 s):"
    assert wide in said(low_ms=400.0, high_ms=550.0)
    assert wide in said(low_ms=400.0, high_ms=550.0, basis="stamps")
    assert "Evaluation takes 5.14 s, a checkpoint at most 0.47 s:" in said(
        basis="upper_bound", low_ms=0.0, high_ms=200.0
    )
    assert "Evaluation takes 5.14 s with its checkpoint:" in said(contains=True, basis="upper_bound")


def test_what_saves_little_is_not_in_the_headline() -> None:
    def said(seconds: float | None, share: float | None) -> str:
        return headline(
            findings=(Finding("save_less_often", {"checkpoints": 9, "to_checkpoints": 5}, seconds, share, True),)
        )

    assert "Try: Save less often" in said(59.0, 0.02)
    assert "Try: Save less often" in said(61.0, 0.001)
    assert "Try:" not in said(59.0, 0.009)
    assert "Try: Turn on compile" in headline(
        findings=(
            Finding("save_less_often", {"checkpoints": 9, "to_checkpoints": 5}, 9.0, 0.001, True),
            Finding("turn_on_compile", {}, advice=True),
        )
    )


def test_a_loss_that_is_gone_leaves_nothing_else_to_say() -> None:
    mfu = dataclasses.replace(case_1().mfu, card=0.7, card_name="RTX 4070", card_tflops=58.3, verdict="near_limit")
    said = headline(mfu=mfu, findings=(Finding("loss_diverged", {"iteration": 3010}),))
    assert "The loss diverged at iteration 3,010." in said
    assert "GPU:" not in said


@pytest.mark.parametrize(
    "code", ["memory_spill", "level_shift", "loss_diverged", "ended_out_of_memory", "throttled_heat"]
)
def test_an_alarm_is_among_the_first_lines_and_said_once(code: str) -> None:
    numbers = dict.fromkeys(FINDINGS[code], 70)  # a loss of 70 s among them, which is worth an alarm
    text = " ".join(explain(findings=(Finding(code, numbers),)).split())
    said = words("en").finding(code, numbers).replace("\u00a0", " ")
    assert text.count(said) == 1
    assert text.index(said) < text.index("Where the time went")


def slow_down(code: str, iteration: int, lost_s: float) -> Finding:
    return Finding(code, {**dict.fromkeys(FINDINGS[code], 7), "iteration": iteration, "lost_s": lost_s})


def test_of_several_slow_downs_the_headline_names_the_gravest() -> None:
    small, grave = slow_down("level_shift", 5000, 90.0), slow_down("level_shift", 9000, 900.0)
    assert "From iteration 9,000 on" in headline(findings=(small, grave))
    assert "From iteration 5,000 on" not in headline(findings=(small, grave))
    spill = slow_down("memory_spill", 7000, 300.0)
    assert "From iteration 9,000 on" in headline(findings=(spill, small, grave))
    assert "From iteration 7,000 on" in headline(findings=(spill, small))


def test_what_cost_little_or_made_steps_faster_is_no_alarm() -> None:
    wall_s = case_1().wall.awake_s
    assert "From iteration" not in headline(findings=(slow_down("level_shift", 5000, min(59.0, 0.0099 * wall_s)),))
    assert "From iteration" not in headline(findings=(slow_down("level_shift", 5000, 0.0),))
    assert "From iteration" in headline(findings=(slow_down("level_shift", 5000, 0.011 * wall_s),))


def test_steps_that_became_slower_are_an_alarm() -> None:
    assert "Steps became slower over the run" in headline(findings=(slow_down("slower_at_the_end", 0, 300.0),))


def test_a_loss_that_diverged_comes_before_any_slow_down() -> None:
    text = headline(findings=(slow_down("level_shift", 5000, 900.0), Finding("loss_diverged", {"iteration": 8000})))
    assert "diverged" in text
    assert "From iteration" not in text


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize(
    ("log", "settings"),
    [
        ("slow-rows.log", {}),
        ("slow-rows.log", {"gpu": "4070"}),
        ("narrow.log", {"config": EXAMPLES / "narrow.py", "gpu": "4070"}),
        ("wide-header.log", {}),
    ],
)
def test_the_answer_takes_five_lines(lang: str, log: str, settings: dict[str, Any]) -> None:
    report = render(diagnose(open_run(EXAMPLES / log, **settings)), lang=lang, width=80)
    assert len(report.split("\n\n")[0].splitlines()) <= 5, report


@pytest.mark.parametrize(
    "text",
    [
        "step 0: train loss 10.9000, val loss 10.9500\niter 0: loss 10.9500, time 37000.00ms, mfu -100.00%\n",
        "s:0 tel:10.9885\ns:0 trl:10.9819 lr:0.000001 norm:1.0\n",
        "iter 500: loss 3.9500, time 370.00ms, mfu 10.00%\n",
        "step     1/4 | loss 10.983 (+nanz)| norm 13.12 (+nanz)| lr 8.57e-07 | 4228.52 ms | -100.0% MFU | 9 tok/s\n",
    ],
)
def test_of_one_row_nothing_is_said_that_it_does_not_tell(text: str, tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    log.write_text(text)
    report = render(diagnose(open_run(log)), lang="en", width=80)
    assert "1 rows" not in report
    assert " to 0" not in report
    assert not any(line.split()[:2] == ["training", "100.0%"] for line in report.splitlines())


def test_overfitting_is_in_the_answer_and_not_repeated() -> None:
    """Every step after the best evaluation was in vain, however fast it was."""
    risen = Finding("overfitting", {"best_val": 1.464, "best_val_iteration": 1500, "last_val": 1.9392})
    assert "The model is overfitting: the validation loss was best at iteration 1,500" in headline(findings=(risen,))
    assert explain(findings=(risen,)).count("overfitting") == 1
    slower = slow_down("level_shift", 5000, 600.0)
    both = headline(findings=(risen, slower))
    assert both.index("From iteration 5,000 on") < both.index("The model is overfitting")
