"""The sections of a terminal report on one run, each a function that writes itself or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nanopace.diagnosis.result import Diagnosis, Finding, SlowRow
from nanopace.views.paper import Cell, Paper, styled
from nanopace.views.sparkline import LETTERS, bar, sparkline
from nanopace.wording.catalog import Words

# Under which section a finding is said. Advice has a section of its own.
SECTIONS: Mapping[str, tuple[str, ...]] = {
    "times": (
        "no_plain_row",
        "level_shift",
        "memory_spill",
        "drift",
        "ended_out_of_memory",
        "ended_error",
        "ended_interrupted",
    ),
    "slow": (
        *("evaluation_rows", "checkpoint_measured", "checkpoint_bounded", "checkpoint_unknown"),
        *("startup", "startup_unsplit", "checkpoint_not_first"),
        *("hidden_evaluations", "hidden_unpriced", "evaluations_outside_clock"),
        *("periodic_stalls", "stalls", "uneven_rows", "restarts"),
    ),
    "throughput": ("tokens_unknown",),
    "gpu": (
        *("utilisation_near_limit", "utilisation_good", "utilisation_half_idle", "utilisation_mostly_idle"),
        *("card_above_peak", "card_without_peak", "mfu_other_card", "mfu_card_unknown", "mfu_over_100"),
        *("mfu_zero", "mfu_smoothed", "mfu_unknown"),
    ),
    "loss": ("loss_diverged", "overfitting", "best_not_saved", "loss_noise", "forecast"),
    "known": ("conflict",),
}

# The facts behind the numbers of findings: a number is marked where one of its facts is inferred.
RESTS_ON: Mapping[str, tuple[str, ...]] = {
    "card": ("flops_per_token", "tokens_per_iteration"),
    "achieved_tflops": ("flops_per_token", "tokens_per_iteration"),
    "from_interval": ("eval_interval",),
    "eval_interval": ("eval_interval",),
    "log_interval": ("log_interval",),
    "from_iters": ("eval_iters",),
}
STYLES = {"training": "green", "evaluation": "cyan", "checkpoint": "magenta", "stall": "red", "restart": "red"}


class Report:
    """One run's report: what the sections share, and which findings have been said."""

    def __init__(self, diagnosis: Diagnosis, words: Words, paper: Paper, *, verbose: bool) -> None:
        self.diagnosis = diagnosis
        self.words = words
        self.paper = paper
        self.verbose = verbose
        self._said: list[Finding] = []  # not by code: a run may have two level shifts

    def find(self, *codes: str) -> Finding | None:
        """The first finding of these codes, in the order of the codes."""
        found = {finding.code: finding for finding in reversed(self.diagnosis.findings)}
        return next((found[code] for code in codes if code in found), None)

    def sentence(self, finding: Finding) -> str:
        """Its sentence; it will not be said a second time."""
        self._said.append(finding)
        return self.text(finding)

    def text(self, finding: Finding) -> str:
        """Its sentence, what rests on inferred facts marked."""
        numbers: dict[str, object] = dict(finding.numbers)
        for name, facts in RESTS_ON.items():
            if numbers.get(name) is not None and self.tilde(*facts):
                numbers[name] = "~" + self.words.value(name, numbers[name])
        return self.words.finding(finding.code, numbers)

    def skip(self, code: str) -> None:
        """Do not say this any more."""
        self._said += [finding for finding in self.diagnosis.findings if finding.code == code]

    def said(self, finding: Finding) -> bool:
        return any(finding is said for said in self._said)

    def findings(self, section: str) -> None:
        """What belongs to a section and was not said above."""
        for code in SECTIONS[section]:
            for finding in self.diagnosis.findings:
                if finding.code == code and not self.said(finding):
                    self.paper.line(self.text(finding))

    def has_findings(self, section: str) -> bool:
        return any(finding.code in SECTIONS[section] and not self.said(finding) for finding in self.diagnosis.findings)

    def tilde(self, *facts: str) -> str:
        """The mark of a figure that rests on an inferred fact."""
        known = (self.diagnosis.facts.get(name) for name in facts)
        return "~" if any(fact is not None and fact.origin == "inferred" for fact in known) else ""


