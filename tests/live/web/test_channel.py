"""Changes to a page: applying them gives the current page."""

from __future__ import annotations

import asyncio
import copy
import json

from hypothesis import given
from hypothesis import strategies as st

from nanopace.live.web.channel import Channel, Rendered, changes
from nanopace.views.page.render import Page
from nanopace.wording.catalog import words

POINTS = st.lists(st.tuples(st.integers(0, 9), st.one_of(st.none(), st.integers(0, 9))), max_size=8)
SERIES = st.builds(
    lambda label, points, band: {
        "label": label,
        "x": [x for x, _ in points],
        "y": [y for _, y in points],
        "low": [x - 1 for x, _ in points] if band else [],
        "high": [x + 1 for x, _ in points] if band else [],
    },
    st.sampled_from("ab"),
    POINTS,
    st.booleans(),
)
CHARTS = st.dictionaries(
    st.sampled_from(["times", "loss"]),
    st.fixed_dictionaries({"title": st.sampled_from("st"), "series": st.lists(SERIES, max_size=3)}),
)


def applied(before: dict, charts: dict, tails: dict) -> dict:  # type: ignore[type-arg]
    """Apply changes as charts.js does."""
    page = {**copy.deepcopy(before), **charts}
    for key, tail in tails.items():
        for number, points in tail.items():
            series = page[key]["series"][int(number)]
            for column in ("x", "y", "low", "high"):
                series[column] = series[column][: points["from"]] + points[column]
    return page


@given(before=CHARTS, now=CHARTS)
def test_what_is_sent_makes_the_old_charts_the_new_ones(before: dict, now: dict) -> None:  # type: ignore[type-arg]
    page = applied(before, *changes(before, now))
    assert {key: page[key] for key in now} == now


@given(now=CHARTS, more=POINTS)
def test_new_points_alone_are_all_that_is_sent(now: dict, more: list) -> None:  # type: ignore[type-arg]
    grown = copy.deepcopy(now)
    for chart in grown.values():
        for series in chart["series"]:
            if not series["low"]:
                series["x"] += [x for x, _ in more]
                series["y"] += [y for _, y in more]
    charts, tails = changes(now, grown)
    assert charts == {}
    sent = sum(len(points["x"]) for tail in tails.values() for points in tail.values())  # type: ignore[attr-defined]
    assert sent == len(more) * sum(not each["low"] for chart in now.values() for each in chart["series"])


def rendering(version: str, body: str, points: int) -> Rendered:
    page = Page("runs.html", words("en"), {}, {})
    charts = {
        "times": {"title": "t", "series": [{"x": [*range(points)], "y": [*range(points)], "low": [], "high": []}]}
    }
    return Rendered(page, body, charts, version)


def news(event: bytes) -> dict[str, object]:
    head, data = event.decode().strip().split("\n")
    assert head.startswith("id: ")
    return json.loads(data.removeprefix("data: "))  # type: ignore[no-any-return]


def test_each_is_told_what_they_lack() -> None:
    async def told() -> None:
        channel = Channel((), lambda: rendering("1", "", 0))
        channel.show(rendering("1", "one", 3))
        waiting = asyncio.create_task(channel.event("1"))
        await asyncio.sleep(0)
        channel.wake()
        assert (await waiting) == ("1", b": still here\n\n")
        waiting = asyncio.create_task(channel.event("1"))
        await asyncio.sleep(0)
        channel.show(rendering("2", "one", 4))
        version, event = await waiting
        assert version == "2"
        assert "body" not in news(event)
        assert news(event)["charts"] == {}
        assert news(event)["tails"] == {"times": {"0": {"from": 3, "x": [3], "y": [3], "low": [], "high": []}}}
        channel.show(rendering("3", "three", 5))
        version, event = await channel.event("1")  # one was missed: all of it
        assert news(event)["body"] == "three"
        assert set(news(event)["charts"]) == {"times"}
        version, event = await channel.event("2")
        assert news(event)["body"] == "three"
        assert news(event)["charts"] == {}
        waiting = asyncio.create_task(channel.event("3"))
        await asyncio.sleep(0)
        channel.show(rendering("3", "three", 5))  # the same again: nobody is told
        await asyncio.sleep(0)
        assert not waiting.done()
        channel.wake()
        assert (await waiting) == ("3", b": still here\n\n")

    asyncio.run(told())
