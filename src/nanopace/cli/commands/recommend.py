"""Recommend what to train on a card, and how: what fits, the fastest sensible micro-batch, how long, to what loss.

No GPU is needed. The figures are estimates with a range, based on measured and published speeds.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from nanopace.cli.config_output import add_answer, check_answer, write_answer
from nanopace.cli.options import add_prices, bounded, words_of, writer_of
from nanopace.errors import AmbiguousCard, UnknownCard, UsageError

if TYPE_CHECKING:
    from nanopace.hardware.cards import Card
    from nanopace.prices import Prices
    from nanopace.tune.recommend.costs import Costs
    from nanopace.tune.recommend.models import Model
    from nanopace.tune.recommend.recommend import Recommendation
    from nanopace.tune.recommend.recommend_view import Answer

_MOST_CARDS = 12

_figure = bounded(float, "figure", lambda figure: 1e-3 <= figure < 1e5)  # TFLOP/s and GB: no card has less or more


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to train, and on which card")
    group.add_argument("--gpu", metavar="NAME", help='a card, such as 4070, or several to compare: "4070,4080,4090"')
    group.add_argument(
        "--model", metavar="MODEL", help="gpt2, gpt2-medium, 774M, 1.5B or n_layer=12,n_head=12,n_embd=768"
    )
    group.add_argument(
        "--tokens", metavar="N", help="tokens to train on, such as 10B (default: 20 per parameter, at most 16 epochs)"
    )
    group.add_argument("--batch", metavar="TOKENS", help="tokens per step (default: 524288, fewer in a short run)")
    group.add_argument(
        "--dataset", metavar="NAME", default="fineweb-edu", help="folder under data/ (default: fineweb-edu)"
    )
    group.add_argument("--peak-tflops", metavar="X", type=_figure, help="dense bf16 peak of a card that is not listed")
    group.add_argument("--memory", metavar="GB", type=_figure, help="memory of a card that is not listed")
    add_prices(parser, "[CARD=]")
    add_answer(parser, "write a config file for nanopace train and nanoGPT")


def run(args: argparse.Namespace) -> int:
    words = words_of(args)
    cards = _cards(args)
    if args.write is not None and len(cards) > 1:
        raise UsageError("--write writes the config for one card, but {cards} are given", cards=len(cards))
    check_answer(args)
    prices = _prices(args, cards)
    answers = [_answer(card, price, args) for card, price in zip(cards, prices, strict=True)]
    if args.json:
        from nanopace.tune.recommend.recommend_view import document
        from nanopace.views.json import recommend_json

        sys.stdout.write(recommend_json([document(answer) for answer in answers]))
    else:
        from nanopace.tune.recommend.recommend_view import write

        writer = writer_of(args)
        write(answers, words, writer)
        writer.finish()
    if args.write is not None:
        from nanopace.tune.recommend.config_file import config_text

        write_answer(args, config_text(answers[0].found), words)
    return 0


def _answer(card: Card, prices: Prices | None, args: argparse.Namespace) -> Answer:
    from nanopace.config import KNOBS
    from nanopace.tune.recommend.amounts import read_tokens
    from nanopace.tune.recommend.budget import STEP_TOKENS, budget_of
    from nanopace.tune.recommend.datasets import find_dataset
    from nanopace.tune.recommend.micro_batch import host_micro_batch
    from nanopace.tune.recommend.models import find_model
    from nanopace.tune.recommend.recommend import best_model, considered, fits, recommend
    from nanopace.tune.recommend.recommend_view import Answer, Candidate

    if not args.dataset.isprintable() or KNOBS["dataset"].fitted(args.dataset) is None:
        raise UsageError("--dataset {dataset}: must be the name of a folder", dataset=ascii(args.dataset))
    tokens = None if args.tokens is None else read_tokens(args.tokens, "--tokens")
    step = None if args.batch is None else read_tokens(args.batch, "--batch")
    dataset = find_dataset(args.dataset)
    asked = None if args.model is None else find_model(args.model, dataset.vocab_size)

    def found(model: Model) -> Recommendation:
        return recommend(card, model, tokens=tokens, step_tokens=step, dataset=dataset)

    def priced(recommendation: Recommendation | None) -> Costs | None:
        if prices is None or recommendation is None:
            return None
        from nanopace.tune.recommend.costs import costs_of

        return costs_of(recommendation, prices)

    if asked is not None:
        return Answer(only := found(asked), costs=priced(only))
    others = []
    for each in considered(dataset):
        fitting = found(each) if fits(card, each, budget_of(each, dataset, tokens, step).per_step) else None
        with_host = fitting is None and host_micro_batch(card, each, STEP_TOKENS // each.block_size) is not None
        others.append(Candidate(each, fitting, priced(fitting), with_host))
    best = found(best_model(card, dataset, tokens=tokens))
    return Answer(best, tuple(others), priced(best))


def _prices(args: argparse.Namespace, cards: list[Card]) -> list[Prices | None]:
    """The prices of each card; None where none is given."""
    if not args.price and not args.co2:
        return [None] * len(cards)
    from nanopace.tune.recommend.costs import card_prices

    names = _names(args) or [card.name for card in cards]
    of = card_prices(args.price, args.co2, names)
    return [of(name) for name in names]


# --- cards -----------------------------------------------------------------------------------------------------------


def _cards(args: argparse.Namespace) -> list[Card]:
    named = _names(args)
    by_hand = args.peak_tflops is not None or args.memory is not None
    if not named and not by_hand:
        raise UsageError("--gpu NAME is needed, such as --gpu 4070; nanopace cards lists all")
    if len(named) > 1 and by_hand:
        raise UsageError("--peak-tflops and --memory describe one card, but --gpu names {cards}", cards=len(named))
    if len(named) > _MOST_CARDS:
        raise UsageError("--gpu: at most {most} cards side by side, not {cards}", most=_MOST_CARDS, cards=len(named))
    if by_hand:
        return [_by_hand(named[0] if named else None, args)]
    return [_find(name) for name in named]


def _names(args: argparse.Namespace) -> list[str]:
    return [] if args.gpu is None else [name.strip() for name in args.gpu.split(",") if name.strip()]


def _find(name: str) -> Card:
    from nanopace.hardware.cards import find_card, split_count

    count, single = split_count(name)
    if count > 1:
        raise UsageError("--gpu {name}: name a single card, without a count", name=name)
    try:
        return find_card(single)
    except UnknownCard as error:
        near = error.values.get("near", error.values.get("cards"))
        if near is None:
            raise UnknownCard(
                "{name}: no such card in the table (nanopace cards lists all); or give its figures: "
                "--peak-tflops 58 --memory 12",
                name=name,
            ) from None
        raise UnknownCard(
            "{name}: no such card in the table; similar names: {near}; or give its figures: --peak-tflops 58 "
            "--memory 12",
            name=name,
            near=near,
        ) from None


def _by_hand(name: str | None, args: argparse.Namespace) -> Card:
    """A card from the table with other figures, or one that is not in it."""
    from nanopace.hardware.cards import find_card, given_card

    known, peak, memory = None, args.peak_tflops, args.memory
    if name is not None:
        try:
            known = find_card(name)
        except AmbiguousCard:
            known = find_card(name, memory_gb=memory)  # which may decide between those of the same name
        except UnknownCard:
            known = None
    if known is not None:
        if memory is not None:
            known = known._replace(memory_gb=memory)
        if peak is not None and known.without_tensor_cores:
            return known._replace(fp32_tflops=peak)
        if peak is not None and known.without_bf16:
            return known._replace(fp16_tflops=peak)
        return known if peak is None else known._replace(bf16_tflops=peak)
    if peak is None or memory is None:
        missing = "--peak-tflops" if peak is None else "--memory"
        raise UsageError("a card that is not in the table also needs {missing}", missing=missing)
    return given_card(name or f"{peak:g} TFLOP/s", peak, memory)
