"""Logs read with the user's own expressions."""

from __future__ import annotations

import io
import math
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from nanopace.errors import NotALog, UsageError
from nanopace.run import Run
from nanopace.sources.formats.pattern import GROUPS, compile_patterns
from nanopace.sources.runs import open_runs

pytest.importorskip("re2", reason="needs google-re2")

STEP = r"step (?P<iteration>[\d,]+)"


def read(text: str | Iterable[str], *patterns: str) -> list[Run]:
    lines = text if isinstance(text, str) else "".join(f"{line}\n" for line in text)
    return open_runs(io.BytesIO(lines.encode()), patterns=patterns)


def rows(run: Run) -> list[tuple[int, float, float | None]]:
    return [(row.iteration, round(row.ms, 6), row.loss) for row in run.rows]


@pytest.mark.parametrize(
    ("pattern", "line", "row"),
    [
        (STEP + r".*time (?P<ms>[\d.]+)", "step 1,200 in time 12.5", (1200, 12.5, None)),
        (STEP + r".*time (?P<s>[\d.]+)", "step 7 in time 12.5", (7, 12500.0, None)),
        (STEP + r".* (?P<it_per_s>[\d.]+) it/s", "step 7 at 8.0 it/s", (7, 125.0, None)),
        (STEP + r" (?P<tokens>\d+) (?P<tokens_per_s>\S+)", "step 7 1000 4,000.0", (7, 250.0, None)),
        (STEP + r" (?P<loss>\S+) (?P<ms>\S+)", "step 7 3.5e-1 1e2", (7, 100.0, 0.35)),
        (STEP + r" (?P<loss>\S+) (?P<ms>\S+)", "step 7 NaN 100", (7, 100.0, math.inf)),
        (STEP + r" (?P<loss>\S+) (?P<seconds>\S+)", "step 7 N/A 1:02.5", (7, 62_500.0, None)),
        (r"(?P<ms>\d+)é(?P<iteration>\d+)", "ö12é3", (3, 12.0, None)),
    ],
)
def test_what_the_groups_find(pattern: str, line: str, row: tuple[int, float, float | None]) -> None:
    (run,) = read(f"nothing\n{line}\n", pattern)
    assert rows(run) == [row]
    assert run.format == "pattern"


def test_a_line_that_does_not_end_is_not_read() -> None:
    (run,) = read("step 1 time 100\nstep 2 time 10", STEP + r" time (?P<ms>\d+)")
    assert rows(run) == [(1, 100.0, None)]


def test_a_summary_of_an_epoch_that_matches_too_is_no_restart() -> None:
    lines = [f"step {at} time 100" + ("\nepoch 1 ended at step 20 time 104" if at == 20 else "") for at in range(60)]
    (run,) = read(lines, STEP + r" time (?P<ms>\d+)")
    assert [*run.rows.iteration] == [*range(60)]
    assert set(run.rows.ms) == {100.0}
    assert run.restarts == ()


def test_mfu_is_a_fraction_or_in_per_cent() -> None:
    (run,) = read("step 1 100 0.4\n", STEP + r" (?P<ms>\S+) (?P<mfu>\S+)")
    assert list(run.rows.mfu) == [0.4]
    (run,) = read("step 1 100 40%\n", STEP + r" (?P<ms>\S+) (?P<mfu_percent>\S+)")
    assert list(run.rows.mfu) == [0.4]


def test_evaluations_have_a_pattern_of_their_own() -> None:
    lines = [
        "eval 10 train 3.1 val 3.2",
        "step 10 loss 3.0 time 90",
        "step 20 loss 2.9 time 10",
        "eval 20 train 2.8 val 2.95",  # behind the row of its iteration: in the next one
        "step 30 loss 2.8 time 91",
    ]
    (run,) = read(
        lines,
        STEP + r" loss (?P<loss>\S+) time (?P<ms>\S+)",
        r"eval (?P<iteration>\d+) train (?P<loss>\S+) val (?P<val_loss>\S+)",
    )
    assert rows(run) == [(10, 90, 3.0), (20, 10, 2.9), (30, 91, 2.8)]
    found = [(each.iteration, each.train, each.val, each.row) for each in run.evaluations]
    assert found == [(10, 3.1, 3.2, 0), (20, 2.8, 2.95, 2)]


def test_a_line_may_be_a_row_and_an_evaluation() -> None:
    pattern = STEP + r" loss (?P<loss>\S+) val (?P<val>\S+) time (?P<ms>\S+)"
    (run,) = read(["step 1 loss 3.0 val 3.5 time 8", "step 2 loss 2.0 val - time 8"], pattern)
    assert rows(run) == [(1, 8, 3.0), (2, 8, 2.0)]
    assert [(each.iteration, each.train, each.val) for each in run.evaluations] == [(1, None, 3.5)]


