"""A report as one HTML file that needs nothing else: no network, no fonts, no second file.

All words are made here and in `tables`, all looks are in templates/ and assets/. Whatever stands in a log is hostile
until shown otherwise: Jinja escapes it in the text, `_script_safe` in the data of the charts, and the page's own policy
forbids the browser to load anything, and to run anything but the scripts that are ours, known by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from nanopace.diagnosis.comparison import Comparison
from nanopace.diagnosis.result import Diagnosis
from nanopace.version import __version__
from nanopace.views import charts, pair_tables, strip, tables
from nanopace.views.answer import begin_report, key_figures
from nanopace.views.charts import Chart
from nanopace.views.comparing import Pair
from nanopace.views.loss_charts import loss_charts
from nanopace.views.report import SECTIONS, Report, notes, phase_name, span_of
from nanopace.views.waterfall import Bar
from nanopace.wording.catalog import Words

ROOM = Path(__file__).parent
INVISIBLE = dict.fromkeys([*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), *range(0x7F, 0xA0)])
INVISIBLE |= dict.fromkeys([0x061C, 0x200B, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF])
SCRIPTS = ("uPlot.iife.min.js", "numbers.js", "report.js")
DIGITS = 7  # of a point in a chart: more than any screen can show


def explain_page(diagnoses: Sequence[Diagnosis], words: Words) -> str:
    """One run, or several below each other."""
    drawn: dict[str, Chart] = {}
    runs = [_explained(run, words, drawn, f"run{number}") for number, run in enumerate(diagnoses)]
    title = ", ".join(run.source.name for run in diagnoses)
    return _render("explain.html", words, drawn, title=title, runs=runs)


def compare_page(comparisons: Sequence[Comparison], words: Words) -> str:
    """Every run against the first."""
    from nanopace.views.arriving import arrival_charts  # the page of one run does without it

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
        pairs=[_compared(pair, number, words) for number, pair in enumerate(comparisons, start=1)],
    )


def waterfall_page(
    title: str, kind: str, answer: Sequence[str], bars: Sequence[Bar], shown: Sequence[tables.Table], words: Words
) -> str:
    """How one figure becomes another. `kind`: what sort of page it is."""
    return _render("waterfall.html", words, {}, title=title, kind=kind, answer=answer, bars=bars, tables=shown)


# --- what the templates are given ------------------------------------------------------------------------------------


def _explained(run: Diagnosis, words: Words, drawn: dict[str, Chart], prefix: str) -> dict[str, object]:
    def placed(chart: Chart | None) -> dict[str, object] | None:
        return None if chart is None else _placed(chart, drawn, prefix)

    report, answer = begin_report(run, words)
    return {
        "name": run.source.name,
        "about": _about(run, words),
        "answer": answer,
        "figures": key_figures(report),
        "strip": _strip(run, words),
        "timeline": _timeline(run, words),
        "ends": (words.number(0), words.duration(run.wall.total_s)),
        "wall": tables.wall_table(report),
        "times": placed(charts.times_chart([run], words)),
        "times_note": _times_note(run, words),
        "slow": tables.slow_rows_table(report) if run.slow_rows else None,
        "mfu": placed(charts.mfu_chart([run], words)),
        "losses": [placed(chart) for chart in loss_charts([run], words)],
        "throughput_table": tables.throughput_table(report),
        "utilisation_table": tables.utilisation_table(report),
        "loss_table": tables.loss_table(report),
        "said": _said_by_section(report),
        "advice": tables.advice_table(report),
        "facts": tables.facts_table(report),
        "notes": notes(run, words),
    }


def _said_by_section(report: Report) -> dict[str, list[str]]:
    """The findings, each under the section it belongs to as in the terminal, but for those that the answer has."""
    section_of = {code: section for section, codes in SECTIONS.items() for code in codes}
    said: dict[str, list[str]] = {section: [] for section in SECTIONS}
    for finding in report.diagnosis.findings:
        if not finding.advice and not report.said(finding):
            said[section_of.get(finding.code, "known")].append(report.text(finding))
    return said


def _times_note(run: Diagnosis, words: Words) -> str:
    if run.source.rows > len(run.curves.row_ms):
        return words.text("A mark may stand for several rows of the log; slow rows show their cause.")
    return words.text("Each mark is one row of the log; slow rows show their cause.")


def _introduced(number: int, run: Diagnosis, words: Words) -> dict[str, object]:
    return {
        "letter": charts.run_letter(number),
        "shade": charts.run_colour(number),
        "name": run.source.name,
        "about": _about(run, words),
        "facts": tables.facts_table(begin_report(run, words)[0]),
    }


def _ranked(comparisons: Sequence[Comparison], words: Words) -> dict[str, object] | None:
    """The order of three runs and more, and the table that shows it."""
    if len(comparisons) < 2:
        return None
    from nanopace.views.ranking import headline, ranking_of  # fewer runs do without it

    letters = [charts.run_letter(number) for number in range(len(comparisons) + 1)]
    said = headline(ranking_of(comparisons), letters, words)
    return {"says": said, "table": pair_tables.ranking_table(comparisons, words)}


def _compared(found: Comparison, other: int, words: Words) -> dict[str, object]:
    pair = Pair(found, charts.run_letter(0), charts.run_letter(other))
    verdict = pair.verdict()
    shown = [
        pair_tables.arrival_table(found, other, words),
        pair_tables.changed_table(found, other, words),
        pair_tables.figures_table(found, other, begin_report(found.a, words)[0], begin_report(found.b, words)[0]),
        pair_tables.decomposition_table(found, words),
    ]
    return {
        "a": pair.a,
        "b": pair.b,
        "verdict": [pair.sentence(words, finding) for finding in verdict],
        "rest": [pair.sentence(words, finding) for finding in found.findings if finding not in verdict],
        "tables": [table for table in shown if table is not None and table.rows],
        "equal": pair_tables.equal_tables(found, other, words),
        "settle": words.text("Runs that would settle it, each like {b} with one knob as in {a}:", a=pair.a, b=pair.b),
        "settling": pair_tables.settling_lines(found),
        "start": words.text("nanopace ablate A B starts them, with the two configs or runs for A and B."),
    }


def _about(run: Diagnosis, words: Words) -> str:
    parts = span_of(run, words)
    if run.source.ending is not None:
        parts.append(words.ending(run.source.ending))
    return " · ".join(parts)


def _strip(run: Diagnosis, words: Words) -> list[dict[str, object]]:
    return [
        {
            "phase": part.phase,
            "share": f"{part.share:.6f}",
            "drawn": part.share >= strip.LEAST_SHARE,
            "says": f"{phase_name(run, part.phase, words)}: {words.duration(part.seconds)} "
            f"({words.percent(part.share, 1)})",
        }
        for part in strip.wall_parts(run)
    ]


def _timeline(run: Diagnosis, words: Words) -> list[dict[str, object]]:
    return [
        {
            "cause": moment.cause,
            "start": f"{moment.start:.6f}",
            "width": f"{moment.width:.6f}",
            "says": _moment_text(moment, words),
        }
        for moment in strip.timeline(run)
    ]


def _moment_text(moment: strip.Moment, words: Words) -> str:
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


def _render(template: str, words: Words, drawn: dict[str, Chart], **content: object) -> str:
    environment = Environment(
        loader=FileSystemLoader(ROOM / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template(template).render(
        lang=words.lang,
        say=_headings(words),
        data=_script_safe(_data(drawn, words)),
        asset=_asset,
        scripts=" ".join(map(_permission, SCRIPTS)),
        version=__version__,
        **content,
    )
    return _visible(page)


def _visible(text: str) -> str:
    """Without what cannot be seen but can mislead: control characters, marks that turn the direction of writing, and
    the bytes of a file's name that are no text."""
    return text.translate(INVISIBLE).encode("utf-8", "replace").decode("utf-8")