def where_the_time_went(report: Report) -> None:
    """Every second of the wall clock, by phase."""
    words, wall = report.words, report.diagnosis.wall
    parts = {
        "training": wall.training_s,
        "evaluation": wall.evaluation_s,
        "checkpoint": wall.checkpoint_s,
        "startup": wall.startup_s,
        "stall": wall.stall_s,
        "restart": wall.restart_s,
        "unknown": wall.unknown_s,
    }
    report.paper.heading(words.text("Where the time went"))
    room = max(8, report.paper.width - 50)
    rows: list[Sequence[Cell]] = []
    for phase, seconds in parts.items():
        if seconds is None and phase == "unknown":
            rows.append((words.phase(phase), "", "?", ""))
        elif seconds:
            share = seconds / wall.total_s if wall.total_s else 0.0
            columns = (words.phase(phase), words.percent(share), words.duration(seconds))
            rows.append((*columns, styled(bar(share, room), STYLES.get(phase, ""))))
    report.paper.table(rows, "lrrl")
    if wall.checkpoint_s is None and report.diagnosis.checkpoints.count:
        report.paper.line(words.text("Checkpoints are inside the evaluation's time here."))


def iteration_times(report: Report) -> None:
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


def slow_rows(report: Report) -> None:
    """Grouped by cause; with --verbose every single one."""
    words, paper, rows = report.words, report.paper, report.diagnosis.slow_rows
    if not rows and not report.has_findings("slow"):
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
    middle = sorted(row.excess_ms for row in members)[len(members) // 2]
    shown = [words.count(row.iteration) for row in members]
    places = ", ".join(shown) if len(shown) <= 4 else f"{', '.join(shown[:3])} … {shown[-1]}"
    return (
        _named(words, causes),
        words.plural("{n} row", "{n} rows", len(members)),
        f"+{words.duration(middle / 1000)}",
        words.text("at {iterations}", iterations=places),
    )


def _named(words: Words, causes: Iterable[str]) -> str:
    return " + ".join(words.cause(cause) for cause in causes) or words.text("unknown")


def _every_slow_row(report: Report) -> None:
    words = report.words
    rows = []
    for row in report.diagnosis.slow_rows:
        parts = [f"{words.cause(cause)} {words.duration(ms / 1000)}" for cause, ms in row.parts_ms.items()]
        made_of = ", ".join(parts) or _named(words, row.causes)
        rows.append((words.count(row.iteration), words.ms(row.ms), f"+{words.duration(row.excess_ms / 1000)}", made_of))
    header = (words.text("iteration"), words.text("time"), words.text("over a step"), words.text("made of"))
    report.paper.table(rows, "rrrl", header)


def advice(report: Report) -> None:
    """What to change, by what it saves, and at what price."""
    words, paper = report.words, report.paper
    given = [finding for finding in report.diagnosis.findings if finding.advice and not report.said(finding)]
    if not given:
        return
    paper.heading(words.text("Advice"))
    for number, finding in enumerate(given, start=1):
        prefix = f"{number}. " if len(given) > 1 else ""
        paper.line(prefix, report.text(finding), " ", saving(words, finding), hanging=len(prefix))
        cost = words.advice_cost(finding.code, finding.numbers)
        if cost is not None:
            paper.line(words.text("Cost: {cost}.", cost=cost), indent=2 + len(prefix))


def saving(words: Words, finding: Finding) -> str:
    """What an advice would have saved in this run; empty where that is unknown."""
    if finding.saves_s is None:
        return ""
    if finding.saves_share is None:
        return words.text("Saves {time}.", time=words.duration(finding.saves_s))
    return words.text(
        "Saves {time} ({share}).", time=words.duration(finding.saves_s), share=words.percent(finding.saves_share)
    )