def test_without_a_time_the_losses_are_read() -> None:
    (run,) = read(["step 1 loss 3.0", "step 2 loss 2.0"], STEP + r" loss (?P<loss>\S+)")
    assert (len(run.rows), list(run.untimed_rows.loss)) == (0, [3.0, 2.0])


@pytest.mark.parametrize(
    ("clock", "times"),
    [
        # iteration and elapsed seconds; iteration and ms of one iteration
        ([(0, 4), (10, 5), (20, 6), (30, 8)], [(0, 4000), (10, 100), (20, 100), (30, 200)]),
        ([(10, 4), (20, 5), (30, 6)], [(10, 400), (20, 100), (30, 100)]),
        ([(500, 90), (510, 91), (520, 92)], [(510, 100), (520, 100)]),  # an excerpt: its first row has no time
        ([(1, 2), (1, 2), (2, 3), (2, 3)], [(1, 2000), (2, 1000)]),  # the same line twice
        ([(10, 1), (20, 2), (30, 3), (30, 1), (40, 2)], [(10, 100), (20, 100), (30, 100), (40, 100)]),  # resumed
        ([(10, 5)], [(10, 500)]),
        ([(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (6, 2), (7, 3)], [(1, 1000), (4, 1000 / 3), (7, 1000 / 3)]),  # coarse
    ],
)
def test_a_clock_that_runs_on(clock: list[tuple[int, float]], times: list[tuple[int, float]]) -> None:
    lines = [f"step {at} elapsed 0:{seconds // 60:02d}:{seconds % 60:02d}.0" for at, seconds in clock]
    (run,) = read(lines, STEP + r" elapsed (?P<elapsed_s>\S+)")
    assert [(at, ms) for at, ms, _ in rows(run)] == [(at, pytest.approx(ms)) for at, ms in times]
    in_ms = [f"step {at} elapsed {1000 * seconds}" for at, seconds in clock]
    assert read(in_ms, STEP + r" elapsed (?P<elapsed_ms>\S+)")[0].rows == run.rows


BAR = r"(?P<iteration>\d+)/\d+ \[(?P<elapsed_s>[\d:]+)<.*?loss=(?P<loss>[\d.]+)"


def bars(first: int, last: int, step_s: float, pause_s: float = 0.0) -> list[str]:
    lines = []
    for at in range(first, last + 1):
        seconds = int(step_s * at + (pause_s if at >= 150 else 0.0))
        lines.append(f"Epoch 1: {at}/400 [{seconds // 60:02d}:{seconds % 60:02d}<00:10, 9.9it/s, loss={4 - at / 100}]")
    return lines


def test_rows_that_a_clock_of_whole_seconds_cannot_distinguish_get_their_mean() -> None:
    (run,) = read(bars(1, 300, 0.3, pause_s=20.0), BAR)
    assert len(run.rows) == 300
    assert sum(run.rows.ms) == pytest.approx(110_000, abs=1000)
    assert sorted(run.rows.ms)[150] == pytest.approx(300, rel=0.02)
    assert max(range(300), key=lambda index: run.rows.ms[index]) == 149
    assert run.rows[0].loss == 3.99
    assert [each.code for each in run.caveats] == ["whole_seconds"]


def test_an_epoch_with_a_bar_of_its_own_is_a_run_of_its_own() -> None:
    runs = read(bars(1, 200, 0.3) + bars(1, 400, 0.3), BAR)
    assert [[run.rows.iteration[0], run.rows.iteration[-1]] for run in runs] == [[1, 200], [1, 400]]
    assert [sum(run.rows.ms) for run in runs] == [pytest.approx(60_000, abs=1000), pytest.approx(120_000, abs=1000)]
    assert [run.restarts for run in runs] == [(), ()]


def test_evaluations_beside_a_clock_of_whole_seconds() -> None:
    lines = bars(1, 100, 2.0)
    lines.insert(50, "at step 50: train 2.1 val 2.2")
    (run,) = read(lines, BAR, r"at step (?P<iteration>\d+): train (?P<train>\S+) val (?P<val>\S+)")
    assert [(each.iteration, each.train, each.val) for each in run.evaluations] == [(50, 2.1, 2.2)]
    assert run.row_contains_evaluation


def test_evaluations_of_a_clock_that_runs_on_are_in_the_row_behind_them() -> None:
    lines = ["step 10 t 1.0", "val 10 3.5", "step 20 t 4.0", "step 30 t 5.0", "val 30 3.1", "step 40 t 8.0"]
    (run,) = read(lines, STEP + r" t (?P<elapsed_s>\S+)", r"val (?P<iteration>\d+) (?P<val>\S+)")
    assert [(each.iteration, each.row) for each in run.evaluations] == [(10, 1), (30, 3)]
    assert (run.rows_cover, run.format) == (10, "pattern_elapsed")


def test_the_tokens_of_an_iteration() -> None:
    def tokens(lines: Iterable[str], pattern: str) -> list[tuple[object, str] | None]:
        facts = [run.facts.get("tokens_per_iteration") for run in read(lines, STEP + pattern)]
        return [fact and (fact.value, fact.origin) for fact in facts]

    rate = [f"step {at} {(ms := 90 + at * 0.77):.2f} ms {65536 / ms * 1000:,.0f} tok/s" for at in range(9)]
    by_rate = r" (?P<ms>\S+) ms (?P<tokens_per_s>\S+)"
    assert tokens(rate, by_rate) == [(65536, "inferred")]
    assert tokens([*rate, "step 9 100.00 ms 500 tok/s"], by_rate) == [None]  # they contradict each other
    floored = [f"step {at} {(ms := 90 + at * 0.77):.4f} ms {int(64 / ms * 1000)} tok/s" for at in range(9)]
    assert tokens(floored, by_rate) == [(64, "inferred")]
    printed = [f"step {at % 3} 90 ms {64 if at < 3 else 32} tokens" for at in range(6)]
    assert tokens(printed, r" (?P<ms>\S+) ms (?P<tokens>\S+)") == [(64, "log"), (32, "log")]
    assert tokens([*printed[:3], "step 4 90 ms 65 tokens"], r" (?P<ms>\S+) ms (?P<tokens>\S+)") == [None]


def test_the_page_lists_every_group() -> None:
    page = (Path(__file__).parents[3] / "docs" / "pattern.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == list(GROUPS)


# --- what is wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patterns", "why"),
    [
        (["("], "--pattern (: missing ): ("),
        ([r"(?P<iteration>\d+)(?=x) (?P<ms>\d+)"], "invalid perl operator: (?="),
        ([r"(\d+)\1"], r"invalid escape sequence: \1"),
        (["step"], "has no group named iteration, such as (?P<iteration>\\d+)"),
        ([STEP], "no group captures a row's time or loss"),
        ([STEP + r" (?P<val>\S+)"], "no group captures a row's time or loss"),
        ([STEP + r" (?P<tokens_per_s>\S+)"], "no group captures a row's time or loss"),
        ([STEP + r" (?P<time>\S+)"], f"unknown group time; use {', '.join(GROUPS)}"),
        ([STEP + r" (?P<ms>\S+) (?P<s>\S+)"], "ms and s both capture the time; keep one"),
        (
            [STEP + r" (?P<ms>\S+)", STEP + r" (?P<elapsed_s>\S+)"],
            "one pattern captures the time per iteration and another",
        ),
    ],
)
def test_a_pattern_that_cannot_be_used(patterns: list[str], why: str) -> None:
    with pytest.raises(UsageError) as refused:
        compile_patterns(patterns)
    assert why in str(refused.value)
    assert "--pattern" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("iter 1 time 5\n", "--pattern matches no line"),
        ("", "--pattern matches no line"),
        ("\nstep 1 time x\nstep 2 time y\n", "--pattern finds no numbers in line 2: step 1 time x"),
        (f"step {'9' * 50} time 1\n", "--pattern finds no numbers in line 1"),
        ("step 1 time -5\nstep 2 time 1e300\n", "--pattern finds no numbers in line 1"),
        ("val 1 3.0\n", "--pattern finds evaluations but no training rows"),
    ],
)
def test_a_log_that_it_does_not_fit(text: str, why: str) -> None:
    with pytest.raises(NotALog) as refused:
        read(text, STEP + r" time (?P<ms>\S+)", r"val (?P<iteration>\d+) (?P<val>\S+)")
    assert why in str(refused.value)


