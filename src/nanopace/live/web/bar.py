"""The head of a page: state, progress, time left, cost and alerts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple
from urllib.parse import urlencode

from nanopace.diagnosis.result import Ahead, Diagnosis, Finding
from nanopace.live.web.followed import Followed, State
from nanopace.live.web.library import Key
from nanopace.views.amounts import cost_name, in_table
from nanopace.views.report import Report, made_of, share_done
from nanopace.views.summary import ALARMS
from nanopace.wording.catalog import Words
from nanopace.wording.template import label

LANGUAGE_NAMES = {"en": "English", "de": "Deutsch", "fr": "Français", "es": "Español"}
_STATES: Mapping[State, tuple[str, str]] = {  # sign and word
    "running": ("▶", label("running")),
    "silent": ("…", label("silent")),
    "finished": ("✓", label("finished")),
    "stopped": ("■", label("stopped")),
}


class Alert(NamedTuple):
    finding: Finding
    noticed: str | None  # the time of day; None if it was already so when watching started


class Alerts:
    """Remembers when each alert was first noticed, however often a run is looked at."""

    def __init__(self, clock: Callable[[], time.struct_time] = time.localtime) -> None:
        self._clock = clock
        self._noticed: dict[Key, dict[str, str | None]] = {}

    def of(self, key: Key, run: Diagnosis) -> list[Alert]:
        """The alerts, most serious first."""
        first = key not in self._noticed
        noticed = self._noticed.setdefault(key, {})
        now = time.strftime("%H:%M", self._clock())
        found = {each.code: each for each in run.findings if each.code in ALARMS}
        for code in found:
            noticed.setdefault(code, None if first else now)
        return [Alert(found[code], noticed[code]) for code in ALARMS if code in found]


def shown_state(state: State, words: Words) -> dict[str, object]:
    """A state's name, sign and word."""
    sign, word = _STATES[state]
    return {"state": state, "sign": sign, "word": words.text(word)}


def address(keys: Iterable[Key], lang: str) -> str:
    """The URL of a page, from the root."""
    return "/?" + urlencode([*(("run", str(key)) for key in keys), ("lang", lang)])


def bar(keys: tuple[Key, ...], words: Words, *, home: bool) -> dict[str, object]:
    """What every page has."""
    return {
        "home": address((), words.lang) if home and keys else None,
        "languages": [
            {"name": name, "code": code, "href": address(keys, code), "is_current": code == words.lang}
            for code, name in LANGUAGE_NAMES.items()
        ],
        "run": None,
    }


def run_bar(run: Diagnosis, log: Followed, number: int, alerts: Iterable[Alert], words: Words) -> dict[str, object]:
    """What the page of a single run has in addition."""
    state, report = log.state(number), Report(run, words)
    return {
        **shown_state(state, words),
        "progress": _progress(run, state),
        "facts": [{"name": name, "value": value} for name, value in _facts(run, state, words)],
        "alerts": [*_silence(log, state, words), *(_alert(each, report, words) for each in alerts)],
    }


def _progress(run: Diagnosis, state: State) -> str | None:
    share = 1.0 if state == "finished" else share_done(run)
    return None if share is None else f"{share:.4f}"


def _facts(run: Diagnosis, state: State, words: Words) -> Iterable[tuple[str, str]]:
    ahead, last = run.ahead, words.count(run.source.last_iteration)
    if ahead.max_iters is not None:
        last = words.text("{at} of {last}", at=last, last=words.count(ahead.max_iters))
    yield words.text("iteration"), last
    if ahead.eta_s and state in ("running", "silent"):
        yield words.text("time left"), _left(ahead, words)
    losses = [loss for loss in run.curves.row_loss if loss is not None]
    if losses:
        yield words.text("training loss"), words.number(losses[-1], 3)
    if run.loss.last_val is not None:
        yield words.text("validation loss"), words.number(run.loss.last_val, 3)
    if run.slow_rows:
        slow = run.slow_rows[-1]
        made = made_of(slow, words, run)
        yield words.text("last slow iteration"), f"{words.count(slow.iteration)}: {made}"
    energy = run.gpu_use.energy_kwh if run.gpu_use is not None else None
    if energy is not None:
        yield words.text("energy"), f"{words.number(energy, 2)} kWh"
    yield from _cost(run, words)


def _left(ahead: Ahead, words: Words) -> str:
    left = words.duration(ahead.eta_s)
    if ahead.eta_low_s is None or ahead.eta_high_s is None:
        return left
    low, high = words.duration(ahead.eta_low_s), words.duration(ahead.eta_high_s)
    return left if low == high else words.text("{time} ({low} to {high})", time=left, low=low, high=high)


def _cost(run: Diagnosis, words: Words) -> Iterable[tuple[str, str]]:
    bill = run.bill
    if bill is None or bill.so_far.money is None:
        return
    text = in_table(bill, bill.so_far.money, words)
    if bill.ahead is not None and bill.ahead.money:
        whole = in_table(bill, bill.so_far.money + bill.ahead.money, words)
        text = words.text("{cost} so far, {whole} in total", cost=text, whole=whole)
    yield cost_name(bill, words), text


def _silence(log: Followed, state: State, words: Words) -> list[dict[str, object]]:
    if state != "silent" or log.quiet_s is None:
        return []
    return [{"at": None, "says": words.text("The log has been silent for {time}.", time=words.duration(log.quiet_s))}]


def _alert(alert: Alert, report: Report, words: Words) -> dict[str, object]:
    at = None if alert.noticed is None else words.text("noticed at {time}", time=alert.noticed)
    return {"at": at, "says": report.sentence(alert.finding)}
