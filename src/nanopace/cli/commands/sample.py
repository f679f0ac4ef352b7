"""Generate text that continues a prompt, and print it as it is produced."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nanopace.cli.checkpoint_flag import add_which, passed_over_lines
from nanopace.cli.needs_torch import needs_torch
from nanopace.cli.options import add_language, bounded, words_of
from nanopace.cli.sample_flags import add_sampling, find_weights, read_sampling
from nanopace.errors import InputError, UsageError, reason_of
from nanopace.wording.printable import clean

if TYPE_CHECKING:
    from nanopace.corpus.tokenizers.tokenizer import Tokenizer
    from nanopace.train.formats.pretrained import Pretrained
    from nanopace.train.models.gpt2 import GPT
    from nanopace.wording.catalog import Words

SEPARATOR = "---------------"  # nanoGPT's separator between two samples

_LARGEST_PROMPT = 16 << 20  # bytes
MAY_BE_EMPTY = ("start",)
WORDS_ARE = "--model"  # or config files
# A model must not control the user's terminal.
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "nanopace sample [MODEL] [CONFIG ...] [FLAGS]"
    add_sampling(parser)
    add_which(parser)
    group = parser.add_argument_group("beyond nanoGPT")
    group.add_argument(
        "--top_p",
        type=bounded(float, "share", lambda share: 0 < share <= 1),
        metavar="P",
        default=1.0,
        help="sample from the most likely tokens that together have this probability (default: 1, all)",
    )
    group.add_argument(
        "--tokenizer",
        metavar="WHERE",
        help="gpt2, bytes, or a directory with a tokenizer.json or meta.pkl, if the model has none",
    )
    group.add_argument(
        "--no-cache",
        action="store_true",
        help="recompute everything for each token: slow; the text is the same in float32",
    )
    add_language(parser)


def run(args: argparse.Namespace) -> int:
    words = words_of(args)
    read_sampling(args)
    prompt = _prompt(args.start)
    with needs_torch("sample"):
        from nanopace.train.formats.convert import open_pretrained
        from nanopace.train.models.generate import precision
        from nanopace.train.plan.device import find_machine

        device = find_machine(args.device or None).device
        pretrained = open_pretrained(find_weights(args), args.which or "")
        tokenizer = _tokenizer(args.tokenizer, pretrained)
        start = _encoded(prompt, tokenizer)
        for line in _notes(args, pretrained, device.type, words):
            print(f"nanopace: {clean(line)}", file=sys.stderr)
        model = pretrained.model(device)
        begun = time.perf_counter()
        tokens = 0
        with precision(device, args.dtype):
            for number in range(args.num_samples):
                if number:
                    _show(f"\n{SEPARATOR}\n")
                _show(prompt)
                tokens += _sample(model, tokenizer, start, args, args.seed + number)
        _show("\n")
    _report(tokens, time.perf_counter() - begun, words)
    return 0


def _notes(args: argparse.Namespace, pretrained: Pretrained, device: str, words: Words) -> Iterator[str]:
    """What to know before the text: which checkpoint generates it, and which flags have no effect."""
    if args.dtype != "float32" and device != "cuda":
        yield words.text(
            "--dtype={dtype}: without a CUDA card sampling runs in float32, as in nanoGPT", dtype=args.dtype
        )
    if args.compile:
        yield words.text("--compile=True: sampling does not compile the model; a KV cache makes it fast")
    if pretrained.tokenizer_assumed and args.tokenizer is None:
        yield words.text(
            "the model has no tokenizer; its vocabulary has the size of GPT-2's, so GPT-2's is used (--tokenizer names "
            "another)"
        )
    yield from passed_over_lines(pretrained.chosen, words)
    if pretrained.chosen is not None:
        yield words.message(pretrained.chosen.reason)


def _sample(model: GPT, tokenizer: Tokenizer, start: list[int], args: argparse.Namespace, seed: int) -> int:
    from nanopace.train.models.generate import TextStream, generate

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
            raise InputError("--start {path}: is too large for a prompt", path=path)
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("--start {path}: is not UTF-8 text", path=path) from None
    except (OSError, ValueError) as error:
        raise InputError("--start {path}: cannot be read: {reason}", path=path, reason=reason_of(error)) from None


def _tokenizer(asked: str | None, pretrained: Pretrained) -> Tokenizer:
    from nanopace.corpus.tokenizers.tokenizer import bytes_tokenizer, gpt2, load_tokenizer

    known = {"gpt2": gpt2, "bytes": bytes_tokenizer}
    if asked is None:
        found = pretrained.tokenizer
    else:
        found = known[asked]() if asked in known else load_tokenizer(Path(asked))
        if found is None:
            raise UsageError("--tokenizer {asked}: no tokenizer.json or meta.pkl there", asked=asked)
    if found is None:
        raise InputError(
            "{path}: has no tokenizer; name one with --tokenizer, such as the corpus it was trained on",
            path=pretrained.path,
        )
    if found.vocab_size > pretrained.shape.vocab_size:
        raise InputError(
            "{path}: has {model} token ids, but its tokenizer has {tokenizer}; they do not belong together",
            path=pretrained.path,
            model=pretrained.shape.vocab_size,
            tokenizer=found.vocab_size,
        )
    return found


def _encoded(prompt: str, tokenizer: Tokenizer) -> list[int]:
    """The prompt's tokens; if it is empty, the end-of-text token, or a newline if there is none.

    GPT-2's name for the end of a document is encoded as that token, as in nanoGPT.
    """
    from nanopace.corpus.tokenizers.base import END_OF_TEXT

    if tokenizer.end_of_text is None:
        return tokenizer.encode(prompt or "\n")
    first, *others = prompt.split(END_OF_TEXT) if tokenizer.kind == "gpt2" else [prompt]
    tokens = tokenizer.encode(first)
    for text in others:
        tokens += [tokenizer.end_of_text, *tokenizer.encode(text)]
    return tokens or [tokenizer.end_of_text]


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
