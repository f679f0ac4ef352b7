"""The slow rows of a run as a page lists them, each with a link to its place in the charts."""

from __future__ import annotations

from nanopace.diagnosis.result import Diagnosis
from nanopace.record import replace
from nanopace.views.document import Section, Table
from nanopace.views.sections import slow_groups
from nanopace.wording.catalog import Words

MOST_SLOW_ROWS = 2000  # in a file, and on paper; the JSON has them all
LIVE_SLOW_ROWS = 500  # in a page that is sent again and again


def list_slow_rows(
    section: Section, run: Diagnosis, words: Words, link: str, *, live: bool
) -> tuple[Section, dict[str, object] | None]:
    """The section with as many rows as a page can hold, and what its template is given. A file has the first ones, in
    their order; a page that somebody watches has the latest, the newest on top."""
    if not run.slow_rows:
        return section, None
    table, *lines = section.blocks
    assert isinstance(table, Table)
    every = list(zip(run.slow_rows, table.rows, strict=True))
    shown = every[: -LIVE_SLOW_ROWS - 1 : -1] if live else every[:MOST_SLOW_ROWS]
    table.rows = [cells for _, cells in shown]
    count = sum(row.count for row in run.slow_rows)
    left = count - sum(row.count for row, _ in shown)
    more = [words.plural("{n} more row is in the JSON.", "{n} more rows are in the JSON.", left)] if left else []
    listed = {
        "groups": slow_groups(run.slow_rows, words, run),
        "title": words.text("Slow rows, newest first") if live else words.text("Every slow row"),
        "count": words.count(count),
        "every": table,
        "links": [f"{link}{row.iteration}" for row, _ in shown],
    }
    return replace(section, blocks=[table, *more, *lines]), listed
