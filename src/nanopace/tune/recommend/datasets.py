"""How much text a dataset has, and its vocabulary: from a corpus on this disk, or for a well-known name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from nanopace.errors import InputError


@dataclass(frozen=True, slots=True)
class Dataset:
    """What --dataset stands for."""

    name: str
    tokens: int | None = None  # for training; None: unknown
    vocab_size: int | None = None  # None: GPT-2's, or unknown
    command: str | None = None  # that creates it, if not nanopace prepare with the name


# From nanoGPT's README, and the name of the sample.
KNOWN: Mapping[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        Dataset("fineweb-edu", 10_000_000_000),
        Dataset("openwebtext", 9_035_582_198),
        Dataset("shakespeare", 301_966),
        Dataset(
            "shakespeare_char", 1_003_854, 65, "nanopace prepare shakespeare --tokenizer chars --name shakespeare_char"
        ),
    )
}
_GPT2_TOKENS = 50_257


def find_dataset(name: str) -> Dataset:
    """The dataset on this disk, where `nanopace train` would find it; else what is known about its name."""
    known = KNOWN.get(name, Dataset(name))
    if not any(os.path.isdir(directory) for directory in (name, os.path.join("data", name))):
        return known
    from nanopace.corpus.shards.corpus import find_corpus, open_corpus  # imports numpy

    try:
        corpus = open_corpus(find_corpus(name))
    except (InputError, OSError):  # training on it will report why
        return known
    tokens = sum(shard.tokens for shard in corpus.train.shards)
    return replace(known, tokens=tokens, vocab_size=None if corpus.vocab_size == _GPT2_TOKENS else corpus.vocab_size)
