"""What `nanopace sample` shall do, as nanoGPT's sample.py is told: by flags, and by config files with their names."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from nanopace.config import CHOICES, Knob
from nanopace.config_text import read_config, read_knob
from nanopace.errors import ConfigError, UsageError
from nanopace.literals import Value, shown

# nanoGPT's names and defaults, but for device and dtype, which it chooses as for training. '': what is best here.
KNOBS: Mapping[str, Knob] = {
    knob.name: knob
    for knob in (
        Knob("out_dir", "out", "the directory of the run whose model shall write"),
        Knob("init_from", "resume", "the model in out_dir (resume), or gpt2, gpt2-medium, gpt2-large, gpt2-xl"),
        Knob("start", "", "what to go on from, or FILE:prompt.txt (else a new document)"),
        Knob("num_samples", 10, "samples, one after another"),
        Knob("max_new_tokens", 500, "tokens per sample at most"),
        Knob("temperature", 0.8, "0: always the likeliest token"),
        Knob("top_k", 200, "of the N likeliest tokens; 0: of all"),
        Knob("seed", 1337, "the same seed gives the same text"),
        Knob("device", "", "cpu, cuda, cuda:1 or mps (else the best there is)"),
        Knob("dtype", "float32", "of the products on a CUDA card; bfloat16 and float16 are slower, one token at a time"),
        Knob("compile", False, "accepted, but not needed: a KV cache makes sampling fast"),
    )
}
_OTHER_SPELLINGS = {"start": "--prompt", "num_samples": "--num"}


class _Said(argparse.Action):
    """Keeps what is said in its order: of nanoGPT's files and flags the later one wins."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        words = [values] if isinstance(values, str) else values or []
        namespace.said = [*namespace.said, *((self.dest, option_string, word) for word in words)]


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """nanoGPT's own flags, and where the model is."""
    parser.add_argument(
        "where",
        nargs="*",
        action=_Said,
        metavar="MODEL",
        help="an out_dir or one checkpoint in it, nanoGPT's ckpt.pt, a Hugging Face directory of a GPT-2 (else "
        "--out_dir); and config files, which end in .py: read, never executed",
    )
    for knob in KNOBS.values():
        flags = [f"--{knob.name}", *filter(None, [_OTHER_SPELLINGS.get(knob.name)])]
        default = "" if knob.default in ("", False) else f" (default {knob.default})"
        parser.add_argument(
            *flags, dest=knob.name, action=_Said, metavar=type(knob.default).__name__.upper(), help=knob.why + default
        )
    parser.add_argument("--download", action="store_true", help="fetch the GPT-2 that --init_from names, if need be")
    parser.set_defaults(said=())


def read_sampling(args: argparse.Namespace) -> None:
    """Puts every knob into `args`, and into `args.model` what was named without a flag, None for nothing."""
    given = {name: knob.default for name, knob in KNOBS.items()}
    args.model = None
    for name, flag, word in args.said:
        if flag is not None:
            given[name] = read_knob(name, word, flag, KNOBS)
        elif word.endswith(".py") and os.path.isfile(word):
            given |= _from_file(word)
        elif args.model is None:
            args.model = word
        else:
            raise UsageError("{one} and {other}: name one model at a time", one=args.model, other=word)
    for name, value in given.items():
        setattr(args, name, value)
    for name, flag, word in args.said:
        if flag is not None and name in ("out_dir", "init_from") and args.model is not None:
            raise UsageError(
                "{model} and {flag}={value}: both name a model; give one of them",
                model=args.model,
                flag=flag,
                value=word,
            )


def find_weights(args: argparse.Namespace) -> Path:
    """Where the model is that was named. What the hub has to be asked for is in the torch room."""
    named = args.model or args.init_from
    if named == "resume" and args.model is None:
        if not os.path.exists(args.out_dir):
            raise UsageError(
                "--out_dir={out_dir}: there is no such directory; name the out_dir of a run, or a model",
                out_dir=args.out_dir,
            )
        return Path(args.out_dir)
    if named.startswith("gpt2") and not os.path.exists(named):
        from nanopace.train.hub import find_model

        return find_model(named, args.download)
    if args.model is None and not os.path.exists(named):
        raise UsageError(
            "--init_from={named}: is no model; sample takes resume, a GPT-2 by its name such as gpt2-xl, or a path",
            named=named,
        )
    return Path(named)


def _from_file(path: str) -> dict[str, Value]:
    """What a config file says for sampling. It may be that of a training run, which says more."""
    found: dict[str, Value] = {}
    for name, value in read_config(path).items():
        if name not in KNOBS:
            continue
        fitted = KNOBS[name].fitted(value)
        if fitted is None or (name in CHOICES and fitted not in CHOICES[name]):
            raise ConfigError(
                "{path}: {knob} must be {kind}, not {value}",
                path=path,
                knob=name,
                kind=" | ".join(CHOICES.get(name, (KNOBS[name].kind,))),
                value=shown(value),
            )
        found[name] = fitted
    return found