def _headings(words: Words) -> dict[str, str]:
    """The words that the templates themselves need."""
    return {
        "explained": words.text("A training run, explained"),
        "compared": words.text("Training runs, compared"),
        "runs": words.text("Runs"),
        "answer": words.text("The answer"),
        "figures": words.text("Key figures"),
        "wall": words.text("Where the time went"),
        "in_order": words.text("The same in the order in which it happened"),
        "times": words.text("Iteration times"),
        "hint": words.text("Point at a chart for its values; drag to zoom, double-click to zoom out."),
        "slow": words.text("Every slow row"),
        "utilisation": words.text("Throughput and utilisation"),
        "loss": words.text("Loss"),
        "clipped": words.text("The start of the run rises above the frame."),
        "advice": words.text("Advice"),
        "facts": words.text("What is known, and how"),
        "notes": words.text("Notes of the trainer"),
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
        series["label"] = _visible(series["label"])
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


def _asset(name: str) -> Markup:
    """A file of our own, as it is."""
    return Markup((ROOM / "assets" / name).read_text("utf-8"))


def _permission(script: str) -> Markup:
    """For the page's policy: this very script may run. Another one may not, wherever it came from."""
    digest = hashlib.sha256(_visible(_asset(script)).encode()).digest()
    return Markup(f"'sha256-{base64.b64encode(digest).decode()}'")
