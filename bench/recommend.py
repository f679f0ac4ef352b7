"""How good are `nanopace recommend`'s speeds? Leaves out one card after the other, and predicts it from all others.

A prediction is only as good as it is for a card that it has not seen. So all constants are fitted without the points of
one card, the speeds of that card are expected with them, and the differences are counted. A class with a single card
has nothing to predict it from; it is listed, but not in the totals. The last table is the points that are not used, and
how far off they are if they can be predicted at all.

    python bench/recommend.py              # half a minute
    python bench/recommend.py --fit        # only the constants of the fit, next to those in nanopace
    python bench/recommend.py --measured   # only the table in docs/recommend.md: our own points
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from nanopace.errors import CardError
from nanopace.hardware.card_classes import CLASSES, CardClass, card_class
from nanopace.hardware.cards import find_card
from nanopace.hardware.speed_points import Point, measured_points, pace_of, published_points
from nanopace.hardware.trainers import FP8_PRODUCTS, TRAINERS
from speed_fit import FITTED_AS, START, expected, fit

CLOSE = 0.15
_LATER = {"nanogpt_early": "nanogpt"}
HEADINGS = (
    "card", "trainer", "model", "sequences", "ladder", "expected tokens/s", "range", "measured", "difference", "source",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judged:
    """A point, and how far it is from what was expected without its card."""

    point: Point
    kind: CardClass
    off: float  # measured over expected, minus 1

    @property
    def close(self) -> bool:
        return abs(self.off) <= CLOSE

    @property
    def inside(self) -> bool:
        return self.kind.below <= 1 + self.off <= self.kind.above


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fit", action="store_true", help="only the constants")
    parser.add_argument("--measured", action="store_true", help="only our own points")
    args = parser.parse_args()
    if args.measured:
        _table(HEADINGS, [_row(point) for point in measured_points()])
        return
    points = [point for point in (*measured_points(), *published_points()) if not point.left_out]
    constants = fit(points)
    _table(("constant", "fitted", "in nanopace"), [_constant(name, constants[name]) for name in START])
    if args.fit:
        return
    judged = left_out_in_turn(points, constants)
    alone = {name for name in _classes(judged) if len({_card(each.point) for each in judged if _of(each) == name}) == 1}
    print("\nEach card left out in turn. In the totals: trainers of others, classes with at least two cards.\n")
    ours = [each for each in judged if each.point.trainer == "nanopace"]
    others = [each for each in judged if each.point.trainer != "nanopace"]
    counted = [each for each in others if _of(each) not in alone]
    rows = [_counted("all", counted), _counted("with classes of one card", others, apart=True)]
    for name in _classes(others):
        rows += [_counted(f"class {name}", [each for each in others if _of(each) == name], name in alone)]
    for name in sorted({each.point.trainer for each in counted}):
        rows += [_counted(f"trainer {name}", [each for each in counted if each.point.trainer == name])]
    rows.append(_counted("nanopace, without its H200", ours, apart=True))
    _table(("points", "cards", "count", f"within {CLOSE:.0%}", "inside the range"), rows)
    print("\nWithout the two choices that were made after seeing differences:\n")
    _table(
        ("points", "cards", "count", f"within {CLOSE:.0%}", "inside the range"), list(_without_hindsight(points, alone))
    )
    print("\nFarthest off:\n")
    far = sorted((each for each in others if not each.close), key=lambda each: each.off)
    _table(("card", "trainer", "model", "sequences", "difference"), [_far(each) for each in far])
    print("\nNeither fitted nor judged:\n")
    _table(("card", "trainer", "tokens/s", "why", "difference"), [_left(p) for p in published_points() if p.left_out])


def left_out_in_turn(points: Sequence[Point], constants: dict[str, float]) -> list[Judged]:
    """Every point, expected with constants that know nothing of its card."""
    judged = []
    for card in sorted({_card(point) for point in points}):
        others = fit([point for point in points if _card(point) != card], constants)
        for point in points:
            if _card(point) == card:
                off = point.tokens_per_s / expected(point, others) - 1
                judged.append(Judged(point, card_class(find_card(point.card)), off))
    return judged


def _without_hindsight(points: Sequence[Point], alone: set[str]) -> Iterator[tuple[str, ...]]:
    """If early logs of nanoGPT were no trainer of their own, and the points of autoresearch were used."""
    more = [replace(point, left_out="") for point in published_points() if "(autoresearch)" in point.source]
    merged = [replace(each, trainer=_LATER.get(each.trainer, each.trainer)) for each in points]
    choices = {
        "with autoresearch": [*points, *more],
        "with one nanoGPT": merged,
        "with both": [*merged, *more],
    }
    for name, used in choices.items():
        judged = [each for each in left_out_in_turn(used, fit(used)) if each.point.trainer != "nanopace"]
        yield _counted(name, [each for each in judged if _of(each) not in alone])


def _card(point: Point) -> str:
    return find_card(point.card).label


def _of(each: Judged) -> str:
    return FITTED_AS.get(each.kind.name, each.kind.name)


def _classes(judged: Sequence[Judged]) -> list[str]:
    return sorted({_of(each) for each in judged})


def _constant(name: str, fitted: float) -> tuple[str, ...]:
    """Its name, its fitted value, and the one in nanopace."""
    what, _, of = name.partition(" ")
    have: dict[str, Callable[[], float]] = {
        "share": lambda: CLASSES[of].share,
        "bandwidth": lambda: CLASSES[of].bandwidth_share,
        "power": lambda: CLASSES[of].power,
        "bytes": lambda: TRAINERS[of].layer_bytes,
        "products": lambda: TRAINERS[of].products,
        "fp8": lambda: FP8_PRODUCTS,
    }
    return name, f"{fitted:.3g}", f"{have[what]():g}"


def _counted(name: str, judged: Sequence[Judged], apart: bool = False) -> tuple[str, ...]:
    cards = {_card(each.point) for each in judged}
    close = sum(each.close for each in judged) / len(judged)
    inside = sum(each.inside for each in judged) / len(judged)
    shown = f"{name} (not in the totals)" if apart else name
    return shown, str(len(cards)), str(len(judged)), f"{close:.0%}", f"{inside:.0%}"


def _far(each: Judged) -> tuple[str, ...]:
    point = each.point
    shape = f"{point.n_layer} x {point.n_embd}"
    return point.card, point.trainer, shape, str(point.batch_size), f"{each.off:+.0%}" + ("" if each.inside else " !")


def _left(point: Point) -> tuple[str, ...]:
    """With what we would expect, where that is possible."""
    off = ""
    if point.n_layer and point.batch_size and point.trainer in TRAINERS:
        with suppress(CardError):
            found = pace_of(point)
            off = "" if found is None else f"{point.tokens_per_s / found.expected - 1:+.0%}"
    return point.card, point.trainer, f"{point.tokens_per_s:,.0f}", point.left_out, off


def _row(point: Point) -> tuple[str, ...]:
    expected_range = pace_of(point)
    assert expected_range is not None
    return (
        point.card,
        {"nanogpt": "nanoGPT", "nanogpt_early": "nanoGPT, up to May 2024"}.get(point.trainer, point.trainer),
        f"{point.n_layer} x {point.n_embd}",
        str(point.batch_size),
        ", ".join(point.steps),
        _thousands(expected_range.expected),
        f"{_thousands(expected_range.low)} to {_thousands(expected_range.high)}",
        _thousands(point.tokens_per_s),
        f"{point.tokens_per_s / expected_range.expected - 1:+.1%}",
        point.source,
    )


def _thousands(rate: float) -> str:
    return f"{rate / 1000:.1f}k"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"| {' | '.join(headings)} |\n|{'---|' * len(headings)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
