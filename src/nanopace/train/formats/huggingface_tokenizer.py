"""Converts tokenizers to and from Hugging Face files: GPT-2's and similar BPEs, the only kinds both sides have."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nanopace.corpus.tokenizers.base import BYTE_OF_LETTER, END_OF_TEXT
from nanopace.corpus.tokenizers.bpe import TrainedBpe
from nanopace.corpus.tokenizers.gpt2 import merges_file, vocabulary_file
from nanopace.corpus.tokenizers.tokenizer import Tokenizer, gpt2
from nanopace.files import read_bounded

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt")

_LARGEST_FILE = 1 << 26  # bytes: a vocabulary of a million entries takes half of that
_CUTS_LIKE_GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}


def tokenizer_files(tokenizer: Tokenizer, block_size: int) -> dict[str, bytes]:
    """The files that transformers reads; none for bytes and characters, which it does not support."""
    if isinstance(tokenizer, TrainedBpe):
        files = {"tokenizer.json": tokenizer.huggingface().to_str().encode()}
    elif tokenizer.kind == "gpt2":
        entries, merges = vocabulary_file(), merges_file()
        bare = _bpe(json.loads(entries), _listed(merges.decode()))
        assert bare is not None
        files = {"tokenizer.json": bare.huggingface().to_str().encode(), "vocab.json": entries, "merges.txt": merges}
    else:
        return {}
    settings = {
        "tokenizer_class": "GPT2Tokenizer" if tokenizer.kind == "gpt2" else "PreTrainedTokenizerFast",
        **dict.fromkeys(("bos_token", "eos_token", "unk_token"), END_OF_TEXT),
        "add_prefix_space": False,
        "model_max_length": block_size,
    }
    return {**files, "tokenizer_config.json": (json.dumps(settings, indent=2) + "\n").encode()}


def read_tokenizer(directory: Path, vocab_size: int) -> Tokenizer | None:
    """The tokenizer of a Hugging Face directory; None if it has none, or one that we do not support.

    nanoGPT downloads only a GPT-2's weights, so the cache may lack its tokenizer. Its size identifies it.
    """
    if vocab_size == gpt2().vocab_size and not any((directory / name).exists() for name in TOKENIZER_FILES):
        return gpt2()
    try:
        found = _described(directory)
        bpe = None if found is None else _bpe(*found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError, RecursionError):
        return None
    if bpe is None or bpe.vocab_size > vocab_size:
        return None
    return gpt2() if _is_gpt2(bpe) else bpe


def _described(directory: Path) -> tuple[Mapping[str, int], Sequence[tuple[str, str]]] | None:
    """Vocabulary and merges, from tokenizer.json or from GPT-2's two files."""
    path = directory / "tokenizer.json"
    if path.exists():
        content = json.loads(_read(path))
        model, cuts = content["model"], content["pre_tokenizer"]
        if model.get("type", "BPE") != "BPE" or content["normalizer"] is not None:
            return None
        if any(cuts.get(name, value) != value for name, value in _CUTS_LIKE_GPT2.items()):
            return None
        added = {each["content"]: each["id"] for each in content["added_tokens"]}
        return {**model["vocab"], **added}, [_pair(each) for each in model["merges"]]
    if (directory / "vocab.json").exists():
        return json.loads(_read(directory / "vocab.json")), _listed(_read(directory / "merges.txt").decode())
    return None


def _read(path: Path) -> bytes:
    data = read_bounded(path, _LARGEST_FILE)
    if data is None:
        raise ValueError(path)
    return data


def _listed(merges: str) -> list[tuple[str, str]]:
    """The merges: one pair per line, after a line with the version."""
    return [_pair(line) for line in merges.split("\n") if line and not line.startswith("#version")]


def _pair(merge: Any) -> tuple[str, str]:
    first, second = merge.split(" ") if isinstance(merge, str) else merge
    return first, second


def _bpe(ids: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> TrainedBpe | None:
    """The tokenizer; None unless the ids are in this order: letters, merges, end of text."""
    ordered = sorted(ids, key=ids.__getitem__)
    bpe = TrainedBpe(ordered[: len(BYTE_OF_LETTER)], merges)
    if [*bpe.entries, END_OF_TEXT] != ordered or [ids[entry] for entry in ordered] != list(range(len(ordered))):
        return None
    return bpe


def _is_gpt2(bpe: TrainedBpe) -> bool:
    if bpe.vocab_size != gpt2().vocab_size:
        return False
    own = _bpe(json.loads(vocabulary_file()), _listed(merges_file().decode()))
    return own is not None and own.hash == bpe.hash
