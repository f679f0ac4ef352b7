"""How often the server wakes up: on busy cores, a training run pays for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from nanopace.live.web import app
from nanopace.live.web.app import BUSY_TICK_S, STILL_HERE_S, TICK_S, Site
from nanopace.live.web.library import Library
from nanopace.live.web.pages import Pages
from nanopace.sources.runs import open_runs

from ..made_up import HEADER, rows


class Cut(Exception):
    """Ends the loop."""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    log = tmp_path / "train.log"
    log.write_text(HEADER + "\n".join(rows(0, 60)) + "\n")
    library = Library([str(log)], open_runs)
    return Site(library, Pages(library), "en")


@pytest.mark.parametrize(("busy", "expected"), [(False, TICK_S), (True, BUSY_TICK_S)])
def test_it_looks_less_often_where_all_cores_are_busy(
    site: Site, monkeypatch: pytest.MonkeyPatch, busy: bool, expected: float
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        raise Cut

    monkeypatch.setattr(app, "cores_are_busy", lambda: busy)
    monkeypatch.setattr(app.asyncio, "sleep", sleep)
    with pytest.raises(Cut):
        asyncio.run(site._follow())
    assert slept == [expected]


def test_all_viewers_get_their_keep_alive_message_in_one_wake_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nobody gets one before it is due."""
    sleep = asyncio.sleep
    now = [0.0]
    ticks: list[int] = []

    async def watched() -> list[bytes]:
        channel = await site._channel((), "en")
        assert channel.now is not None
        viewers = [asyncio.create_task(channel.event(channel.now.version)) for _ in range(3)]

        async def tick(_: float) -> None:
            await sleep(0)  # viewers who were woken have their message now
            ticks.append(sum(each.done() for each in viewers))
            now[0] += 1.0
            if all(each.done() for each in viewers) or len(ticks) > 2 * STILL_HERE_S:
                raise Cut

        monkeypatch.setattr(app.asyncio, "sleep", tick)
        with pytest.raises(Cut):
            await site._follow()
        return [each.result()[1] for each in viewers if each.done()]

    monkeypatch.setattr(app.time, "monotonic", lambda: now[0])
    assert asyncio.run(watched()) == [b": still here\n\n"] * 3
    assert set(ticks) == {0, 3}
    assert ticks.index(3) == STILL_HERE_S  # with a second per tick
