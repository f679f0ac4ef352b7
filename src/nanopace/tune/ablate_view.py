"""An ablation for the terminal: what the whole difference is, which knobs made it, and which made none that shows.

Effects multiply, so that each is shown as what it makes of the speed: 0.42 times, with its 95% interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nanopace.record import field_names
from nanopace.tune.ablate import Ablation
from nanopace.tune.shapley import Share
from nanopace.views.paper import Cell, Paper, styled
from nanopace.wording.catalog import UNKNOWN, Words


def write(found: Ablation, words: Words, paper: Paper) -> None:
    paper.line(styled(_answer(found, words), "bold"), indent=0)
    paper.heading(words.text("Which knob did it"))
    head = ("", "A", "B", words.text("tokens/s"), words.text("FLOPs per token"), words.text("utilisation"))
    paper.table(_rows(found, words), "llLrrr", head)
    paper.line(
        words.text("Times what it was, with its 95% interval. Effects multiply; those of all knobs make the whole.")
    )
    if found.loss is not None and found.losses is not None:
        paper.heading(words.text("The loss"))
        rows = [
            (player.name, _difference(share, words)) for player, share in zip(found.players, found.loss, strict=True)
        ]
        paper.table([*rows, (words.text("together"), words.number(found.losses[1] - found.losses[0], 4))], "lr")
    for line in _verdict(found, words):
        paper.blank()
        paper.line(line, indent=0)


def document(found: Ablation) -> dict[str, object]:
    """For JSON."""
    return {name: getattr(found, name) for name in field_names(found)}


def _answer(found: Ablation, words: Words) -> str:
    a, b = found.tokens_per_second
    return words.text(
        "B trains {ratio} times as many tokens a second as A: {b} and {a}.",
        ratio=words.number(b / a, 3),
        a=words.si(a),
        b=words.si(b),
    )


def _rows(found: Ablation, words: Words) -> list[Sequence[Cell]]:
    rows: list[Sequence[Cell]] = []
    for number, (player, speed) in enumerate(zip(found.players, found.speed, strict=True)):
        flops = UNKNOWN if found.flops is None else words.number(math.exp(found.flops[number].value), 2)
        used = UNKNOWN if found.utilisation is None else _factor(found.utilisation[number], words)
        style = "bold" if speed.shows else ""
        before, after = (_values(each) for each in (player.before, player.after))
        rows.append((styled(player.name, style), before, after, _factor(speed, words), flops, used))
    return rows


def _values(values: Sequence[object]) -> str:
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)


def _factor(share: Share, words: Words) -> str:
    """0.42 (0.41 to 0.43)"""
    middle = words.number(math.exp(share.value), 3)
    if share.error is None:
        return middle
    low, high = (words.number(math.exp(share.value + sign * share.error), 3) for sign in (-1, 1))
    return f"{middle} ({words.text('{low} to {high}', low=low, high=high)})".replace(" ", "\u00a0")


def _difference(share: Share, words: Words) -> str:
    said = words.number(share.value, 4)
    return said if share.error is None else f"{said} ± {words.number(share.error, 4)}"


def _verdict(found: Ablation, words: Words) -> list[str]:
    quiet = [share.player for share in found.speed if not share.shows]
    if len(quiet) == len(found.speed):
        return [
            words.text(
                "No effect is larger than the spread of repeated runs, so nothing is concluded: give more --repeats or "
                "--steps, or a machine on which nothing else runs."
            )
        ]
    said = []
    if quiet:
        said.append(
            words.text("No effect on the speed that could be told from the spread: {knobs}.", knobs=", ".join(quiet))
        )
    if found.sampled:
        said.append(words.text("Some orders of the changes were measured, and not all combinations."))
    return said
