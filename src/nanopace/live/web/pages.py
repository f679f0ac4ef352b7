"""A page for one run, for several, or the list of all."""

from __future__ import annotations

from collections.abc import Sequence

from nanopace.diagnosis.billing import billed
from nanopace.diagnosis.compare.compare import compare
from nanopace.live.web.bar import Alerts, address, bar, run_bar, shown_state
from nanopace.live.web.library import Key, Library
from nanopace.prices import Prices
from nanopace.views.page.page import explained, overlaid
from nanopace.views.page.render import Page
from nanopace.wording.catalog import Words

MOST_COMPARED = 6
_WIDTH, _HEIGHT = 120.0, 28.0  # of a sparkline


class Pages:
    """Used by one thread only, like the library."""

    def __init__(self, library: Library, prices: Prices | None = None) -> None:
        self._library, self._prices = library, prices
        self._alerts = Alerts()

    def page(self, keys: tuple[Key, ...], words: Words) -> Page:
        """The page for these runs; without keys, the list or the only run."""
        if not keys and self._library.is_one_log and self._library.keys:
            keys = (self._library.keys[0],)
        runs = [self._library.run(key) for key in keys]
        known = [billed(run, self._prices) for run in runs if run is not None]
        head = bar(keys, words, home=not self._library.is_one_log)
        if not keys or len(known) < len(runs):
            page = self._list(words)
        elif len(known) == 1:
            page = explained(known, words, live=True)
            log = self._library.log(keys[0])
            head["run"] = run_bar(known[0], log, keys[0].number, self._alerts.of(keys[0], known[0]), words)
        else:
            page = overlaid([compare(known[0], other) for other in known[1:]], words)
        return page._replace(content={**page.content, "bar": head})

    def _list(self, words: Words) -> Page:
        rows = [self._row(key, words) for key in self._library.keys]
        return Page(
            "runs.html",
            words,
            {},
            {
                "title": words.text("Training runs"),
                "rows": rows,
                "waiting": [
                    words.error(log.error)
                    if log.error is not None
                    else words.text("{name}: no log lines yet", name=log.name)
                    for log in self._library.waiting
                ],
                "heads": _heads(words),
            },
        )

    def _row(self, key: Key, words: Words) -> dict[str, object]:
        log = self._library.log(key)
        run, state = log.listed[key.number], log.state(key.number)
        share = min(1.0, run.last_iteration / run.max_iters) if run.max_iters else None
        return {
            "key": str(key),
            "href": address((key,), words.lang),
            **shown_state(state, words),
            "ending": words.ending(run.ending) if run.ending not in (None, "finished") else None,
            "iteration": words.count(run.last_iteration),
            "share": None if share is None else words.percent(share, 0),
            "best": words.number(run.best, 4),
            "metric": words.metric(run.metric) if run.best is not None and run.metric != "loss" else None,
            "overhead": words.percent(run.overhead_share),
            "total": words.duration(run.total_s),
            "speed": words.si(run.tokens_per_s),
            "sparkline": sparkline(run.losses),
        }


def sparkline(losses: Sequence[float]) -> str | None:
    """The points of a small curve, on its own scale."""
    if len(losses) < 2:
        return None
    low, high = min(losses), max(losses)
    across, up = _WIDTH / (len(losses) - 1), (_HEIGHT - 4) / ((high - low) or 1.0)
    return " ".join(f"{at * across:.1f},{_HEIGHT - 2 - (loss - low) * up:.1f}" for at, loss in enumerate(losses))


def _heads(words: Words) -> dict[str, str]:
    return {
        "runs": words.text("Training runs"),
        "compare": words.text("Compare selected runs"),
        "tick": words.text("compare"),
        "run": words.text("run"),
        "state": words.text("state"),
        "iteration": words.text("iteration"),
        "loss": words.text("loss"),
        "best": words.text("best validation"),
        "speed": words.text("tokens per second"),
        "overhead": words.text("evaluation and checkpoints"),
        "total": words.text("wall clock"),
        "none": words.text("No training run yet. The first one will appear here as soon as it logs an iteration."),
    }
