"""A report as one self-contained HTML file: no network, no fonts, no second file.

Its sections are those of the terminal. This module prepares what the templates are given; render.py makes the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nanopace.diagnosis.comparison import Comparison
from nanopace.diagnosis.result import Diagnosis
from nanopace.record import replace
from nanopace.views.document import Section, run_colour, run_letter
from nanopace.views.figures import facts_table, forecasts
from nanopace.views.key_figures import key_figures
from nanopace.views.page import charts, wall_timeline
from nanopace.views.page.charts import Chart
from nanopace.views.page.gpu_charts import gpu_charts
from nanopace.views.page.health import health
from nanopace.views.page.labels import headings
from nanopace.views.page.loss_charts import loss_charts
from nanopace.views.page.render import Page
from nanopace.views.page.slow_list import list_slow_rows
from nanopace.views.page.speed_charts import mfu_chart, tokens_chart
from nanopace.views.page.waterfall import Bar
from nanopace.views.report import Report, cause_name, phase_name, seconds_by_phase, span_of
from nanopace.views.sections import Explained
from nanopace.wording.catalog import Words

if TYPE_CHECKING:
    from nanopace.views.compare.pair import Pair

# In the order of the page.
SECTIONS = ("advice", "wall", "cost", "times", "slow", "throughput", "gpu", "loss", "samples", "known", "notes")
LEAST_SHARE = 0.001  # of the wall clock: shorter phases are only in the table
# The kind of each line of the answer, by its terminal style.
KINDS = {"bold": "reading", "bold red": "alarm", "bold green": "advice"}


@dataclass(frozen=True, slots=True)
class Made:
    """When a page was made, and by which command."""

    at: str  # in HTML's date format
    date: str
    command: str


def explain_page(diagnoses: Sequence[Diagnosis], words: Words, made: Made | None = None) -> str:
    return explained(diagnoses, words, made).html()


def compare_page(comparisons: Sequence[Comparison], words: Words, made: Made | None = None) -> str:
    return overlaid(comparisons, words, made).html()


def explained(diagnoses: Sequence[Diagnosis], words: Words, made: Made | None = None, *, live: bool = False) -> Page:
    """One run, or several below each other."""
    drawn: dict[str, Chart] = {}
    runs = [explained_run(run, words, drawn, number, live=live) for number, run in enumerate(diagnoses)]
    title = ", ".join(run.source.name for run in diagnoses)
    return Page("explain.html", words, drawn, {"title": title, "runs": runs, "made": made})


def overlaid(comparisons: Sequence[Comparison], words: Words, made: Made | None = None) -> Page:
    """Every run compared with the first."""
    from nanopace.views.compare.pair import letter_pairs, runs_of
    from nanopace.views.page.arrival_charts import arrival_charts  # the page of one run does not need these

    everyone = runs_of(comparisons)
    drawn: dict[str, Chart] = {}
    overlays = (
        *arrival_charts(comparisons, words),
        charts.times_chart(everyone, words),
        *loss_charts(everyone, words, comparisons),
        tokens_chart(everyone, words),
        mfu_chart(everyone, words),
    )
    say = headings(words)
    placed = [_placed(chart, drawn, "all") for chart in overlays if chart is not None]
    many = len(everyone) > 2
    pairs = [
        {"id": f"pair-{number}", **compared(pair, in_a_list=many)}
        for number, pair in enumerate(letter_pairs(comparisons, words))
    ]
    content = {
        "title": " / ".join(run.source.name for run in everyone),
        "heading_of_many": words.text("{n} training runs, compared", n=len(everyone)) if many else "",
        "runs": [_introduced(number, run, words) for number, run in enumerate(everyone)],
        "ranking": _ranked(everyone, words) if many else None,
        "charts": placed,
        "pairs": pairs,
        "contents": [
            *([("curves", say["curves"])] if len(placed) > 1 else []),
            *((pair["id"], f"{pair['b']} {say['against']} {pair['a']}") for pair in pairs),
            ("facts", say["facts"]),
        ],
        "made": made,
    }
    return Page("compare.html", words, drawn, content)


def waterfall_page(
    title: str, answer: Sequence[str], bars: Sequence[Bar], sections: Sequence[Section], words: Words
) -> str:
    """How one figure becomes another: the bars are in the first section."""
    content = {"title": title, "answer": answer, "bars": bars, "sections": sections}
    return Page("waterfall.html", words, {}, content).html()


# --- what the templates are given ------------------------------------------------------------------------------------


def explained_run(
    run: Diagnosis, words: Words, drawn: dict[str, Chart], number: int = 0, *, live: bool = False
) -> dict[str, object]:
    """What run.html is given; adds the run's charts to `drawn`."""

    def placed(*found: Chart | None) -> list[dict[str, object]]:
        return [_placed(chart, drawn, f"run{number}") for chart in found if chart is not None]

    explained = Explained(run, words, verbose=True)
    report = explained.report
    identity, prefix = f"run-{number}", f"run-{number}-" if number else ""
    slow, listed = list_slow_rows(explained.sections["slow"], run, words, f"#{prefix}iteration-", live=live)
    sections = {
        **explained.sections,
        "slow": slow,
        "loss": _with_forecasts(explained.sections["loss"], report),
        "known": _with_table(explained.sections["known"], report),
    }
    pictures = {
        "times": placed(charts.times_chart([run], words)),
        "throughput": placed(tokens_chart([run], words)),
        "gpu": placed(mfu_chart([run], words), *gpu_charts(run, words)),
        "loss": placed(*loss_charts([run], words)),
    }
    state, parts = health(run, words), strip(run, words)
    shown = next((name for name in (state.picture, "times", "loss") if pictures.get(name)), "wall" if parts else None)
    if state.picture == "wall" and parts:
        shown = "wall"
    proof = pictures[shown].pop(0) if shown in pictures else None
    return {
        "id": identity,
        "hash": f"{prefix}iteration-",
        "name": run.source.name,
        "label": f"{run.source.name} ({number + 1})" if number else run.source.name,  # names may be equal
        "about": about(run, words),
        "health": state,
        "answer": [(line, KINDS.get(style, "")) for line, style in explained.answer[1:]],  # the first is the title
        "picture": shown,
        "proof": proof,
        "figures": key_figures(report),
        "strip": parts,
        "timeline": _timeline(run, words),
        "ends": (words.number(0), words.duration(run.wall.total_s)),
        "charts": pictures,
        "times_note": _times_note(run, words),
        "sections": sections,
        "contents": [
            (name, sections[name].heading) for name in SECTIONS if sections[name].blocks or pictures.get(name)
        ],
        "slow": listed,
    }


