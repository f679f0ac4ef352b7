"""Let a model write: text that follows a prompt, shown as it comes."""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from nanopace.cli.options import add_language, words_of
from nanopace.cli.torch_room import torch_room
from nanopace.errors import InputError, UsageError

if TYPE_CHECKING:
    from nanopace.corpus.tokenizer import Tokenizer
    from nanopace.train.model import GPT
    from nanopace.train.pretrained import Pretrained
    from nanopace.wording.catalog import Words

_Number = TypeVar("_Number", int, float)

SEPARATOR = "---------------"  # nanoGPT's, between two samples

_LARGEST_PROMPT = 16 << 20  # bytes
MAY_BE_EMPTY = ("prompt",)
# A model must not steer somebody's terminal.
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        type=Path,
        metavar="MODEL",
        help="an out_dir or one checkpoint in it, nanoGPT's ckpt.pt, or a Hugging Face directory of a GPT-2",
    )
    parser.add_argument(
        "--prompt", metavar="TEXT", default="", help="what to go on from, or FILE:path (else a new document)"
    )
    parser.add_argument("--num", type=_count, metavar="N", default=1, help="samples, one after another (default 1)")
    parser.add_argument(
        "--max_new_tokens", type=_count, metavar="N", default=200, help="tokens per sample at most (default 200)"
    )
    group = parser.add_argument_group("chance")
    group.add_argument(
        "--temperature", type=_amount, metavar="X", default=0.8, help="0: always the likeliest token (default 0.8)"
    )
    group.add_argument(
        "--top_k", type=_whole, metavar="N", default=200, help="of the N likeliest tokens; 0: of all (default 200)"
    )
    group.add_argument(
        "--top_p",
        type=_share,
        metavar="P",
        default=1.0,
        help="of the likeliest tokens that have this chance together (default 1: of all)",
    )
    group.add_argument("--seed", type=_whole, metavar="N", default=1337, help="the same seed gives the same text")
    group = parser.add_argument_group("how")
    group.add_argument("--device", metavar="NAME", help="cpu, cuda, cuda:1 or mps (else the best there is)")
    group.add_argument(
        "--tokenizer",
        metavar="WHERE",
        help="gpt2, bytes, or a directory with a tokenizer.json or meta.pkl, if the model brings none",
    )
    group.add_argument("--no-cache", action="store_true", help="read everything anew for each token: slow, same text")
    add_language(parser)


def run(args: argparse.Namespace) -> int:
    words = words_of(args)
    prompt = _prompt(args.prompt)
    with torch_room("sample"):
        from nanopace.train.convert import open_pretrained
        from nanopace.train.device import find_machine

        device = find_machine(args.device).device
        pretrained = open_pretrained(args.model)
        tokenizer = _tokenizer(args.tokenizer, pretrained)
        start = _encoded(prompt, tokenizer)
        model = pretrained.model(device)
        begun = time.perf_counter()
        tokens = 0
        for number in range(args.num):
            if number:
                _show(f"\n{SEPARATOR}\n")
            _show(prompt)
            tokens += _sample(model, tokenizer, start, args, args.seed + number)
        _show("\n")
    _report(tokens, time.perf_counter() - begun, words)
    return 0


def _sample(model: GPT, tokenizer: Tokenizer, start: list[int], args: argparse.Namespace, seed: int) -> int:
    from nanopace.train.sample import TextStream, generate

    stream, count = TextStream(tokenizer), 0
    for token in generate(
        model,
        start,
        args.max_new_tokens,
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        seed=seed,
        vocabulary=tokenizer.vocab_size,
        end_of_text=tokenizer.end_of_text,
        cache=not args.no_cache,
    ):
        count += 1
        _show(stream.add(token))
    _show(stream.end())
    return count


def _prompt(text: str) -> str:
    if not text.startswith("FILE:"):
        return text
    path = text.removeprefix("FILE:")
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST_PROMPT + 1)
        if len(data) > _LARGEST_PROMPT:
            raise InputError("--prompt {path}: is too large for a prompt", path=path)
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("--prompt {path}: is not UTF-8 text", path=path) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError("--prompt {path}: cannot be read: {reason}", path=path, reason=reason) from None


def _tokenizer(asked: str | None, pretrained: Pretrained) -> Tokenizer:
    from nanopace.corpus.tokenizer import bytes_tokenizer, gpt2, load_tokenizer

    known = {"gpt2": gpt2, "bytes": bytes_tokenizer}
    if asked is None:
        found = pretrained.tokenizer
    else:
        found = known[asked]() if asked in known else load_tokenizer(Path(asked))
        if found is None:
            raise UsageError("--tokenizer {asked}: no tokenizer.json or meta.pkl is there", asked=asked)
    if found is None:
        raise InputError(
            "{path}: brings no tokenizer; name one with --tokenizer, such as the corpus it was trained on",
            path=pretrained.path,
        )
    if found.vocab_size > pretrained.shape.vocab_size:
        raise InputError(
            "{path}: has {model} token ids, and its tokenizer {tokenizer}; they do not belong together",
            path=pretrained.path,
            model=pretrained.shape.vocab_size,
            tokenizer=found.vocab_size,
        )
    return found


def _encoded(prompt: str, tokenizer: Tokenizer) -> list[int]:
    """The prompt's tokens; without one, what stands between documents, or where nothing does, a new line."""
    if prompt or tokenizer.end_of_text is None:
        return tokenizer.encode(prompt or "\n")
    return [tokenizer.end_of_text]


def _show(text: str) -> None:
    if sys.stdout.isatty():
        text = _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text.replace("\r", ""))
    sys.stdout.write(text)
    sys.stdout.flush()


def _report(tokens: int, seconds: float, words: Words) -> None:
    said = words.plural(
        "{n} token in {time}: {rate} tokens/s",
        "{n} tokens in {time}: {rate} tokens/s",
        tokens,
        time=words.duration(seconds),
        rate=words.number(tokens / seconds, 1),
    )
    print(said, file=sys.stderr)


# --- what flags may be; argparse tells their names: "invalid count value: 0" ------------------------------------------


def _count(text: str) -> int:
    return _within(int(text), 1, 1 << 32)


def _whole(text: str) -> int:
    return _within(int(text), 0, 1 << 62)


def _amount(text: str) -> float:
    return _within(float(text), 0, 1e6)


def _share(text: str) -> float:
    value = _within(float(text), 0, 1)
    if value == 0:
        raise ValueError(text)
    return value


def _within(value: _Number, least: float, most: float) -> _Number:
    if not least <= value <= most:
        raise ValueError(value)
    return value


_count.__name__ = "count"
_whole.__name__ = "whole number"
_amount.__name__ = "amount"
_share.__name__ = "share"
