"""The terminal report: what it says, and that it stays legible wherever it is printed."""

from __future__ import annotations

import dataclasses
import io
import math
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from nanopace import diagnose, open_run, render
from nanopace.diagnosis.codes import FINDINGS
from nanopace.diagnosis.comparison import AtFlops, AtTime, AtTokens, Change, Comparison, Decomposition, PairOf, Settling
from nanopace.diagnosis.result import (
    Ahead,
    Checkpoints,
    Curves,
    Diagnosis,
    Evaluations,
    Finding,
    Forecast,
    Level,
    Loss,
    Mfu,
    Model,
    Restarts,
    SlowRow,
    Source,
    Startup,
    Step,
    Throughput,
    Wall,
)
from nanopace.run import Fact
from nanopace.views.report import SECTIONS
from nanopace.views.terminal import print_compare, print_explain
from nanopace.wording.catalog import LANGUAGES, words

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def case_1(name: str = "train.log") -> Diagnosis:
    """The report on a log of 201 rows with the figures of a real one, card and model unknown."""
    saved = {n for n in range(500, 20_001, 500) if n % 3000 or n == 3000}
    slow = [SlowRow(0, 12_540.0, 12_371.0, ("compile", "evaluation"), {"compile": 7231.0, "evaluation": 5140.0})]
    for n in range(500, 20_001, 500):
        if n in saved:
            slow.append(
                SlowRow(n, 5772.0, 5603.0, ("evaluation", "checkpoint"), {"evaluation": 5136.0, "checkpoint": 467.0})
            )
        else:
            slow.append(SlowRow(n, 5305.0, 5136.0, ("evaluation",), {"evaluation": 5136.0}))
    causes = {row.iteration: ("compile" if not row.iteration else row.causes[-1]) for row in slow}
    times = {row.iteration: row.ms for row in slow}
    iterations = tuple(range(0, 20_001, 100))
    return Diagnosis(
        source=Source(name, "nanogpt", 201, 0, 20_000, 100, None),
        facts={
            "log_interval": Fact(100, "inferred", "row_spacing"),
            "eval_interval": Fact(500, "inferred", "row_spacing"),
            "printed_peak_tflops": Fact(312.0, "inferred", "trainer"),
            "vocab_size": Fact(50304, "inferred", "first_loss"),
            "out_dir": Fact("out", "log"),
        },
        step=Step(169.24, 0.003, 160, 0, (Level(0, 20_000, 169.24),), None),
        slow_rows=tuple(slow),
        evaluations=Evaluations(40, 40, 0, 5136.0, 500, False, None),
        checkpoints=Checkpoints(33, 467.0, "measured", 33, 7),
        startup=Startup(12_540.0, 169.24, 5136.0, 7234.0),
        restarts=Restarts(0, 0, 0.0),
        wall=Wall(3618.0, 3385.0, 205.4, 15.4, 12.4, 0.0, 0.0, 0.0, 0.061, 0.936, False),
        ahead=Ahead(180.5, None, None, None),
        throughput=Throughput(None, None, None, None, None, None, None),
        mfu=Mfu(0.092, 0.1206, 312.0, 37.6, 36.1, None, None, None, None, None, None),
        model=Model(None, None, None),
        loss=Loss(
            "loss",
            3.2211,
            19_500,
            math.exp(3.2211),
            3.2301,
            20_000,
            3.2105,
            0.0196,
            0.001,
            True,
            0.08,
            (Forecast(30_000, 3.15, 3.12, 3.18),),
        ),
        findings=(
            Finding(
                "evaluation_rows",
                {
                    "slow": 40,
                    "rows": 201,
                    "interval": 500,
                    "each_s": 5.52,
                    "overhead_s": 220.8,
                    "overhead_share": 0.061,
                },
            ),
            Finding(
                "checkpoint_measured",
                {
                    "evaluation_s": 5.136,
                    "checkpoint_s": 0.467,
                    "checkpoint_share": 0.083,
                    "saved_rows": 33,
                    "unsaved_rows": 7,
                },
            ),
            Finding(
                "startup",
                {"iteration": 0, "total_s": 12.54, "evaluation_s": 5.136, "compile_s": 7.234, "step_s": 0.169},
            ),
            Finding("checkpoint_not_first", {"total_s": 12.54}),
            Finding("mfu_smoothed", {"printed_last": 0.092, "steady_printed": 0.1206}),
            Finding(
                "mfu_card_unknown", {"achieved_tflops": 37.6, "steady_printed": 0.1206, "printed_peak_tflops": 312.0}
            ),
            Finding("tokens_unknown", {"missing": "batch_size, block_size"}),
            Finding("loss_noise", {"noise": 0.08, "accumulation": None}),
            Finding("forecast", {"iteration": 30_000, "loss": 3.15, "low": 3.12, "high": 3.18}),
            Finding(
                "raise_eval_interval",
                {"from_interval": 500, "to_interval": 2000, "evaluations": 10},
                165.6,
                0.0458,
                True,
            ),
            Finding("lower_eval_iters_unknown", {"factor": 4, "noise_factor": 2.0}, 154.1, 0.0426, True),
        ),
        curves=Curves(
            row_iteration=iterations,
            row_ms=tuple(times.get(n, 169.0 + n % 3) for n in iterations),
            row_cause=tuple(causes.get(n) for n in iterations),
        ),
    )