def _with_forecasts(section: Section, report: Report) -> Section:
    table = forecasts(report)
    return replace(section, blocks=[*section.blocks, *([table] if table else [])])


def _with_table(known: Section, report: Report) -> Section:
    """All facts as a table instead of the terminal's lines."""
    table = [facts_table(report)] if report.diagnosis.facts else []
    return replace(known, blocks=[*table, *(each for each in known.blocks if isinstance(each, str))])


def _times_note(run: Diagnosis, words: Words) -> str:
    if run.source.rows > len(run.curves.row_ms):
        return words.text("A mark may stand for several rows of the log; slow rows show their cause.")
    return words.text("Each mark is one row of the log; slow rows show their cause.")


def _introduced(number: int, run: Diagnosis, words: Words) -> dict[str, object]:
    return {
        "letter": run_letter(number),
        "shade": run_colour(number),
        "name": run.source.name,
        "about": about(run, words),
        "facts": facts_table(Report(run, words)),
    }


def _ranked(runs: Sequence[Diagnosis], words: Words) -> dict[str, object]:
    """The order of three or more runs, and the table that shows it."""
    from nanopace.diagnosis.compare.ranking import rank
    from nanopace.views.compare.costs import cost_remarks
    from nanopace.views.compare.ranking import headline, ranked_table, table_notes  # fewer runs do not need it

    ranking = rank(runs)
    return {
        "says": headline(ranking, words),
        "blocks": [ranked_table(ranking, runs, words), *table_notes(ranking, words), *cost_remarks(runs, words)],
    }


def compared(pair: Pair, *, in_a_list: bool = False) -> dict[str, object]:
    """What two runs show. In a list of pairs, what holds for all of them has been said above it."""
    from nanopace.views.compare.costs import cost_verdict
    from nanopace.views.compare.pair import CAVEAT
    from nanopace.views.compare.pair_sections import details, figures

    sections = [figures(pair), *details(pair, verbose=True)]
    letters = pair.a, pair.b
    findings = [each for each in pair.verdict() if not (in_a_list and each.code in CAVEAT)]
    verdict = [*map(pair.sentence, findings), *cost_verdict(pair.found, pair.words, letters)]
    said = {line for section in sections for line in section.blocks if isinstance(line, str)} | {*verdict}
    others = [line for finding in pair.found.findings if (line := pair.sentence(finding)) not in said]
    return {"a": pair.a, "b": pair.b, "verdict": verdict, "others": others, "sections": sections}


def about(run: Diagnosis, words: Words) -> str:
    parts = span_of(run, words)
    if run.source.ending is not None:
        parts.append(words.ending(run.source.ending))
    return " · ".join(parts)


def strip(run: Diagnosis, words: Words) -> list[dict[str, object]]:
    """The phases that took any time, with their shares of the wall clock."""
    total = run.wall.total_s
    shares = [
        (phase, seconds, seconds / total if total else 0.0)
        for phase, seconds in seconds_by_phase(run.wall).items()
        if seconds is not None and seconds > 0
    ]
    return [
        {
            "phase": phase,
            "share": f"{share:.6f}",
            "drawn": share >= LEAST_SHARE,
            "says": f"{phase_name(run, phase, words)}: {words.duration(seconds)} ({words.percent(share, 1)})",
        }
        for phase, seconds, share in shares
    ]


def _timeline(run: Diagnosis, words: Words) -> list[dict[str, object]]:
    return [
        {
            "cause": moment.cause,
            "start": f"{moment.start:.6f}",
            "width": f"{moment.width:.6f}",
            "says": _moment_text(moment, words, run),
        }
        for moment in wall_timeline.timeline(run)
    ]


def _moment_text(moment: wall_timeline.Moment, words: Words, run: Diagnosis) -> str:
    """Sleep is not the cause of a slow row but a part of the wall clock."""
    name = words.phase(moment.cause) if moment.cause == "suspended" else cause_name(moment.cause, words, run)
    many = f"{words.count(moment.count)} × " if moment.count > 1 else ""
    return f"{many}{name}: {words.duration(moment.seconds)}"


def _placed(chart: Chart, drawn: dict[str, Chart], prefix: str) -> dict[str, object]:
    """Register a chart under the key by which the script finds its data."""
    key = f"{prefix}-{chart.name}"
    drawn[key] = chart
    return {"key": key, "title": chart.title, "clipped": chart.y_top is not None, "small": chart.small}
