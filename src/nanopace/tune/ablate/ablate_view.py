"""Show an ablation: the total difference, which knobs made it, and which had no visible effect.

Effects multiply, so each is shown as a factor on the speed: 0.42 times, with its 95% interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nanopace.literals import Value
from nanopace.tune.ablate.ablate import Ablation, Player
from nanopace.tune.ratios import difference, interval, plain, times
from nanopace.tune.shapley import Share
from nanopace.views.document import Cell, Section, Table, Text
from nanopace.views.terminal.writer import TerminalWriter
from nanopace.wording.catalog import UNKNOWN, Words

# If the tokens per step stay the same, these are one choice, written as usual: 8 x 64.
_MICRO_BATCHES = {"batch_size", "gradient_accumulation_steps"}
_NO_MORE = 0.0005  # of compute: visible at three decimals


def write(found: Ablation, words: Words, writer: TerminalWriter) -> None:
    writer.line(Cell(_answer(found, words), "bold"), indent=0)
    for line in _verdict(found, words):
        writer.line(line, indent=0)
    for section in _sections(found, words):
        writer.section(section)


def page(found: Ablation, title: str, words: Words) -> str:
    """One HTML file, with the effects as a waterfall chart from A to B."""
    from nanopace.views.page.page import waterfall_page  # jinja2, which a terminal does not need
    from nanopace.views.page.waterfall import Change, bars

    changes = [
        Change(
            f"{_named(player)}: {_change(player)}",
            share.value,
            share.error,
            f"{times(share.value, words)} ({interval(share, words)})",
        )
        for player, share in zip(found.players, found.speed, strict=True)
    ]
    first, last = (
        (name, math.log(rate), words.text("{tokens} tokens/s", tokens=words.si(rate)))
        for name, rate in zip("AB", found.tokens_per_second, strict=True)
    )
    answer = [_answer(found, words), *_verdict(found, words)]
    return waterfall_page(title, answer, bars(first, changes, last), _sections(found, words), words)


def _sections(found: Ablation, words: Words) -> list[Section]:
    note = words.text("Factors relative to A. Effects multiply: all settings together make up the total.")
    table = Table(_rows(found, words), "llrrrr", _head(words))
    sections = [Section("speed", words.text("Which setting made the difference"), (table, note))]
    if found.loss is not None and found.losses is not None:
        rows = [
            (_named(player), difference(share, words)) for player, share in zip(found.players, found.loss, strict=True)
        ]
        everything = Share("", found.losses[1] - found.losses[0], None)
        together = (words.text("all together"), difference(everything, words))
        sections.append(Section("loss", words.text("The loss"), [Table([*rows, together], "lr")]))
    return sections


def _answer(found: Ablation, words: Words) -> str:
    a, b = found.tokens_per_second
    speeds = {"a": words.si(a), "b": words.si(b)}
    if b < a:
        return words.text(
            "B is {share} slower than A: {b} against {a} tokens/s.", share=words.percent(1 - b / a), **speeds
        )
    return words.text("B is {ratio}x as fast as A: {b} against {a} tokens/s.", ratio=words.number(b / a, 3), **speeds)


def _head(words: Words) -> tuple[str, ...]:
    return (
        "",
        "A → B",
        words.text("tokens/s"),
        words.text("95% interval"),
        words.text("FLOPs"),
        words.text("utilisation"),
    )


def _rows(found: Ablation, words: Words) -> list[Sequence[Text]]:
    rows: list[Sequence[Text]] = []
    for number, (player, speed) in enumerate(zip(found.players, found.speed, strict=True)):
        flops, used = (
            UNKNOWN if shares is None else times(shares[number].value, words)
            for shares in (found.flops, found.utilisation)
        )
        name = Cell(_named(player), "bold" if speed.shows else "")
        rows.append((name, _change(player), times(speed.value, words), interval(speed, words), flops, used))
    return rows


def _named(player: Player) -> str:
    return "batch_size" if set(player.knobs) == _MICRO_BATCHES else ", ".join(player.knobs)


def _change(player: Player) -> str:
    before, after = (_settings(player.knobs, values) for values in (player.before, player.after))
    return f"{before} → {after}"


def _settings(knobs: Sequence[str], values: Sequence[Value | None]) -> str:
    said = [UNKNOWN if value is None else plain(value) for value in values]
    if set(knobs) == _MICRO_BATCHES:
        named = dict(zip(knobs, said, strict=True))
        return f"{named['batch_size']} x {named['gradient_accumulation_steps']}"
    return ", ".join(said)


def _verdict(found: Ablation, words: Words) -> list[str]:
    """The effect of each knob, largest first; and whether it is significant."""
    showing = [number for number, share in enumerate(found.speed) if share.shows]
    if not showing:
        return [
            words.text(
                "No effect exceeds the spread of repeated runs, so there is no conclusion: use more --repeats or "
                "--steps, or an otherwise idle machine."
            )
        ]
    showing.sort(key=lambda number: -abs(found.speed[number].value))
    said = [_sentence(found, number, words) for number in showing]
    quiet = [_named(player) for number, player in enumerate(found.players) if number not in showing]
    if quiet:
        said.append(words.text("No effect on speed beyond the spread: {knobs}.", knobs=", ".join(quiet)))
    if found.sampled:
        said.append(words.text("Only some orders of the changes were measured, not all combinations."))
    return said


def _sentence(found: Ablation, number: int, words: Words) -> str:
    knobs, faster = _named(found.players[number]), times(found.speed[number].value, words)
    if found.flops is None or found.utilisation is None or abs(found.flops[number].value) < _NO_MORE:
        return words.text("{knobs} changed the speed by a factor of {times}.", knobs=knobs, times=faster)
    return words.text(
        "{knobs} changed the speed by a factor of {times}: a token costs {cost}x the compute, and the machine does "
        "{used}x the compute per second.",
        knobs=knobs,
        times=faster,
        cost=times(found.flops[number].value, words),
        used=times(found.utilisation[number].value, words),
    )