def case_2() -> Comparison:
    """Two runs of which one is twice as wide, on a known card."""
    a, b = case_1("narrow.log"), case_1("wide.log")
    facts = {"parameters": Fact(40_550_000, "log"), "tokens_per_iteration": Fact(524_288, "inferred", "batch_shape")}
    a = dataclasses.replace(
        a,
        facts=facts,
        model=Model(40.55e6, 300.0e6, 270e6),
        throughput=Throughput(134_100.0, 133_000.0, 1.16e10, 524_288.0, 4e9, 122.2, 16),
        mfu=Mfu(0.129, 0.129, 312.0, 40.2, 38.0, 0.69, 0.65, "RTX 4070", 58.3, "seen", "good"),
    )
    b = dataclasses.replace(
        b,
        facts=facts,
        model=Model(123.59e6, 854.8e6, 798.2e6),
        throughput=Throughput(56_100.0, 55_900.0, 4.8e9, 524_288.0, 4e9, 146.0, 8),
        mfu=Mfu(0.154, 0.154, 312.0, 48.0, 45.0, 0.82, 0.77, "RTX 4070", 58.3, "seen", "near_limit"),
    )
    return Comparison(
        a=a,
        b=b,
        changed=(
            Change("n_embd", 384, 768, "flag", "inferred"),
            Change("batch_size", 16, 8, "flag", "flag"),
        ),
        unknown_knobs=("dropout",),
        parameters=PairOf(40.55e6, 123.59e6, 3.05),
        flops_per_token=PairOf(300.0e6, 854.8e6, 2.85),
        median_ms=PairOf(3909.8, 9346.1, 2.39),
        micro_batch_ms=PairOf(122.2, 146.0, 1.19),
        tokens_per_s=PairOf(134_100.0, 56_100.0, 0.418),
        mfu_card=PairOf(0.69, 0.82, 1.19),
        overhead_share=PairOf(0.0077, 0.0042, 0.55),
        decomposition=Decomposition(-0.871, -1.047, 0.175, 0.0),
        equal_tokens=tuple(AtTokens(2.62e8 * n, 6.0 - n * 0.2, 5.9 - n * 0.21) for n in range(1, 10)),
        equal_time=tuple(AtTime(3600.0 * n, 6.0 - n * 0.2, 6.2 - n * 0.22) for n in range(1, 10)),
        equal_flops=(AtFlops(7.1e17, 3.9, 3.95),),
        leader_tokens="b",
        leader_time="b",
        crossover_s=7.8 * 3600,
        crossover_tokens=None,
        unattributable=("batch_size", "n_embd"),
        settling=(Settling("batch_size", 16),),
        findings=(
            Finding(
                "compare_speed",
                {
                    "faster": "narrow.log",
                    "slower": "wide.log",
                    "faster_tokens_per_s": 134_100.0,
                    "slower_tokens_per_s": 56_100.0,
                    "slower_share": 0.58,
                },
            ),
            Finding("compare_crossover", {"early": "narrow.log", "late": "wide.log", "crossover_s": 7.8 * 3600}),
            Finding(
                "compare_loss_tokens",
                {
                    "better": "wide.log",
                    "worse": "narrow.log",
                    "tokens": 2.36e9,
                    "better_loss": 3.5636,
                    "worse_loss": 3.7954,
                },
            ),
            Finding("compare_why", {"flops_per_token_share": -0.649, "utilisation_share": 0.191, "peak_share": 0.0}),
            Finding("compare_several_knobs", {"count": 2, "knobs": "n_embd, batch_size"}),
        ),
    )


def explain(
    language: str = "en", width: int = 80, *, color: bool = False, verbose: bool = False, **changes: object
) -> str:
    out = io.StringIO()
    run = dataclasses.replace(case_1(), **changes)  # type: ignore[arg-type]
    print_explain([run], words(language), out=out, width=width, color=color, verbose=verbose)
    return out.getvalue()


