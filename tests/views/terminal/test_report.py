"""The terminal report: what it says, and that it is legible wherever it is printed."""

from __future__ import annotations

import dataclasses
import io
import re
from pathlib import Path
from typing import Any

import pytest

from nanopace.diagnosis.codes import FINDINGS
from nanopace.diagnosis.result import Ahead, Cause, Curves, Finding, Level, Mfu, SlowRow, Throughput
from nanopace.run import Fact
from nanopace.views.report import SECTIONS, seconds_by_phase
from nanopace.views.terminal.report import print_report
from nanopace.wording.catalog import words
from nanopace.wording.numbers import LANGUAGES

from ..cases import bare, case_1, case_2, columns, contrast, explain, printed

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def test_the_sections_stand_in_their_order() -> None:
    text = explain()
    headings = [
        *("Where the time went", "Iteration times", "Slow rows", "Throughput", "GPU utilisation (mfu)", "Loss"),
        *("What is known, and how", "Advice"),
    ]
    places = [text.index(f"\n{heading}\n") for heading in headings]
    assert places == sorted(places)


@pytest.mark.parametrize(("processes", "named"), [(1, False), (2, True)])
def test_one_process_is_not_worth_mentioning(processes: int, named: bool) -> None:
    title = explain(facts={"world_size": Fact(processes, "log")}).partition("\n")[0]
    assert ("processes" in title) == named


@pytest.mark.parametrize(("left", "note"), [(1, "1 iteration to go"), (2, "2 iterations to go")])
def test_how_many_iterations_are_to_go(left: int, note: str) -> None:
    assert note in explain(width=120, ahead=Ahead(180.5, 2000, left, 0.2 * left))


def test_every_finding_of_a_run_has_a_section() -> None:
    placed = [code for codes in SECTIONS.values() for code in codes]
    assert len(placed) == len(set(placed))
    advice = {"raise_eval_interval", "lower_eval_iters", "lower_eval_iters_unknown", "save_less_often"}
    advice |= {"leave_float16", "turn_on_compile", "larger_micro_batch", "find_the_stall", "nothing_to_change"}
    advice |= {"find_the_straggler", "smaller_micro_batch", "calm_the_loss", "use_float16"}
    assert set(placed) == {code for code in FINDINGS if not code.startswith("compare_")} - advice


def test_a_slow_row_without_a_reason_is_not_called_ordinary() -> None:
    stalled = SlowRow(700, 900.0, 731.0, ("stall",), {"stall": 731.0})
    text = explain(slow_rows=(*case_1().slow_rows, stalled))
    assert "42 of 201 rows are slower, 1 of them for no reason the log shows." in " ".join(text.split())
    assert "none because of training" not in text


@pytest.mark.parametrize("rest", ["stall", "periodic"])
def test_a_row_with_an_evaluation_has_a_reason_whatever_else_delays_it(rest: Cause) -> None:
    both = SlowRow(700, 6000.0, 5831.0, ("evaluation", rest), {"evaluation": 5136.0, rest: 695.0})
    text = " ".join(explain(slow_rows=(*case_1().slow_rows, both)).split())
    assert "42 of 201 rows are slower, none because of training." in text


@pytest.mark.parametrize("rows", [1, 2])
def test_slow_rows_of_which_none_has_a_reason_are_counted_once(rows: int) -> None:
    stalled = tuple(SlowRow(700 + n, 900.0, 731.0, ("stall",), {"stall": 731.0}) for n in range(rows))
    text = " ".join(explain(slow_rows=stalled).split())
    number = "1 of 201 rows is" if rows == 1 else "2 of 201 rows are"
    assert f"{number} slower, for no reason the log shows." in text
    assert "of them" not in text


def test_no_slow_row_is_said_so() -> None:
    assert "A normal step takes 169 ms, and no row is slow." in explain(slow_rows=(), findings=())


def test_nothing_to_change_is_said_once() -> None:
    text = explain(findings=(Finding("nothing_to_change", {"overhead_share": 0.004}, advice=True),))
    assert text.count("Nothing is worth changing") == 1
    assert "Try:" not in text


