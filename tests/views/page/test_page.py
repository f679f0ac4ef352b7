"""The page is complete in itself, accessible, and has a place for each of its parts."""

from __future__ import annotations

import dataclasses
import itertools
import re

from nanopace.diagnosis.comparison import Comparison
from nanopace.diagnosis.result import Diagnosis, SlowRow
from nanopace.views.page.labels import headings
from nanopace.views.page.page import Made, compare_page, explain_page, explained, explained_run
from nanopace.views.page.render import ROOM, templates
from nanopace.views.page.slow_list import LIVE_SLOW_ROWS, MOST_SLOW_ROWS
from nanopace.wording.catalog import words

from .seen import Seen, plain


def test_nothing_is_loaded(run: Diagnosis, pair: Comparison) -> None:
    for page in (explain_page([run], words("en")), compare_page([pair], words("en"))):
        seen = Seen(page)
        policy = next(meta for meta in seen.with_tag("meta") if meta.get("http-equiv") == "Content-Security-Policy")
        assert (policy["content"] or "").startswith("default-src 'none'; style-src 'unsafe-inline'; script-src")
        assert not seen.with_tag("link")
        assert all(attributes.keys() <= {"type", "id"} for attributes in seen.with_tag("script"))
        for _, attributes in seen.tags:
            assert not attributes.keys() & {"src", "srcset", "action", "background", "poster"}
            assert (attributes.get("href") or "#").startswith("#")
        styles = page[: page.index("</head>")]
        assert "url(" not in styles
        assert "@import" not in styles


def test_the_licence_of_uplot_goes_with_it() -> None:
    assert "MIT License" in (ROOM / "assets" / "LICENSE.uplot").read_text("utf-8")
    assert "uPlot (v1.6.32)" in (ROOM / "assets" / "uPlot.iife.min.js").read_text("utf-8")


def test_it_is_accessible(run: Diagnosis, pair: Comparison) -> None:
    for page in (explain_page([run, run], words("en")), compare_page([pair, pair], words("en"))):
        seen = Seen(page)
        assert len(seen.with_tag("main")) == 1
        assert len(seen.with_tag("caption")) == len(seen.with_tag("table"))
        assert all(attributes.get("scope") for attributes in seen.with_tag("th"))
        assert all(svg.get("aria-label") or svg.get("aria-hidden") for svg in seen.with_tag("svg"))
        ids = [attributes["id"] for _, attributes in seen.tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        levels = [int(tag[1]) for tag, _ in seen.tags if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1
        assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels))


def test_every_part_has_its_place_in_the_address(run: Diagnosis, pair: Comparison) -> None:
    """The live page replaces parts by their ids, and people link to them."""
    made = Made("2026-11-17T23:40:00+00:00", "2026-11-17 23:40", "nanopace explain")
    for page in (explain_page([run, run], words("en"), made), compare_page([pair, pair], words("en"), made)):
        seen = Seen(page)
        ids = {attributes.get("id") for _, attributes in seen.tags}
        rows = re.compile("#(run-1-)?iteration-[0-9]+")
        links = [link["href"] or "" for link in seen.with_tag("a")]
        assert {link.removeprefix("#") for link in links if not rows.fullmatch(link)} <= ids
        assert all(attributes.get("id") for tag, attributes in seen.tags if tag in ("section", "h1", "h2", "h3"))
        for parent in ("article", "main"):
            assert None not in seen.children_of(parent)
    assert "#run-1-iteration-500" in explain_page([run, run], words("en"))


def test_the_article_of_a_run_can_be_made_alone(run: Diagnosis) -> None:
    alone = (
        templates().get_template("run.html").render(run=explained_run(run, words("en"), {}), say=headings(words("en")))
    )
    assert plain(alone) in plain(explain_page([run], words("en")))


def test_the_same_run_gives_the_same_page(run: Diagnosis) -> None:
    assert explain_page([run], words("en")) == explain_page([run], words("en"))


def test_slow_rows_are_links_as_far_as_the_page_holds_them(run: Diagnosis) -> None:
    many = tuple(SlowRow(at, 500.0, 300.0, ("stall",), {"stall": 300.0}) for at in range(MOST_SLOW_ROWS + 3))
    page = explain_page([dataclasses.replace(run, slow_rows=many)], words("en"))
    links = [link["href"] for link in Seen(page).with_tag("a") if (link["href"] or "").startswith("#iteration-")]
    assert links == [f"#iteration-{at}" for at in range(MOST_SLOW_ROWS)]
    assert "3 more rows are in the JSON." in page
    assert "Every slow row (2,003)" in page


def test_a_live_page_lists_the_latest_slow_rows_with_the_newest_on_top(run: Diagnosis) -> None:
    many = tuple(SlowRow(at, 500.0, 300.0, ("stall",), {"stall": 300.0}) for at in range(LIVE_SLOW_ROWS + 3))
    body = explained([dataclasses.replace(run, slow_rows=many)], words("en"), live=True).body(
        bar={"home": None, "languages": [], "run": None}
    )
    links = [link["href"] for link in Seen(body).with_tag("a") if (link["href"] or "").startswith("#iteration-")]
    assert links == [f"#iteration-{at}" for at in reversed(range(3, LIVE_SLOW_ROWS + 3))]
    assert "3 more rows are in the JSON." in body
    assert "Slow rows, newest first (503)" in body


def test_the_page_says_when_a_mark_stands_for_several_rows(run: Diagnosis) -> None:
    assert "Each mark is one row of the log" in explain_page([run], words("en"))
    long = dataclasses.replace(run, source=dataclasses.replace(run.source, rows=1_000_000))
    assert "A mark may stand for several rows" in explain_page([long], words("en"))


def test_templates_have_no_words_of_their_own() -> None:
    for template in (ROOM / "templates").iterdir():
        source = re.sub(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", "", template.read_text("utf-8"), flags=re.DOTALL)
        source = re.sub(r"<[^>]*>|^ [\w-]+=.*$", " ", source, flags=re.MULTILINE)
        assert set(re.findall(r"[a-z]{2,}", source, re.IGNORECASE)) <= {"nanopace"}, template.name
