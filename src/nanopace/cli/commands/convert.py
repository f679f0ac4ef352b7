"""Convert a model's weights to or from nanoGPT or Hugging Face. Nothing in a file is ever executed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nanopace.cli.checkpoint_flag import add_which, passed_over_lines
from nanopace.cli.needs_torch import needs_torch
from nanopace.cli.options import add_language, words_of
from nanopace.wording.printable import clean

if TYPE_CHECKING:
    from nanopace.train.formats.pretrained import Pretrained
    from nanopace.wording.catalog import Words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        type=Path,
        metavar="SOURCE",
        help="an out_dir or a checkpoint in it, a nanoGPT ckpt.pt, or a Hugging Face directory (GPT-2 or recipe=fast)",
    )
    parser.add_argument("target", type=Path, metavar="TARGET", help="what to write: a ckpt.pt, or a directory")
    parser.add_argument(
        "--to",
        choices=("nanogpt", "huggingface", "nanopace"),
        help="output format (default: nanogpt if TARGET ends in .pt, else huggingface)",
    )
    add_which(parser)
    parser.add_argument("--force", action="store_true", help="replace a TARGET written by an earlier conversion")
    add_language(parser)


def run(args: argparse.Namespace) -> int:
    words = words_of(args)
    with needs_torch("convert"):
        from nanopace.train.formats.convert import convert, form_by_name

        form = args.to or form_by_name(args.target)
        pretrained = convert(args.source, args.target, to=form, which=args.which or "", force=args.force)
    chosen = pretrained.chosen
    for line in [*passed_over_lines(chosen, words), *_notes(pretrained, form, words)]:
        print(f"nanopace: {clean(line)}", file=sys.stderr)
    parameters = sum(each.numel() for name, each in pretrained.weights.items() if name != "lm_head.weight")
    said = words.text(
        "Wrote {path}: {parameters} parameters, {which}",
        path=args.target,
        parameters=words.count(parameters),
        which=words.message(chosen.reason) if chosen else words.text("step {step}", step=words.count(pretrained.step)),
    )
    print(clean(said))
    return 0


def _notes(pretrained: Pretrained, form: str, words: Words) -> Iterator[str]:
    """What the output format has no place for, and what a program needs to load it."""
    tokenizer = pretrained.tokenizer
    if tokenizer is None:
        yield words.text("the tokenizer is unknown, so none is written")
    elif form == "huggingface" and tokenizer.kind not in ("gpt2", "bpe"):
        yield words.text("Hugging Face has no {kind} tokenizer, so only the weights are written", kind=tokenizer.kind)
    elif form == "nanogpt" and tokenizer.kind != "gpt2":
        yield words.text("a ckpt.pt cannot hold the {kind} tokenizer", kind=tokenizer.kind)
    if form == "nanogpt" and pretrained.shape.activation != "gelu":
        yield words.text("this model approximates GELU and nanoGPT does not, so its logits differ there by about 0.001")
    if form == "huggingface" and pretrained.optimizer is not None:
        yield words.text("the optimizer state is left out; training would start without it")
    if form == "huggingface" and pretrained.shape.recipe != "gpt2":
        yield words.text(
            "transformers loads this model with trust_remote_code=True, because its code is in the directory"
        )