def test_a_phase_that_is_nothing_is_not_shown() -> None:
    assert "start-up" in explain().partition("Iteration times")[0]
    nearly = dataclasses.replace(case_1().wall, startup_s=0.00048)
    assert "start-up" not in explain(wall=nearly).partition("Iteration times")[0]
    assert seconds_by_phase(dataclasses.replace(nearly, total_s=0.1))["startup"] == 0.00048  # a share that is seen


def test_what_cannot_be_told_apart_is_listed_together() -> None:
    rows = (SlowRow(0, 40_633.0, 38_441.0, ("compile", "evaluation"), {"compile": 38_441.0}),)
    text = " ".join(explain(slow_rows=rows, verbose=True).split())
    assert "compilation and warm-up + evaluation 38.4 s" in text


def test_of_two_level_shifts_none_is_lost() -> None:
    shifts = [
        Finding("level_shift", {"iteration": n, "before_ms": 100.0, "after_ms": 120.0, "change_share": 0.2})
        for n in (5000, 9000)
    ]
    text = " ".join(explain(findings=tuple(shifts)).split())
    assert text.count("From iteration 5,000 on") == text.count("From iteration 9,000 on") == 1


def test_steps_that_scatter_wildly_are_a_range() -> None:
    step = dataclasses.replace(case_1().step, levels=(Level(0, 20_000, 6900.0),))
    wild = dataclasses.replace(step, spread=0.3, low_ms=4100.0, median_ms=6900.0, high_ms=9000.0)
    assert "A normal step takes between 4.10 s and 9.00 s (typically 6.90 s)" in " ".join(explain(step=wild).split())
    calm = dataclasses.replace(wild, spread=0.05)
    assert "A normal step takes 6.90 s" in " ".join(explain(step=calm).split())


def test_steps_of_several_levels_are_a_range_if_they_differ_much() -> None:
    step = dataclasses.replace(case_1().step, spread=0.01, low_ms=100.0, median_ms=110.0, high_ms=116.0)
    levels = Level(0, 9_999, 100.0), Level(10_000, 20_000, 115.0)
    several = dataclasses.replace(step, levels=levels)
    assert "takes between 100 ms and 116 ms (typically 110 ms)" in " ".join(explain(step=several).split())
    short = dataclasses.replace(several, levels=(*levels, Level(20_001, 20_100, 150.0)))
    assert "takes between 100 ms and 150 ms (typically 110 ms)" in " ".join(explain(step=short).split())
    near = dataclasses.replace(several, high_ms=114.0)
    assert "A normal step takes 110 ms" in " ".join(explain(step=near).split())
    assert "A normal step takes 110 ms" in " ".join(explain(step=step).split())  # one level that drifts


def test_verbose_shows_every_slow_row_with_its_parts() -> None:
    text = explain(verbose=True)
    for row in case_1().slow_rows:
        assert re.search(rf"^ +{row.iteration:,} .*evaluation", text, re.MULTILINE)
    assert re.search(r"500 +5\.77 s +\+5\.60 s +evaluation 5\.14 s, checkpoint 0\.47 s", text)
    assert not re.search(r"^ +1,500 ", explain(), re.MULTILINE)


def test_inferred_facts_and_what_rests_on_them_are_marked() -> None:
    text = explain()
    assert "~eval_interval=500" in text
    assert "~ marks what is inferred" in text
    facts = {"tokens_per_iteration": Fact(524_288, "inferred", "batch_shape")}
    pace = Throughput(134_100.0, 133_000.0, 1.16e10, 524_288.0, 4e9, 122.2, 16)
    assert re.search(r"tokens per second +~134\.1k", explain(facts=facts, throughput=pace))
    verdict = Finding("utilisation_good", {"card": 0.69, "card_name": "RTX 4070"})
    assert "~69% of what the RTX 4070 can do" in explain(facts=facts, findings=(verdict,))
    known = {"tokens_per_iteration": Fact(524_288, "log")}
    assert re.search(r"tokens per second +134\.1k", explain(facts=known, throughput=pace))