def contrast(language: str = "en", width: int = 80, *, runs: int = 2, verbose: bool = False) -> str:
    out = io.StringIO()
    print_compare([case_2()] * (runs - 1), words(language), out=out, width=width, color=False, verbose=verbose)
    return out.getvalue()


def columns(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


# --- what it says ----------------------------------------------------------------------------------------------------


def test_the_answer_is_in_the_first_five_lines() -> None:
    assert explain().splitlines()[:6] == [
        "train.log · nanoGPT · 201 rows, iterations 0 to 20,000 · 1 h 0 min",
        "A normal step takes 169 ms. 41 of 201 rows are slower; none is slow training.",
        "Evaluation takes 5.14 s, a checkpoint 0.47 s: 6.1% of the run (3 min 41 s).",
        "GPU: the printed 12.06% is of 312 TFLOP/s, not of your card; pass --gpu NAME.",
        "Do: Raise eval_interval from ~500 to 2000. Saves 2 min 46 s (4.6%).",
        "",
    ]


def test_the_sections_stand_in_their_order() -> None:
    text = explain()
    headings = [
        *("Where the time went", "Iteration times", "Slow rows", "Throughput", "GPU utilisation (mfu)", "Loss"),
        *("What is known, and how", "Advice"),
    ]
    places = [text.index(f"\n{heading}\n") for heading in headings]
    assert places == sorted(places)


def test_every_finding_of_a_run_has_a_section() -> None:
    placed = [code for codes in SECTIONS.values() for code in codes]
    assert len(placed) == len(set(placed))
    advice = {"raise_eval_interval", "lower_eval_iters", "lower_eval_iters_unknown", "save_less_often"}
    advice |= {"align_log_interval", "turn_on_compile", "larger_micro_batch", "find_the_stall", "nothing_to_change"}
    assert set(placed) == {code for code in FINDINGS if not code.startswith("compare_")} - advice


def test_a_slow_row_without_a_reason_is_not_called_ordinary() -> None:
    stalled = SlowRow(700, 900.0, 731.0, ("stall",), {"stall": 731.0})
    text = explain(slow_rows=(*case_1().slow_rows, stalled))
    assert "42 of 201 rows are slower, 1 of them for no reason that the log names." in " ".join(text.split())
    assert "none is slow training" not in text


def test_no_slow_row_is_said_so() -> None:
    assert "A normal step takes 169 ms, and no row is slow." in explain(slow_rows=(), findings=())


def test_nothing_to_change_is_said_once() -> None:
    text = explain(findings=(Finding("nothing_to_change", {"overhead_share": 0.004}, advice=True),))
    assert text.count("Nothing worth changing") == 1
    assert "Do:" not in text


@pytest.mark.parametrize("code", ["memory_spill", "level_shift", "loss_diverged", "ended_out_of_memory"])
def test_an_alarm_is_among_the_first_lines_and_said_once(code: str) -> None:
    numbers = dict.fromkeys(FINDINGS[code], 7)
    text = " ".join(explain(findings=(Finding(code, numbers),)).split())
    said = words("en").finding(code, numbers).replace("\u00a0", " ")
    assert text.count(said) == 1
    assert text.index(said) < text.index("Where the time went")


def test_of_two_level_shifts_none_is_lost() -> None:
    shifts = [
        Finding("level_shift", {"iteration": n, "before_ms": 100.0, "after_ms": 120.0, "change_share": 0.2})
        for n in (5000, 9000)
    ]
    text = " ".join(explain(findings=tuple(shifts)).split())
    assert text.count("From iteration 5,000 on") == text.count("From iteration 9,000 on") == 1


def test_verbose_shows_every_slow_row_with_its_parts() -> None:
    text = explain(verbose=True)
    for row in case_1().slow_rows:
        assert re.search(rf"^ +{row.iteration:,} .*evaluation", text, re.MULTILINE)
    assert re.search(r"500 +5,772\.0 ms +\+5\.60 s +evaluation 5\.14 s, checkpoint 0\.47 s", text)
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
    text = " ".join(explain(mfu=mfu, width=120).split())
    assert "as printed, last row 9.20% of 312 TFLOP/s" in text
    assert "without evaluation rows 12.90% of 312 TFLOP/s" in text
    assert "of the RTX 4070 69% of 58.3 TFLOP/s, dense bf16; 65% with causal attention" in text
    assert "achieved 40.2 TFLOP/s 38.0 TFLOP/s with causal attention" in text


def test_bits_per_byte_have_no_perplexity() -> None:
    assert "perplexity" in explain()
    assert "perplexity" not in explain(loss=dataclasses.replace(case_1().loss, metric="bpb"))


def test_a_shift_of_the_baseline_is_a_table() -> None:
    step = dataclasses.replace(case_1().step, levels=(Level(0, 9_900, 169.2), Level(10_000, 20_000, 201.5)))
    assert re.search(r"10,000 – 20,000 +201\.5 ms", explain(step=step))


def test_several_runs_follow_each_other() -> None:
    out = io.StringIO()
    print_explain([case_1("a.log"), case_1("b.log")], words("en"), out=out, width=80)
    assert out.getvalue().index("a.log") < out.getvalue().index("b.log")
    assert out.getvalue().count("Where the time went") == 2


def test_a_comparison_opens_with_two_sentences() -> None:
    lines = " ".join(contrast().split("\n\n")[0].split())
    assert lines == (
        "A is faster: ~134.1k tokens/s against ~56.1k of B, which is 58.0% slower. "
        "At equal time A leads at first; after 7.8 h B overtakes it and stays ahead."
    )


def test_a_comparison_has_its_tables() -> None:
    text = contrast()
    assert re.search(r"A +narrow\.log", text)
    assert re.search(r"tokens per second +~134\.1k +~56\.1k +×0\.42", text)
    assert re.search(r"n_embd +384 +~768 +from the command line, inferred", text)
    assert re.search(r"FLOPs per token +-1\.047 +×0\.35", text)
    assert re.search(r"use of the card +\+0\.175 +×1\.19", text)
    assert re.search(r"2\.36B +4\.2000 +4\.0100 +-0\.1900", text)
    assert "Runs that would settle it, each like B with one knob as in A:\n    batch_size=16\n" in text
    assert "1 more with --verbose." in text
    assert "Known of one run only: dropout." in contrast(verbose=True)


def test_a_third_run_has_the_third_letter() -> None:
    text = contrast(runs=3)
    assert "after 7.8 h C overtakes it" in " ".join(text.split())
    assert re.search(r"^ +A +B +C$", text, re.MULTILINE)


def test_a_comparison_shows_the_last_point_and_verbose_all() -> None:
    assert "2.36B" in contrast()
    assert "262.00M" not in contrast()
    assert "262.00M" in contrast(verbose=True)


# --- how it looks ----------------------------------------------------------------------------------------------------


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
    colored = explain(color=True)
    assert "\x1b[" in colored
    plain = re.sub(r"\x1b\[[0-9;]*m", "", colored)
    assert [line.rstrip() for line in plain.splitlines()] == explain().splitlines()
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
    print_explain([case_1()], words(language), out=out, width=80)
    print_compare([case_2()], words(language), out=out, width=80)
    out.flush()
    text = raw.getvalue().decode(encoding)
    assert "?" not in text
    assert max(map(columns, text.splitlines())) <= 80


def test_the_width_is_the_terminal_s_or_80(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    out = io.StringIO()
    print_explain([case_1()], words("en"), out=out)
    assert 70 < max(map(len, out.getvalue().splitlines())) <= 80
    monkeypatch.setenv("COLUMNS", "50")
    out = io.StringIO()
    print_explain([case_1()], words("en"), out=out)
    assert max(map(len, out.getvalue().splitlines())) <= 50


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_log_that_tells_little_is_still_explained(language: str) -> None:
    bare = Diagnosis(
        source=Source("step.log", "nanochat", 1, 5, 5, None, "error"),
        facts={},
        step=Step(300.0, 0.0, 1, 0, (Level(5, 5, 300.0),), None),
        slow_rows=(),
        evaluations=Evaluations(3, 0, 3, None, None, False, None),
        checkpoints=Checkpoints(0, None, "unknown", 0, 0),
        startup=None,
        restarts=Restarts(0, 0, 0.0),
        wall=Wall(0.3, 0.3, None, None, 0.0, 0.0, 0.0, None, None, 1.0, False),
        ahead=Ahead(300.0, None, None, None),
        throughput=Throughput(None, None, None, None, None, None, None),
        mfu=Mfu(None, None, None, None, None, None, None, None, None, None, None),
        model=Model(None, None, None),
        loss=Loss("bpb", None, None, None, None, None, None, None, None, None, None, ()),
        findings=(Finding("evaluations_outside_clock", {"count": 3}), Finding("mfu_unknown", {"missing": "n_layer"})),
        curves=Curves(row_iteration=(5,), row_ms=(300.0,), row_cause=(None,)),
    )
    out = io.StringIO()
    print_explain([bare], words(language), out=out, width=60)
    text = " ".join(out.getvalue().split())
    assert words(language).ending("error") in text
    said = words(language).finding("evaluations_outside_clock", {"count": 3})
    assert text.count(" ".join(said.split())) == 1
    assert "None" not in text


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
