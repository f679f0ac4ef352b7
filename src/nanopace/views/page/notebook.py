"""What a Run, a Diagnosis and a Comparison look like in a notebook: each `_repr_html_` ends here.

A small report without scripts, which notebooks may strip, and without anything to load. It follows the notebook's
light or dark theme if the notebook declares one. If the styles are stripped too, headings, sentences and tables remain.
"""

from __future__ import annotations

from collections.abc import Sequence

from nanopace.diagnosis.comparison import Comparison
from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Diagnosis
from nanopace.run import Run
from nanopace.views.compare.pair import letter_pairs
from nanopace.views.figures import facts_table
from nanopace.views.key_figures import key_figures
from nanopace.views.page import charts
from nanopace.views.page.charts import Chart
from nanopace.views.page.labels import headings
from nanopace.views.page.loss_charts import loss_charts
from nanopace.views.page.page import about, compared, strip
from nanopace.views.page.render import asset, templates
from nanopace.views.page.static_chart import draw
from nanopace.views.report import Report
from nanopace.views.sections import Explained
from nanopace.wording.catalog import Words, words
from nanopace.wording.printable import visible

_SECTIONS = ("throughput", "loss", "advice")  # the rest is in the page
_MOST_FACTS = 60
_LONGEST_NAME = 120


def run_html(run: Run) -> str:
    """What happened, without conclusions: facts and curves."""
    diagnosis, said = diagnose(run), words(None)
    facts = facts_table(Report(diagnosis, said))
    del facts.rows[_MOST_FACTS:]
    drawn = [charts.times_chart([diagnosis], said), *loss_charts([diagnosis], said)[:1]]
    return _render("run", said, diagnosis.source.name, drawn, about=about(diagnosis, said), facts=facts)


def diagnosis_html(diagnosis: Diagnosis) -> str:
    """The answer, where the time went, curves and advice."""
    said = words(None)
    explained = Explained(diagnosis, said, verbose=False)
    drawn = [charts.times_chart([diagnosis], said), *loss_charts([diagnosis], said)[:1]]
    return _render(
        "diagnosis",
        said,
        diagnosis.source.name,
        drawn,
        about=about(diagnosis, said),
        answer=[line for line, _ in explained.answer[1:]],  # the first is the title
        figures=key_figures(explained.report),
        strip=strip(diagnosis, said),
        wall=explained.sections["wall"],
        sections=[explained.sections[name] for name in _SECTIONS if explained.sections[name].blocks],
    )


def comparison_html(comparison: Comparison) -> str:
    """Which run is faster and which learns better, and the figures behind it."""
    said = words(None)
    [pair] = letter_pairs([comparison], said)
    both = [comparison.a, comparison.b]
    drawn = [*loss_charts(both, said, [comparison])[:1], charts.times_chart(both, said)]
    title = " / ".join(_cut(run.source.name) for run in both)
    return _render("comparison", said, title, drawn, runs=[about(run, said) for run in both], pair=compared(pair))


def _render(kind: str, said: Words, title: str, drawn: Sequence[Chart | None], **content: object) -> str:
    drawings = [drawing for chart in drawn if chart is not None and (drawing := draw(chart, said)) is not None]
    template = templates().get_template("notebook.html")
    text = template.render(kind=kind, title=_cut(title), say=headings(said), asset=asset, drawings=drawings, **content)
    return visible(text)


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"
