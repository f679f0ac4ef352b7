"""Writes documents as a corpus in nanoGPT's format for both trainers: train.bin, val.bin, meta.pkl and tokenizer.json.

A document's hash decides whether it is held out. The vocabulary is a byte-level BPE of 50,256 entries, trained on every
fourth document, plus an end of text before each document: 50,257 in all, rounded up to 50,304 in both trainers.

`nanopace prepare --tokenizer bpe` can make such a corpus, too, and this module uses its BPE and its tokenizer.json. It
does not use the rest: prepare reads files in pieces, in little memory, and encodes with tiktoken, which may be missing
here.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import pickle
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nanopace.corpus.tokenizers.bpe import TrainedBpe, train
from nanopace.corpus.tokenizers.characters import Characters
from nanopace.corpus.tokenizers.tokenizer import Tokenizer, load_tokenizer

EVERY = 4  # the vocabulary is trained on one document in this many
ROUND = 64  # vocabularies are rounded up to a multiple of this
PIECE = 1 << 20  # characters that a process encodes at a time, or one document


@dataclass(frozen=True, slots=True)
class Document:
    digest: bytes  # sha256 of the text
    text: str

    @classmethod
    def of(cls, text: str) -> Document:
        return cls(hashlib.sha256(text.encode()).digest(), text)

    def held_out(self, share: float) -> bool:
        """Decided by the end of the hash: its start orders the documents, and a small corpus ends early."""
        return int.from_bytes(self.digest[-8:]) < share * 2**64


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=Path)
    parser.add_argument("--vocab", type=int, default=50256, help="BPE entries, without the end of text")
    parser.add_argument("--tokenizer", type=Path, help="use this tokenizer.json instead of training one")


def pieces(documents: Sequence[Document]) -> Iterator[list[str]]:
    """The texts in order, about PIECE characters at a time."""
    gathered: list[str] = []
    characters = 0
    for each in documents:
        gathered.append(each.text)
        characters += len(each.text)
        if characters >= PIECE:
            yield gathered
            gathered, characters = [], 0
    if gathered:
        yield gathered


_encoder: Any = None  # Hugging Face's; the processes that encode inherit it


def _ids(texts: Sequence[str]) -> np.ndarray:
    """The ids of some texts, with an end of text before each."""
    between = np.array([_encoder.token_to_id("<|endoftext|>")], dtype=np.uint16)
    encoded = [np.array(each.ids, dtype=np.uint16) for each in _encoder.encode_batch(texts, add_special_tokens=False)]
    return np.concatenate([part for each in encoded for part in (between, each)])


def encode(tokenizer: Tokenizer, documents: Sequence[Document], path: Path) -> int:
    """Write the tokens of all documents, and return their number.

    Threads of one process share a cache of words and free each other's memory; processes do not, and stay fast on many
    cores. They return only uint16 arrays.
    """
    global _encoder
    if not isinstance(tokenizer, TrainedBpe):
        return _write(path, (np.asarray(tokenizer.encode(each.text), dtype=np.uint16) for each in documents), documents)
    _encoder = tokenizer.huggingface()
    _encoder.encode_special_tokens = True  # an end of text that a file only mentions is plain text
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with multiprocessing.get_context("fork").Pool() as pool:
        return _write(path, pool.imap(_ids, pieces(documents)), documents)


def _write(path: Path, parts: Iterable[np.ndarray], documents: Sequence[Document]) -> int:
    tokens, shown = 0, time.monotonic()
    characters = sum(len(each.text) for each in documents)
    with path.open("wb") as file:
        for part in parts:
            part.tofile(file)
            tokens += len(part)
            if time.monotonic() - shown >= 5:
                shown = time.monotonic()
                print(
                    f"  {path.name}: {tokens / 1e6:.1f}M tokens, {characters / 1e6:.0f}M characters in all", flush=True
                )
    return tokens


def make_tokenizer(documents: Sequence[Document], given: Path | None, entries: int, chars: bool) -> Tokenizer:
    if given is not None:
        found = load_tokenizer(given if given.is_dir() else given.parent)
        if found is None:
            raise SystemExit(f"{given}: no tokenizer.json found")
        return found
    if chars:
        return Characters(sorted(set().union(*(each.text for each in documents))))
    return train((each.text for each in documents[::EVERY]), entries + 1)


def rounded_up(vocab_size: int) -> int:
    return -(-vocab_size // ROUND) * ROUND


def write_meta(directory: Path, tokenizer: Tokenizer) -> int:
    """Write meta.pkl, from which nanoGPT reads the vocabulary size, and its sample.py also the characters."""
    chars = tokenizer.alphabet if isinstance(tokenizer, Characters) else ()
    size = tokenizer.vocab_size if chars else rounded_up(tokenizer.vocab_size)
    meta: dict[str, Any] = {"vocab_size": size}
    if chars:
        meta |= {"itos": dict(enumerate(chars)), "stoi": {each: number for number, each in enumerate(chars)}}
    (directory / "meta.pkl").write_bytes(pickle.dumps(meta))
    tokenizer.save(directory)
    return size


# --- the corpus ------------------------------------------------------------------------------------------------------


@contextmanager
def phase(name: str) -> Iterator[None]:
    print(f"{name} ...", flush=True)
    begin = time.monotonic()
    yield
    print(f"  {time.monotonic() - begin:.1f} s", flush=True)


def write_corpus(
    out: Path, documents: Sequence[Document], share: float, given: Path | None, entries: int, chars: bool = False
) -> dict[str, int]:
    """Write the corpus in the order of the documents, say how large it is, and return the tokens of train and val."""
    kept = {
        "train": [each for each in documents if not each.held_out(share)],
        "val": [each for each in documents if each.held_out(share)],
    }
    if not all(kept.values()):
        raise SystemExit("too little text to hold some out: give more sources, or a larger --val")
    with phase("building the vocabulary"):
        tokenizer = make_tokenizer(documents, given, entries, chars)
        if tokenizer.vocab_size > 1 << 16:
            raise SystemExit(f"{tokenizer.vocab_size:,} entries do not fit in nanoGPT's uint16")
        print(f"  {tokenizer.kind}, {tokenizer.vocab_size:,} entries", flush=True)
    out.mkdir(parents=True, exist_ok=True)
    with phase("encoding"):
        tokens = {name: encode(tokenizer, each, out / f"{name}.bin") for name, each in kept.items()}
    size = write_meta(out, tokenizer)
    counts = ", ".join(f"{name} {count:,} tokens from {len(kept[name]):,} documents" for name, count in tokens.items())
    print(f"{out}: {counts}")
    print(f"vocab_size = {size} (nanoGPT reads it from meta.pkl; give nanopace --vocab_size={size})")
    return tokens