def test_all_three_mfus_and_both_ways_of_counting_attention() -> None:
    mfu = Mfu(0.092, 0.129, 312.0, 40.2, 38.0, 0.69, 0.65, "NVIDIA GeForce RTX 4070", 58.3, "seen", "near_limit")
    mfu = dataclasses.replace(mfu, card_precision="bf16")
    text = " ".join(explain(mfu=mfu, width=120).split())
    assert "as printed, last row 9.20% of 312 TFLOP/s" in text
    assert "without evaluation rows 12.90% of 312 TFLOP/s" in text
    assert "of the RTX 4070 69% of 58.3 TFLOP/s, dense bf16; 65% with causal attention" in text
    assert "achieved 40.2 TFLOP/s 38.0 TFLOP/s with causal attention" in text


def test_what_the_cards_sensors_say_stands_with_the_card() -> None:
    power = {"throttled_share": 0.97, "median_watts": 450.0, "median_mhz": 2475.0}
    energy = {"energy_kwh": 1.234, "mean_watts": 312.0}
    text = explain(findings=(Finding("throttled_power", power), Finding("energy", energy)))
    section = " ".join(text.partition("GPU utilisation (mfu)")[2].partition("\nLoss")[0].split())
    assert "The card was at its power limit in 97.0% of the samples (450 W at 2,475 MHz)." in section
    assert "The card used 1.23 kWh for this run, 312 W on average." in section


@pytest.mark.parametrize(
    ("watts", "mhz", "held"),
    [(695.0, 1545.0, " (695 W at 1,545 MHz)"), (None, 1545.0, " (at 1,545 MHz)"), (None, None, "")],
)
def test_a_card_at_its_power_limit_is_not_called_idle(watts: float | None, mhz: float | None, held: str) -> None:
    mfu = Mfu(None, None, None, 396.0, None, 0.4, None, "NVIDIA H200", 989.0, "seen", "power_limited")
    limit = {"at_limit": 57, "samples": 60, "limited_watts": watts, "limited_mhz": mhz}
    found = Finding("utilisation_power_limited", {"card": 0.4, "card_name": "NVIDIA H200", **limit})
    text = " ".join(explain(mfu=mfu, findings=(found,)).split())
    assert "GPU: 40% of the H200: at its power limit." in text
    assert (
        "40% of what the H200 can do, but it is not idle: it was at its power limit in 57 of 60 samples"
        f"{held}. More speed takes fewer joules per token" in text
    )
    assert "is idle" not in text


def test_the_validation_loss_has_its_error() -> None:
    loss = dataclasses.replace(case_1().loss, best_val_error=0.0031, last_val_error=0.0042)
    text = explain(loss=loss)
    assert "3.2211 ±0.0031" in text
    assert "3.2301 ±0.0042" in text
    assert "±0.003" not in explain().partition("\nLoss\n")[2].partition("What is known")[0]


def test_bits_per_byte_have_no_perplexity() -> None:
    assert "perplexity" in explain()
    assert "perplexity" not in explain(loss=dataclasses.replace(case_1().loss, metric="bpb"))


def test_a_shift_of_the_baseline_is_a_table() -> None:
    step = dataclasses.replace(case_1().step, levels=(Level(0, 9_900, 169.2), Level(10_000, 20_000, 201.5)))
    assert re.search(r"10,000 – 20,000 +201\.5 ms", explain(step=step))


def test_several_runs_follow_each_other() -> None:
    text = printed(case_1("a.log"), case_1("b.log"))
    assert text.index("a.log") < text.index("b.log")
    assert text.count("Where the time went") == 2


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(language: str, width: int) -> None:
    texts = [
        explain(language, width),
        explain(language, width, verbose=True),
        contrast(language, width),
        contrast(language, width, runs=3, verbose=True),
    ]
    for line in "\n".join(texts).splitlines():
        assert columns(line) <= width, line


@pytest.mark.parametrize("language", LANGUAGES)
def test_piped_it_is_plain_text(language: str) -> None:
    for text in (explain(language), contrast(language)):
        assert all(c.isprintable() or c in "\n\u202f" for c in text)
        assert not any(line != line.rstrip() for line in text.splitlines())
        assert not set("│┃┌┐└┘─━╭╮") & set(text)


