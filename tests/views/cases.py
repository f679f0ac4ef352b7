"""The cases as hand-made results, and how the views print them."""

from __future__ import annotations

import dataclasses
import io
import math
import unicodedata
from typing import Any

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
from nanopace.views.terminal.report import print_report
from nanopace.wording.catalog import words


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
        wall=Wall(3618.0, 3385.0, 205.4, 15.4, 12.4, 0.0, 0.0, 0.0, 0.0, 0.061, 0.936, False),
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
                    "checkpoint_low_s": None,
                    "checkpoint_high_s": None,
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
    """Two runs on a known card, one twice as wide."""
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


def bare(run: Diagnosis) -> Diagnosis:
    """The same run, of which nothing is known that may be unknown."""
    parts = ("source", "evaluations", "checkpoints", "wall", "ahead", "throughput", "mfu", "model", "loss", "step")
    unknown = {
        name: dataclasses.replace(
            getattr(run, name),
            **{field.name: None for field in dataclasses.fields(getattr(run, name)) if "None" in str(field.type)},
        )
        for name in parts
    }
    return dataclasses.replace(run, **unknown, startup=None, slow_rows=(), findings=(), facts={}, curves=Curves())


def printed(
    *results: Diagnosis | Comparison, lang: str = "en", width: int = 80, color: bool = False, verbose: bool = False
) -> str:
    """What the terminal shows of runs, or of pairs."""
    out = io.StringIO()
    print_report(results, words(lang), out=out, width=width, color=color, verbose=verbose)  # type: ignore[arg-type]
    return out.getvalue()


def explain(lang: str = "en", width: int = 80, *, color: bool = False, verbose: bool = False, **changes: Any) -> str:
    return printed(dataclasses.replace(case_1(), **changes), lang=lang, width=width, color=color, verbose=verbose)


def contrast(lang: str = "en", width: int = 80, *, runs: int = 2, verbose: bool = False) -> str:
    return printed(*[case_2()] * (runs - 1), lang=lang, width=width, verbose=verbose)


def columns(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)
