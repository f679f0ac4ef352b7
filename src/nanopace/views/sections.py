"""The sections of a terminal report on one run, each a function that writes itself or nothing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from nanopace.diagnosis.result import Diagnosis, SlowRow
from nanopace.views.paper import Cell, Paper, styled
from nanopace.views.report import Report, made_of, notes, parts_of_phases, phase_name, seconds_by_phase
from nanopace.views.sparkline import LETTERS, bar, sparkline
from nanopace.wording.catalog import Words

STYLES = {
    "training": "green",
    "evaluation": "cyan",
    "checkpoint": "magenta",
    **dict.fromkeys(("stall", "restart", "rollback"), "red"),
}


class TerminalReport(Report):
    """A report, and the paper that its sections write on."""

    def __init__(self, diagnosis: Diagnosis, words: Words, paper: Paper, *, verbose: bool) -> None:
        super().__init__(diagnosis, words)
        self.paper = paper
        self.verbose = verbose

    def findings(self, section: str) -> None:
        """Say what belongs to a section and was not said above."""
        for finding in self.unsaid(section):
            self.paper.line(self.text(finding))


def where_the_time_went(report: TerminalReport) -> None:
    """Every second of the wall clock, by phase."""
    words, wall = report.words, report.diagnosis.wall
    report.paper.heading(words.text("Where the time went"))
    room = max(8, report.paper.width - 50)
    rows: list[Sequence[Cell]] = []
    parts = parts_of_phases(report.diagnosis.phases, wall)

    def row(label: str, seconds: float, drawn: Cell) -> None:
        rows.append((label, words.percent(seconds / wall.total_s), words.duration(seconds), drawn))

    for phase, seconds in seconds_by_phase(wall).items():
        if seconds is None and phase == "unknown":
            rows.append((words.phase(phase), "", "?", ""))
        elif seconds:
            drawn = styled(bar(seconds / wall.total_s, room), STYLES.get(phase, ""))
            row(phase_name(report.diagnosis, phase, words), seconds, drawn)
            for part, of_it in parts.get(phase, {}).items():
                row(f"– {words.part(part)}", of_it, "")
    report.paper.table(rows, "lrrl")
    if report.diagnosis.phases is not None and report.diagnosis.phases.checkpoint_background_s:
        beside = words.duration(report.diagnosis.phases.checkpoint_background_s)
        report.paper.line(words.text("Checkpoints were written beside training, in {time}.", time=beside))
    if report.diagnosis.evaluations.contains_checkpoint:
        report.paper.line(words.text("Checkpoints are inside the evaluation's time here."))


def iteration_times(report: TerminalReport) -> None:
    """The sparkline, what its letters mean, and how the baseline moved."""
    words, paper, curves = report.words, report.paper, report.diagnosis.curves
    if not curves.row_ms:
        return
    line = sparkline(curves.row_iteration, curves.row_ms, curves.row_cause, paper.width - 4)
    paper.heading(words.text("Iteration times"))
    paper.line(styled(line.bars))
    if line.causes:
        paper.line(styled(line.marks.rstrip(), "bold"))
        legend = [f"{LETTERS[cause]} {words.cause(cause)}" for cause in line.causes]
        paper.line(words.text("Slow rows: {legend}", legend=", ".join(legend)))
    levels = report.diagnosis.step.levels
    if len(levels) > 1:
        rows = [
            (f"{words.count(level.first_iteration)} – {words.count(level.last_iteration)}", words.ms(level.median_ms))
            for level in levels
        ]
        paper.table(rows, "lr", (words.text("iterations"), words.text("normal step")))
    report.findings("times")


def slow_rows(report: TerminalReport) -> None:
    """Grouped by cause; with --verbose every single one."""
    words, paper, rows = report.words, report.paper, report.diagnosis.slow_rows
    if not rows and not report.unsaid("slow"):
        return
    paper.heading(words.text("Slow rows"))
    if rows and report.verbose:
        _every_slow_row(report)
    elif rows:
        groups: dict[tuple[str, ...], list[SlowRow]] = {}
        for row in rows:
            groups.setdefault(row.causes, []).append(row)
        paper.table([_group(words, causes, members) for causes, members in groups.items()], "Lrrl")
    report.findings("slow")


def _group(words: Words, causes: tuple[str, ...], members: Sequence[SlowRow]) -> Sequence[Cell]:
    rows = sum(row.count for row in members)
    ordered = sorted((row.excess_ms, row.count) for row in members)
    middle = ordered[bisect_right(list(accumulate(count for _, count in ordered)), rows // 2)][0]
    shown = [words.count(row.iteration) for row in members]
    places = ", ".join(shown) if len(shown) <= 4 else f"{', '.join(shown[:3])} … {shown[-1]}"
    return (
        _named(words, causes),
        words.plural("{n} row", "{n} rows", rows),
        f"+{words.duration(middle / 1000)}",
        words.text("at {iterations}", iterations=places),
    )


def _named(words: Words, causes: Iterable[str]) -> str:
    return " + ".join(words.cause(cause) for cause in causes) or words.text("unknown")


def _every_slow_row(report: TerminalReport) -> None:
    words = report.words
    rows = []
    for row in report.diagnosis.slow_rows:
        over = f"+{words.duration(row.excess_ms / 1000)}"
        rows.append((words.count(row.iteration), words.ms(row.ms), over, made_of(row, words)))
    header = (words.text("iteration"), words.text("time"), words.text("over a step"), words.text("made of"))
    report.paper.table(rows, "rrrl", header)


def notes_of_the_trainer(report: TerminalReport) -> None:
    """What it wanted a person to see while it trained."""
    said = notes(report.diagnosis, report.words)
    if said:
        report.paper.heading(report.words.text("Notes of the trainer"))
    for line in said:
        report.paper.line(line, hanging=2)


def advice(report: TerminalReport) -> None:
    """What to change, by what it saves, and at what price."""
    words, paper = report.words, report.paper
    given = [finding for finding in report.diagnosis.findings if finding.advice and not report.said(finding)]
    if not given:
        return
    paper.heading(words.text("Advice"))
    for number, finding in enumerate(given, start=1):
        prefix = f"{number}. " if len(given) > 1 else ""
        paper.line(prefix, report.text(finding), " ", report.saving(finding), hanging=len(prefix))
        cost = words.advice_cost(finding.code, finding.numbers)
        if cost is not None:
            paper.line(words.text("Cost: {cost}.", cost=cost), indent=2 + len(prefix))
