"""The settings of `nanopace sample`, given as for nanoGPT's sample.py: by flags and config files with its names."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from nanopace.cli.ordered_flags import KeepOrder
from nanopace.config_text import read_config, read_knob
from nanopace.errors import ConfigError, UsageError
from nanopace.knob import Knob
from nanopace.literals import Value, shown

# nanoGPT's names and defaults, except for device and dtype, which are chosen as for training. '': the best available.
KNOBS: Mapping[str, Knob] = {
    knob.name: knob
    for knob in (
        Knob("out_dir", "out", "directory of the run whose model to use", may_be_empty=False),
        Knob(
            "init_from",
            "resume",
            "the model in out_dir (resume), or gpt2, gpt2-medium, gpt2-large, gpt2-xl",
            may_be_empty=False,
        ),
        Knob("start", "", "the prompt, or FILE:prompt.txt (default: start a new document)"),
        Knob("num_samples", 10, "number of samples", least=1),
        Knob("max_new_tokens", 500, "maximum tokens per sample", least=1),
        Knob("temperature", 0.8, "0 always picks the most likely token", least=0),
        Knob("top_k", 200, "sample from the N most likely tokens; 0: from all", least=0),
        Knob("seed", 1337, "the same seed gives the same text", least=0),
        Knob("device", "", "cpu, cuda, cuda:1 or mps (default: the best available)", may_be_empty=False),
        Knob(
            "dtype",
            "float32",
            "precision of matrix products on a CUDA card; bfloat16 and float16 are slower at one token at a time",
            choices=("float32", "bfloat16", "float16"),
        ),
        Knob("compile", False, "accepted but not needed: a KV cache makes sampling fast"),
    )
}
_OTHER_SPELLINGS = {"start": "--prompt", "num_samples": "--num"}


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """nanoGPT's own flags, and the model."""
    parser.add_argument(
        "--model",
        action=KeepOrder,
        metavar="MODEL",
        help="an out_dir, a checkpoint in it, a nanoGPT ckpt.pt, or a Hugging Face directory (GPT-2 or recipe=fast); "
        "or a config file (.py), which is read, never executed. --model may be left out; later files and flags win",
    )
    for knob in KNOBS.values():
        flags = [f"--{knob.name}", *filter(None, [_OTHER_SPELLINGS.get(knob.name)])]
        default = "" if knob.default in ("", False) else f" (default: {knob.default})"
        parser.add_argument(
            *flags,
            dest=knob.name,
            action=KeepOrder,
            metavar=type(knob.default).__name__.upper(),
            help=knob.why + default,
        )
    parser.add_argument("--download", action="store_true", help="download the GPT-2 that --init_from names, if needed")
    parser.set_defaults(in_order=())


def read_sampling(args: argparse.Namespace) -> None:
    """Put every knob into `args`, and into `args.model` the path given without a flag, or None."""
    given = {name: knob.default for name, knob in KNOBS.items()}
    args.model = None
    for name, word in args.in_order:
        if name != "model":
            given[name] = read_knob(name, word, f"--{name}", KNOBS)
        elif word.endswith(".py") and os.path.isfile(word):
            given |= _from_file(word)
        elif args.model is None:
            args.model = word
        else:
            raise UsageError("{one} and {other}: name one model at a time", one=args.model, other=word)
    for name, word in args.in_order:
        if name in ("out_dir", "init_from") and args.model is not None:
            raise UsageError(
                "{model} and {flag}={value}: both name a model; give one of them",
                model=args.model,
                flag=f"--{name}",
                value=word,
            )
    for name, value in given.items():
        setattr(args, name, value)


def find_weights(args: argparse.Namespace) -> Path:
    """Where the requested model is."""
    from nanopace.train.formats.hub import find_model, is_of_the_hub

    if args.model is not None:
        if is_of_the_hub(args.model) and not os.path.exists(args.model):
            return find_model(args.model, args.download)
        return Path(args.model)
    if args.init_from != "resume":
        return find_model(args.init_from, args.download)
    if not os.path.exists(args.out_dir):
        raise UsageError(
            "--out_dir={out_dir}: no such directory; name the out_dir of a run, or a model", out_dir=args.out_dir
        )
    return Path(args.out_dir)


def _from_file(path: str) -> dict[str, Value]:
    """What a config file sets for sampling. It may be that of a training run, which sets more."""
    found: dict[str, Value] = {}
    for name, value in read_config(path).items():
        if name not in KNOBS:
            continue
        fitted = KNOBS[name].fitted(value)
        if fitted is None or KNOBS[name].refuses(fitted):
            raise ConfigError(
                "{path}: {knob} must be {kind}, not {value}",
                path=path,
                knob=name,
                kind=" | ".join(KNOBS[name].choices or (KNOBS[name].kind,)),
                value=shown(value),
            )
        found[name] = fitted
    return found