def test_colour_changes_nothing_but_colour() -> None:
    said = tuple(Finding(code, {"last_iteration": 5}) for code in ("log_truncated", "ended_error"))
    findings = (*said, *case_1().findings)
    colored = explain(color=True, findings=findings)  # including findings about the log itself, and an alarm
    assert "\x1b[" in colored
    plain = re.sub(r"\x1b\[[0-9;]*m", "", colored)
    assert [line.rstrip() for line in plain.splitlines()] == explain(findings=findings).splitlines()
    # Only the terminal's own 16 colours, none of which is yellow or white.
    codes = {int(code) for codes in re.findall(r"\x1b\[([0-9;]+)m", colored) for code in codes.split(";")}
    assert codes <= {0, 1, 31, 32, 35, 36}


def test_a_number_stays_with_its_unit() -> None:
    for width in range(60, 121, 3):
        for line in explain("de", width).splitlines():
            assert not re.match(r"\s*(ms|s|%|TFLOP/s|Std\.)(\W|$)", line), line


def test_nothing_from_a_log_reaches_the_terminal_unfiltered() -> None:
    nasty = "a\x1b[2J\x07\r[bold red]b[/] :smile:\u202e.log"
    run = case_1(nasty)
    facts = {**run.facts, "dataset": Fact("x\x1b]0;t\x07\n[blink]", "log")}
    text = explain(source=run.source, facts=facts)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert "[bold red]b[/] :smile:" in text
    assert "[blink]" in text


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437", "utf-8"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_an_encoding_that_lacks_characters_gets_others(language: str, encoding: str) -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    print_report([case_1()], words(language), out=out, width=80)
    print_report([case_2()], words(language), out=out, width=80)
    out.flush()
    text = raw.getvalue().decode(encoding)
    assert "?" not in text
    assert max(map(columns, text.splitlines())) <= 80


def test_the_width_is_the_terminal_s_or_80(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    out = io.StringIO()
    print_report([case_1()], words("en"), out=out)
    assert 70 < max(map(len, out.getvalue().splitlines())) <= 80
    monkeypatch.setenv("COLUMNS", "50")
    out = io.StringIO()
    print_report([case_1()], words("en"), out=out)
    assert max(map(len, out.getvalue().splitlines())) <= 50


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_log_that_tells_little_is_still_explained(language: str) -> None:
    findings = (Finding("evaluations_outside_clock", {"count": 3}), Finding("mfu_unknown", {"missing": "n_layer"}))
    little = bare(case_1("step.log"))
    failed = dataclasses.replace(little.source, format="nanochat", rows=1, ending="error")
    step = dataclasses.replace(little.step, median_ms=300.0, normal_rows=1)
    curves = Curves(row_iteration=(5,), row_ms=(300.0,), row_cause=(None,))
    run = dataclasses.replace(little, source=failed, step=step, curves=curves, findings=findings)
    text = " ".join(printed(run, lang=language, width=60).split())
    assert words(language).ending("error") in text
    said = words(language).finding("evaluations_outside_clock", {"count": 3})
    assert text.count(" ".join(said.split())) == 1
    assert "None" not in text


def test_how_the_log_was_read_is_said_below_the_title_and_once() -> None:
    numbers: dict[str, dict[str, Any]] = {
        "quoted_log": {"log_lines": 66, "lines": 87, "rows": None},
        "log_truncated": {"last_iteration": 500},
        "unread_evaluations": {"count": 2, "line": 12, "line_text": "step 10: mean loss 2.5"},
        "rows_cover_several": {"iterations": 100, "shown_by": "first_row"},
    }
    text = " ".join(explain(findings=tuple(Finding(code, each) for code, each in numbers.items())).split())
    for code, each in numbers.items():
        said = " ".join(words("en").finding(code, each).split())
        assert text.count(said) == 1
        assert text.index(said) < text.index("A normal step takes")
    assert "line 12: “step 10: mean loss 2.5”." in text
    assert "covers 100 iterations here, not one: the first row includes an evaluation, yet takes less" in text


def test_a_readme_is_said_to_quote_rows() -> None:
    text = explain(findings=(Finding("quoted_log", {"log_lines": None, "lines": None, "rows": 2}),))
    assert text.splitlines()[1] == "This file quotes 2 rows of a log; it is not a log itself."
