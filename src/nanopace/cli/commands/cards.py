"""List the graphics cards nanopace knows, or show one with the source of its figures."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nanopace.cli.options import add_language, words_of
from nanopace.hardware.cards import Card, all_cards, find_cards, split_count
from nanopace.wording.template import label

if TYPE_CHECKING:
    from nanopace.wording.catalog import Words

# How far the figures of cards.csv were checked.
_CHECKED: Mapping[str, str] = {
    "seen": label("taken from the source"),
    "seen (secondary)": label("taken from a secondary source"),
    "formula; inputs seen": label("computed from published figures"),
    "formula only": label("computed, not published"),
    "recalled+formula": label("not looked up, but in line with the formula"),
    "recalled": label("not looked up"),
    "low confidence": label("uncertain"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="*", metavar="NAME", help='a card, such as "4070" or "3080 12GB"')
    add_language(parser)


def run(args: argparse.Namespace) -> int:
    words = words_of(args)
    if args.name:
        print("\n\n".join(_shown(card, words) for card in find_cards(split_count(" ".join(args.name))[1])))
    else:
        print(_listed(words))
    return 0


def _listed(words: Words) -> str:
    rows = [(words.text("card"), words.text("GB"), "TFLOP/s", "")]
    for card in all_cards():
        peak = card.peak_for()
        computed = " ~" if peak and not card.verified.startswith("seen") else ""
        of_peak = (words.number(peak.tflops), peak.precision + computed) if peak else (words.number(None), "")
        rows.append((card.name, words.number(card.memory_gb), *of_peak))
    name, memory, width = (max(len(row[column]) for row in rows) for column in range(3))
    return "\n".join(
        [
            *(f"{row[0]:{name}}  {row[1]:>{memory}}  {row[2]:>{width}} {row[3]}".rstrip() for row in rows),
            "",
            words.text("TFLOP/s: dense, in the number format shown, accumulated in FP32"),
            words.text("~: computed from processors and clock, not taken from a data sheet"),
        ]
    )


def _shown(card: Card, words: Words) -> str:
    def amount(value: float | None, unit: str) -> str:
        return words.text("unknown") if value is None else f"{words.number(value)} {unit}"

    def size(value: float | None, per: str = "") -> str:
        return words.text("unknown") if value is None else words.size(value).replace("\u00a0", " ") + per

    peak, processors = card.peak_for(), words.text("SMs")
    rows = {
        words.text("architecture"): f"{card.arch} {card.compute}".strip(),
        words.text("memory"): f"{size(card.memory_gb)}, {size(card.bandwidth_gb_s, '/s')}",
        words.text("peak for mfu"): amount(peak and peak.tflops, "TFLOP/s") + (f", {peak.precision}" if peak else ""),
        "bf16": words.text("none") if card.without_bf16 else amount(card.bf16_tflops, "TFLOP/s"),
        "fp16": amount(card.fp16_tflops, "TFLOP/s"),
        "fp32": amount(card.fp32_tflops, "TFLOP/s"),
        words.text("processors"): f"{amount(card.sms, processors)}, {amount(card.boost_mhz, 'MHz')}",
        words.text("figures"): words.text(_CHECKED[card.verified]) if card.verified in _CHECKED else card.verified,
        words.text("source"): card.source,
        words.text("note"): card.note,
    }
    width = max(map(len, rows))
    return "\n".join([card.name, *(f"  {label:{width}}  {text}" for label, text in rows.items() if text)])
