"""Render a template, its content and its charts as one self-contained HTML file in which nothing from a log can run.

Everything from a log is treated as hostile: Jinja escapes it in the text, `_script_safe` in the chart data, and the
page's content security policy forbids the browser to load anything or to run any script but ours, identified by their
hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from nanopace.version import __version__
from nanopace.views.document import Block, Line, Table
from nanopace.views.page.charts import Chart, chart_words
from nanopace.views.page.labels import headings
from nanopace.wording.catalog import Words
from nanopace.wording.printable import visible

ROOM = Path(__file__).parent
# The first stands in the head, the others at the end.
SCRIPTS = (
    "theme.js",
    *("uPlot.iife.min.js", "numbers.js", "marks.js", "axes.js", "curves.js", "controls.js", "charts.js", "page.js"),
)
LIVE_SCRIPTS = (*SCRIPTS, "live.js")
DIGITS = 7  # per point in a chart: more than any screen can show


@cache
def templates() -> Environment:
    """One environment for all pages: compiling the templates takes longer than filling them."""
    environment = Environment(
        loader=FileSystemLoader(ROOM / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["grouped"] = _grouped
    return environment


class Page(NamedTuple):
    """A template and what fills it. A `live` page may ask its server for updates."""

    template: str
    words: Words
    drawn: dict[str, Chart]
    content: Mapping[str, object]

    def html(self) -> str:
        """The complete file."""
        return self._fill(self.template, layout="base.html", live=False, data=self._data(self.charts()))

    def body(self, **more: object) -> str:
        """The content without the frame: the part that changes while a run trains."""
        return self._fill(self.template, layout="body.html", live=True, **more)

    def framed(self, body: str, charts: Mapping[str, object], **more: object) -> str:
        """A body and its charts as a live page."""
        return self._fill("base.html", live=True, body=Markup(body), data=self._data(charts), **more)

    def charts(self) -> dict[str, dict[str, object]]:
        """The data that the script draws."""
        return {key: _drawable(chart) for key, chart in self.drawn.items()}

    def _data(self, charts: Mapping[str, object]) -> Markup:
        words = self.words
        data = {
            "lang": words.lang,
            "perplexity": words.text("perplexity"),
            "units": {"ms": "ms", "s": "s", "min": "min", "h": words.text("h"), "d": words.text("d")},
            "words": chart_words(words),
            "charts": charts,
        }
        return _script_safe(json.dumps(data, allow_nan=False))  # ASCII: U+2028 and U+2029 are escaped as well

    def _fill(self, template: str, *, live: bool, **more: object) -> str:
        words, scripts = self.words, LIVE_SCRIPTS if live else SCRIPTS
        page = (
            templates()
            .get_template(template)
            .render(
                lang=words.lang,
                say=headings(words),
                asset=asset,
                scripts=scripts,
                permissions=" ".join(map(_permission, scripts)),
                version=__version__,
                live=live,
                **self.content,
                **more,
            )
        )
        return visible(page)


def _grouped(blocks: Sequence[Block]) -> list[tuple[list[Table], list[Line]]]:
    """Group neighbours of the same kind: in each pair, one list is empty."""
    groups: list[tuple[list[Table], list[Line]]] = []
    for is_table, members in groupby(blocks, lambda block: isinstance(block, Table)):
        each = list(members)
        tables = [block for block in each if isinstance(block, Table)]
        lines = [block if isinstance(block, Line) else Line((str(block),)) for block in each if not is_table]
        groups.append((tables, lines))
    return groups


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


def _script_safe(text: str) -> Markup:
    """JSON that can neither end its script element nor start a comment or another element."""
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def asset(name: str) -> Markup:
    """One of our own files, unchanged."""
    return Markup((ROOM / "assets" / name).read_text("utf-8"))


def _permission(script: str) -> Markup:
    """For the page's policy: only this exact script may run."""
    digest = hashlib.sha256(visible(asset(script)).encode()).digest()
    return Markup(f"'sha256-{base64.b64encode(digest).decode()}'")
