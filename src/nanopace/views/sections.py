"""The sections of a report on one run, in order. Terminal and page show them, each with its own pictures."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from nanopace.diagnosis.result import Diagnosis, SlowRow
from nanopace.views import figures
from nanopace.views.amounts import in_column
from nanopace.views.cost import cost
from nanopace.views.document import Cell, Line, Section, Table, Text
from nanopace.views.report import (
    Report,
    made_of,
    main_cause,
    named_causes,
    parts_of_phases,
    phase_name,
    seconds_by_phase,
)
from nanopace.views.summary import summary
from nanopace.wording.catalog import Words

MOST_SAMPLES = 20  # to show
MOST_NOTES = 8
LONGEST_NOTE = 300  # characters


class Explained:
    """A run as a report: the answer as lines with styles, and the sections by name."""

    def __init__(self, diagnosis: Diagnosis, words: Words, *, verbose: bool = False) -> None:
        self.report = Report(diagnosis, words, verbose=verbose)
        self.answer = summary(self.report)  # first, so that no section repeats it
        writers = (
            *(_wall, cost, _iteration_times, _slow_rows, figures.throughput, figures.utilisation),
            *(figures.loss, figures.known_facts, _samples, _notes, _advice),
        )
        self.sections = {section.name: section for section in (write(self.report) for write in writers)}


def _wall(report: Report) -> Section:
    """Every second of the wall clock, by phase."""
    words, diagnosis, wall, bill = report.words, report.diagnosis, report.diagnosis.wall, report.diagnosis.bill
    money = {} if bill is None else {each.phase: in_column(bill, each.used.money, words) for each in bill.phases}
    if wall.total_s is None:
        return Section("wall", words.text("Where the time went"), [])
    rows: list[Sequence[Text]] = []
    parts = parts_of_phases(diagnosis.phases, wall)
    for phase, seconds in seconds_by_phase(wall).items():
        if seconds is None and phase == "unknown":
            rows.append((Cell(words.phase(phase), shade=phase), "", "?", ""))
        elif seconds:
            share = seconds / wall.total_s
            name = Cell(phase_name(diagnosis, phase, words), shade=phase, share=share)
            rows.append((name, words.percent(share), words.duration(seconds), money.get(phase, "")))
            for part, of_it in parts.get(phase, {}).items():
                cost = "" if bill is None else in_column(bill, bill.money_of(of_it), words)
                rows.append((f"– {words.part(part)}", words.percent(of_it / wall.total_s), words.duration(of_it), cost))
    priced = bill is not None and bill.so_far.money is not None
    head = ("", words.text("share"), words.text("time"), words.text("cost")) if priced else ()
    blocks: list[str | Table] = [Table(rows, "lrrr", head)]
    if diagnosis.phases is not None and diagnosis.phases.checkpoint_background_s:
        beside = words.duration(diagnosis.phases.checkpoint_background_s)
        blocks.append(words.text("Checkpoints were written in the background, in {time}.", time=beside))
    if diagnosis.evaluations.contains_checkpoint:
        blocks.append(words.text("The evaluation time here includes checkpoints."))
    return Section("wall", words.text("Where the time went"), blocks)


def _iteration_times(report: Report) -> Section:
    """The levels of the baseline. The views draw the times themselves."""
    words, levels = report.words, report.diagnosis.step.levels
    blocks: list[str | Table] = []
    if len(levels) > 1:
        rows = [
            (f"{words.count(level.first_iteration)} – {words.count(level.last_iteration)}", words.ms(level.median_ms))
            for level in levels
        ]
        blocks.append(Table(rows, "lr", (words.text("iterations"), words.text("normal step"))))
    return Section("times", words.text("Iteration times"), [*blocks, *report.lines("times")])


def _slow_rows(report: Report) -> Section:
    """Slow rows grouped by cause; with --verbose, every single one."""
    words, run, rows = report.words, report.diagnosis, report.diagnosis.slow_rows
    blocks: list[str | Table] = []
    if rows and report.verbose:
        blocks.append(every_slow_row(rows, words, run))
    elif rows:
        blocks.append(slow_groups(rows, words, run))
    return Section("slow", words.text("Slow rows"), [*blocks, *report.lines("slow")])


def slow_groups(rows: Sequence[SlowRow], words: Words, run: Diagnosis) -> Table:
    """For each cause: how many rows it made slow, by how much, and where."""
    groups: dict[tuple[str, ...], list[SlowRow]] = {}
    for row in rows:
        groups.setdefault(row.causes, []).append(row)
    return Table([_group(words, members, run) for members in groups.values()], "Lrrl")


def _group(words: Words, members: Sequence[SlowRow], run: Diagnosis) -> Sequence[Text]:
    rows = sum(row.count for row in members)
    ordered = sorted((row.excess_ms, row.count) for row in members)
    middle = ordered[bisect_right(list(accumulate(count for _, count in ordered)), rows // 2)][0]
    shown = [words.count(row.iteration) for row in members]
    places = ", ".join(shown) if len(shown) <= 4 else f"{', '.join(shown[:3])} … {shown[-1]}"
    return (
        Cell(named_causes(members[0], words, run), shade=main_cause(members[0])),
        words.plural("{n} row", "{n} rows", rows),
        f"+{words.duration(middle / 1000)}",
        words.text("at {iterations}", iterations=places),
    )


def every_slow_row(rows: Sequence[SlowRow], words: Words, run: Diagnosis) -> Table:
    """The time of each slow row, and what it consists of."""
    shown = [
        (
            words.count(row.iteration),
            words.ms(row.ms),
            f"+{words.duration(row.excess_ms / 1000)}",
            Cell(made_of(row, words, run), shade=main_cause(row)),
        )
        for row in rows
    ]
    head = (words.text("iteration"), words.text("time"), words.text("beyond a step"), words.text("consists of"))
    return Table(shown, "rrrl", head)


def _notes(report: Report) -> Section:
    """What the trainer printed for the user while it trained, each with its iteration, and how much more there is."""
    words, notes = report.words, report.diagnosis.notes
    lines = []
    for note in notes[:MOST_NOTES]:
        text = words.from_english(note.text)
        text = text if len(text) <= LONGEST_NOTE else f"{text[:LONGEST_NOTE]} …"
        lines.append(f"{words.text('iteration {iteration}', iteration=note.iteration)}: {text}")
    if left := len(notes) - len(lines):
        lines.append(words.plural("{n} more is in the JSON.", "{n} more are in the JSON.", left))
    return Section("notes", words.text("Trainer messages"), [Line((line,), hanging=2) for line in lines])


def _samples(report: Report) -> Section:
    """Text that the model generated, newest first: on the page, and with --verbose."""
    words, written = report.words, report.diagnosis.samples if report.verbose else ()
    newest = sorted(written[-MOST_SAMPLES:], key=lambda sample: -sample.iteration)
    shown = [(words.count(sample.iteration), sample.text) for sample in newest]
    blocks: list[str | Table] = [Table(shown, "rl", (words.text("iteration"), words.text("text")))] if shown else []
    if left := len(written) - len(shown):
        blocks.append(words.plural("{n} more is in the JSON.", "{n} more are in the JSON.", left))
    return Section("samples", words.text("Samples"), blocks)


def _advice(report: Report) -> Section:
    """What to change, with what it saves and what it costs."""
    words = report.words
    given = [finding for finding in report.diagnosis.findings if finding.advice and not report.said(finding)]
    blocks = []
    for number, finding in enumerate(given, start=1):
        prefix = f"{number}. " if len(given) > 1 else ""
        blocks.append(Line((prefix, report.text(finding), " ", report.saving(finding)), hanging=len(prefix)))
        drawback = words.advice_cost(finding.code, finding.numbers)
        if drawback is not None:
            blocks.append(Line((words.text("Trade-off: {cost}.", cost=drawback),), indent=len(prefix)))
    return Section("advice", words.text("Advice"), blocks)
