"""Several cards in one table, and the format of a range."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nanopace.hardware.speed import Range
from nanopace.tune.recommend.costs import Cost, Costs, money_of
from nanopace.tune.recommend.recommend import Recommendation
from nanopace.views.document import Table
from nanopace.views.terminal.writer import TerminalWriter
from nanopace.wording.catalog import UNKNOWN, Words

Shown = Callable[[float | None], str]

_LABELS = 22  # columns for the names of the rows
_COLUMN = 14
_EIGHT = 8


def span(found: Range | None, shown: Shown, words: Words) -> str:
    if found is None:
        return UNKNOWN
    low, high = (shown(each).replace(" ", "\u00a0") for each in (found.low, found.high))
    return words.text("{low} to {high}", low=low, high=high)


def middle(found: Range | None, shown: Shown) -> str:
    return UNKNOWN if found is None else shown(found.expected)


def side_by_side(
    everyone: Sequence[Recommendation], costs: Sequence[Costs | None], words: Words, writer: TerminalWriter
) -> None:
    """As many cards per table as there is room for."""
    most = max(1, (writer.width - _LABELS) // _COLUMN)
    fast = any(found.fast_seconds is not None for found in everyone)
    figures = _figures(words, several=_eight(everyone), fast=fast)
    writer.heading(words.text("Side by side"))
    for start in range(0, len(everyone), most):
        if start:
            writer.blank()
        some = everyone[start : start + most]
        rows = [[name, *(of(found) for found in some)] for name, of in figures]
        rows += _cost_rows(costs[start : start + most], words)
        writer.table(Table(rows, "l" + "r" * len(some), ("", *(words.card(found.card) for found in some))))


def _cost_rows(costs: Sequence[Costs | None], words: Words) -> list[list[str]]:
    """What the training costs on each card, on eight of them, and its CO2, as far as known of any."""
    rows = [
        [words.text("cost"), *(money_of(each, lambda costs: costs.one, words) for each in costs)],
        [words.text("cost with 8 cards"), *(money_of(each, _of_eight, words) for each in costs)],
        ["CO₂", *(middle(None if each is None else each.one.co2_kg, words.co2) for each in costs)],
    ]
    return [row for row in rows if any(cell not in ("", UNKNOWN) for cell in row[1:])]


def _of_eight(costs: Costs) -> Cost | None:
    return costs.together[-1] if costs.together[-1].gpus == _EIGHT else None


def _eight(everyone: Sequence[Recommendation]) -> bool:
    """Whether the speed of eight cards is known for any of these."""
    return any(found.together[-1].count == _EIGHT for found in everyone)


def _figures(words: Words, *, several: bool, fast: bool) -> list[tuple[str, Callable[[Recommendation], str]]]:
    def largest(found: Recommendation) -> str:
        ours = [rung.micro_batch for rung in found.rungs if rung.trainer == "nanopace"]
        return f"{ours[0]} / {max(ours)} / {found.rungs[-1].micro_batch}"

    def kwh(x: float | None) -> str:
        return words.value("energy_kwh", x)

    def eight(found: Recommendation) -> str:
        last = found.together[-1]
        return middle(last.seconds if last.count == _EIGHT else None, words.duration)

    def with_fast(found: Recommendation) -> str:
        return middle(found.fast_seconds, words.rough_duration)

    return [
        (words.text("memory"), lambda found: words.size(found.memory_gb)),
        (words.text("model"), lambda found: found.model.name),
        (words.text("micro-batch"), lambda found: f"{found.batch_size} × {found.accumulation}"),
        (words.text("largest: all kept / all saved / nanoGPT"), largest),
        (words.text("tokens/s, nanopace"), lambda found: middle(found.tokens_per_s, words.si)),
        (words.text("range"), lambda found: span(found.tokens_per_s, words.si, words)),
        (words.text("tokens/s, nanoGPT"), lambda found: middle(found.nanogpt_tokens_per_s, words.si)),
        (words.text("one step"), lambda found: middle(found.step_s, words.duration)),
        (words.text("tokens"), lambda found: words.si(found.tokens, digits=2)),
        (words.text("time"), lambda found: middle(found.seconds, words.duration)),
        *([(words.text("same loss with --recipe=fast"), with_fast)] if fast else []),
        *([(words.text("8 cards"), eight)] if several else []),
        (words.text("energy"), lambda found: middle(found.kwh, kwh)),
        (words.text("validation loss"), lambda found: middle(found.loss, lambda x: words.number(x, 2))),
    ]
