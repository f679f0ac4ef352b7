"""A report as one HTML file that needs nothing else: no network, no fonts, no second file.

Its sections are those of the terminal; their looks, and the page's own pictures, are in templates/ and assets/.
Whatever stands in a log is hostile until shown otherwise: Jinja escapes it in the text, `_script_safe` in the data of
the charts, and the page's own policy forbids the browser to load anything, and to run anything but the scripts that are
ours, known by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from nanopace.diagnosis.comparison import Comparison
from nanopace.diagnosis.result import Diagnosis
from nanopace.record import replace
from nanopace.version import __version__
from nanopace.views import charts, wall_timeline
from nanopace.views.charts import Chart
from nanopace.views.document import Block, Line, Section, Table, run_colour, run_letter
from nanopace.views.figures import facts_table, forecasts
from nanopace.views.key_figures import key_figures
from nanopace.views.loss_charts import loss_charts
from nanopace.views.report import Report, phase_name, span_of
from nanopace.views.sections import Explained
from nanopace.views.waterfall import Bar
from nanopace.wording.catalog import Words
from nanopace.wording.printable import visible

if TYPE_CHECKING:
    from nanopace.views.pair import Pair

ROOM = Path(__file__).parent
SCRIPTS = ("uPlot.iife.min.js", "numbers.js", "report.js")
DIGITS = 7  # of a point in a chart: more than any screen can show
MOST_SLOW_ROWS = 500  # in a page; the JSON has them all


def explain_page(diagnoses: Sequence[Diagnosis], words: Words) -> str:
    """One run, or several below each other."""
    drawn: dict[str, Chart] = {}
    runs = [_explained(run, words, drawn, f"run{number}") for number, run in enumerate(diagnoses)]
    title = ", ".join(run.source.name for run in diagnoses)
    return _render("explain.html", words, drawn, title=title, runs=runs)


def compare_page(comparisons: Sequence[Comparison], words: Words) -> str:
    """Every run against the first."""
    from nanopace.views.pair import letter_pairs
    from nanopace.views.time_to_loss import arrival_charts  # the page of one run does without these

    everyone = [comparisons[0].a, *(pair.b for pair in comparisons)]
    drawn: dict[str, Chart] = {}
    overlays = (
        *arrival_charts(comparisons, words),
        charts.times_chart(everyone, words),
        *loss_charts(everyone, words, comparisons),
        charts.mfu_chart(everyone, words),
    )
    return _render(
        "compare.html",
        words,
        drawn,
        title=" / ".join(run.source.name for run in everyone),
        runs=[_introduced(number, run, words) for number, run in enumerate(everyone)],
        ranking=_ranked(comparisons, words),
        charts=[_placed(chart, drawn, "all") for chart in overlays if chart is not None],
        pairs=[compared(pair) for pair in letter_pairs(comparisons, words)],
    )


def waterfall_page(
    title: str, answer: Sequence[str], bars: Sequence[Bar], sections: Sequence[Section], words: Words
) -> str:
    """How one figure becomes another: the bars stand in the first section."""
    return _render("waterfall.html", words, {}, title=title, answer=answer, bars=bars, sections=sections)


# --- what the templates are given ------------------------------------------------------------------------------------


def _explained(run: Diagnosis, words: Words, drawn: dict[str, Chart], prefix: str) -> dict[str, object]:
    def placed(*found: Chart | None) -> list[dict[str, object]]:
        return [_placed(chart, drawn, prefix) for chart in found if chart is not None]

    explained = Explained(run, words, verbose=True)
    report, sections = explained.report, explained.sections
    return {
        "name": run.source.name,
        "about": about(run, words),
        "answer": [line for line, _ in explained.answer[1:]],  # the first one is the title
        "figures": key_figures(report),
        "strip": strip(run, words),
        "timeline": _timeline(run, words),
        "ends": (words.number(0), words.duration(run.wall.total_s)),
        "charts": {
            "times": placed(charts.times_chart([run], words)),
            "gpu": placed(charts.mfu_chart([run], words)),
            "loss": placed(*loss_charts([run], words)),
        },
        "times_note": _times_note(run, words),
        "sections": {
            **sections,
            "slow": _first_slow_rows(sections["slow"], run, words),
            "loss": _with_forecasts(sections["loss"], report),
            "known": _with_table(sections["known"], report),
        },
    }


def _first_slow_rows(section: Section, run: Diagnosis, words: Words) -> Section:
    """As far as a page can hold them."""
    left = sum(row.count for row in run.slow_rows[MOST_SLOW_ROWS:])
    if not left:
        return section
    table, *lines = section.blocks
    assert isinstance(table, Table)
    del table.rows[MOST_SLOW_ROWS:]
    more = words.plural("{n} more row is in the JSON.", "{n} more rows are in the JSON.", left)
    return replace(section, blocks=[table, more, *lines])


def _with_forecasts(section: Section, report: Report) -> Section:
    table = forecasts(report)
    return replace(section, blocks=[*section.blocks, *([table] if table else [])])


def _with_table(known: Section, report: Report) -> Section:
    """All facts as a table, where the terminal has lines of them."""
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


def _ranked(comparisons: Sequence[Comparison], words: Words) -> dict[str, object] | None:
    """The order of three runs and more, and the table that shows it."""
    if len(comparisons) < 2:
        return None
    from nanopace.diagnosis.compare.ranking import rank
    from nanopace.views.ranking import headline, ranked_table, table_notes  # fewer runs do without it

    runs = [comparisons[0].a, *(pair.b for pair in comparisons)]
    ranking = rank(runs)
    return {
        "says": headline(ranking, words),
        "blocks": [ranked_table(ranking, runs, words), *table_notes(ranking, words)],
    }


def compared(pair: Pair) -> dict[str, object]:
    from nanopace.views.pair import details, figures

    sections = [figures(pair), *details(pair, verbose=True)]
    verdict = [pair.sentence(finding) for finding in pair.verdict()]
    said = {line for section in sections for line in section.blocks if isinstance(line, str)} | {*verdict}
    others = [line for finding in pair.found.findings if (line := pair.sentence(finding)) not in said]
    return {"a": pair.a, "b": pair.b, "verdict": verdict, "others": others, "sections": sections}


def about(run: Diagnosis, words: Words) -> str:
    parts = span_of(run, words)
    if run.source.ending is not None:
        parts.append(words.ending(run.source.ending))
    return " · ".join(parts)


def strip(run: Diagnosis, words: Words) -> list[dict[str, object]]:
    return [
        {
            "phase": part.phase,
            "share": f"{part.share:.6f}",
            "drawn": part.share >= wall_timeline.LEAST_SHARE,
            "says": f"{phase_name(run, part.phase, words)}: {words.duration(part.seconds)} "
            f"({words.percent(part.share, 1)})",
        }
        for part in wall_timeline.wall_parts(run)
    ]


def _timeline(run: Diagnosis, words: Words) -> list[dict[str, object]]:
    return [
        {
            "cause": moment.cause,
            "start": f"{moment.start:.6f}",
            "width": f"{moment.width:.6f}",
            "says": _moment_text(moment, words),
        }
        for moment in wall_timeline.timeline(run)
    ]


def _moment_text(moment: wall_timeline.Moment, words: Words) -> str:
    """Sleep is no cause of a slow row, but a part of the wall clock."""
    name = words.phase(moment.cause) if moment.cause == "suspended" else words.cause(moment.cause)
    many = f"{words.count(moment.count)} × " if moment.count > 1 else ""
    return f"{many}{name}: {words.duration(moment.seconds)}"


def _placed(chart: Chart, drawn: dict[str, Chart], prefix: str) -> dict[str, object]:
    """Give a chart its place: the key under which the script finds its data."""
    key = f"{prefix}-{chart.name}"
    drawn[key] = chart
    return {"key": key, "title": chart.title, "clipped": chart.y_top is not None}


# --- the file --------------------------------------------------------------------------------------------------------


@cache
def templates() -> Environment:
    """One for all pages: to compile the templates takes longer than to fill them."""
    environment = Environment(
        loader=FileSystemLoader(ROOM / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["grouped"] = _grouped
    return environment


def _render(template: str, words: Words, drawn: dict[str, Chart], **content: object) -> str:
    page = (
        templates()
        .get_template(template)
        .render(
            lang=words.lang,
            say=headings(words),
            data=_script_safe(_data(drawn, words)),
            asset=asset,
            scripts=" ".join(map(_permission, SCRIPTS)),
            version=__version__,
            **content,
        )
    )
    return visible(page)


def _grouped(blocks: Sequence[Block]) -> list[tuple[list[Table], list[Line]]]:
    """Neighbours of a kind together: of each pair one list is empty."""
    groups: list[tuple[list[Table], list[Line]]] = []
    for is_table, members in groupby(blocks, lambda block: isinstance(block, Table)):
        each = list(members)
        tables = [block for block in each if isinstance(block, Table)]
        lines = [block if isinstance(block, Line) else Line((str(block),)) for block in each if not is_table]
        groups.append((tables, lines))
    return groups


def headings(words: Words) -> dict[str, str]:
    """The words that the templates themselves need."""
    return {
        "explained": words.text("A training run, explained"),
        "compared": words.text("Training runs, compared"),
        "runs": words.text("Runs"),
        "answer": words.text("The answer"),
        "figures": words.text("Key figures"),
        "in_order": words.text("The same in the order in which it happened"),
        "hint": words.text("Point at a chart for its values; drag to zoom, double-click to zoom out."),
        "slow": words.text("Every slow row"),
        "clipped": words.text("The start of the run rises above the frame."),
        "facts": words.text("What is known, and how"),
        "curves": words.text("The runs overlaid"),
        "against": words.text("against"),
        "noscript": words.text("The charts need JavaScript. The tables say the same without it."),
        "made": words.text("Made by nanopace {version}. This file is complete: it loads nothing.", version=__version__),
    }


def _data(drawn: dict[str, Chart], words: Words) -> dict[str, object]:
    return {
        "lang": words.lang,
        "perplexity": words.text("perplexity"),
        "units": {"ms": "ms", "s": "s", "min": "min", "h": words.text("h"), "d": words.text("d")},
        "charts": {key: _drawable(chart) for key, chart in drawn.items()},
    }


def _drawable(chart: Chart) -> dict[str, object]:
    plain = asdict(chart)
    for series in plain["series"]:
        series["label"] = visible(series["label"])
        kept = [column for column in ("x", "y", "low", "high") if series[column]]
        points = zip(*([_short(value) for value in series[column]] for column in kept), strict=True)
        ordered = sorted((point for point in points if point[0] is not None), key=lambda point: point[0])
        for place, column in enumerate(kept):
            series[column] = [point[place] for point in ordered]
    return plain


def _short(value: float | None) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.{DIGITS}g}")


def _script_safe(data: object) -> Markup:
    """JSON that cannot end the script element it stands in, nor start a comment or another one."""
    text = json.dumps(data, allow_nan=False)  # ASCII: U+2028 and U+2029 are escaped, too
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def asset(name: str) -> Markup:
    """A file of our own, as it is."""
    return Markup((ROOM / "assets" / name).read_text("utf-8"))


def _permission(script: str) -> Markup:
    """For the page's policy: this very script may run. Another one may not, wherever it came from."""
    digest = hashlib.sha256(visible(asset(script)).encode()).digest()
    return Markup(f"'sha256-{base64.b64encode(digest).decode()}'")