def test_without_re2_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(UsageError, match=r"google-re2: pip install 'nanopace\[pattern\]'"):
        compile_patterns([STEP + r" (?P<ms>\S+)"])


def test_a_hostile_log_does_not_hang_an_innocent_pattern() -> None:
    """Python's own expressions take minutes for these lines: every `step` starts a search for `loss` and `time`."""
    lines = ["step 1 loss 1 " * 4600] * 50 + ["step 1 loss 3.0 time 5"]
    began = time.process_time()
    (run,) = read(lines, STEP + r".*loss (?P<loss>\S+).*time (?P<ms>[\d.]+)")
    assert rows(run) == [(1, 5.0, 3.0)]
    assert time.process_time() - began < 5


def test_rows_of_several_lines() -> None:
    lines = [
        line
        for at in range(4)
        for line in (f"[step={at}/100]", f"    loss={4 - at}", "    other=1", "    rate=2.0", "    rate=9.0", "")
    ]
    patterns = (r"step=(?P<iteration>\d+)", r"loss=(?P<loss>\d)", r"rate=(?P<it_per_s>[\d.]+)")
    (run,) = read(["    loss=9", *lines, "[step=4/100]", "    loss=1"], *patterns)
    assert rows(run) == [(at, 500.0, 4.0 - at) for at in range(4)]  # the last one has no time
    (run,) = read([*lines, "[step=4/100]", "    loss=0", "    val=3.5"], *patterns, r"val=(?P<val>\S+)")
    assert [(each.iteration, each.val) for each in run.evaluations] == [(4, 3.5)]
