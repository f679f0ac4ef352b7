"""List the graphics cards that are known, or show one of them with the source of its figures."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from nanopace.cli.options import add_language, words_of
from nanopace.hardware.cards import Card, all_cards, find_card

if TYPE_CHECKING:
    from nanopace.wording.catalog import Words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="*", metavar="NAME", help='a card, such as "4070" or "3080 12GB"')
    add_language(parser)


def run(args: argparse.Namespace) -> int:
    words = words_of(args)
    print(_shown(find_card(" ".join(args.name)), words) if args.name else _listed(words))
    return 0


def _listed(words: Words) -> str:
    rows = [(words.text("card"), "GB", "TFLOP/s", "")]
    for card in all_cards():
        computed = "" if card.peak_tflops is None or card.verified.startswith("seen") else "~"
        rows.append((card.name, words.number(card.memory_gb), words.number(card.peak_tflops), computed))
    name, memory, peak = (max(len(row[column]) for row in rows) for column in range(3))
    return "\n".join(
        [
            *(f"{row[0]:{name}}  {row[1]:>{memory}}  {row[2]:>{peak}} {row[3]}".rstrip() for row in rows),
            "",
            words.text("TFLOP/s: dense bf16 (fp16 where there is none), accumulated in FP32"),
            words.text("~: computed from processors and clock, not read in a data sheet"),
        ]
    )


def _shown(card: Card, words: Words) -> str:
    def amount(value: float | None, unit: str) -> str:
        return words.text("unknown") if value is None else f"{words.number(value)} {unit}"

    rows = {
        words.text("architecture"): f"{card.arch} {card.compute}".strip(),
        words.text("memory"): f"{amount(card.memory_gb, 'GB')}, {amount(card.bandwidth_gb_s, 'GB/s')}",
        words.text("peak for mfu"): amount(card.peak_tflops, "TFLOP/s"),
        "bf16": amount(card.bf16_tflops, "TFLOP/s"),
        "fp16": amount(card.fp16_tflops, "TFLOP/s"),
        "fp32": amount(card.fp32_tflops, "TFLOP/s"),
        words.text("processors"): f"{amount(card.sms, 'SMs')}, {amount(card.boost_mhz, 'MHz')}",
        words.text("figures"): card.verified,
        words.text("source"): card.source,
        words.text("note"): card.note,
    }
    width = max(map(len, rows))
    return "\n".join([card.name, *(f"  {label:{width}}  {text}" for label, text in rows.items() if text)])
