"""GPT-2's vocabulary, with the same ids as everywhere else."""

from __future__ import annotations

import bz2
import hashlib
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st
from tiktoken_ext import openai_public

from nanopace.corpus.tokenizers import gpt2
from nanopace.corpus.tokenizers.base import fingerprint, spelled
from nanopace.corpus.tokenizers.gpt2 import Gpt2, merges_file, vocabulary, vocabulary_file
from nanopace.errors import InputError

PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"  # as GPT-2 was released


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Hello world", [15496, 995]),
        ("<|endoftext|>", [27, 91, 437, 1659, 5239, 91, 29]),
        ("", []),
        ("\n\n", [628]),
        ("I'll  go", [40, 1183, 220, 467]),
    ],
)
def test_known_ids(text: str, ids: list[int]) -> None:
    assert Gpt2().encode(text) == ids


def test_the_hash_is_that_of_the_vocabulary() -> None:
    assert fingerprint(Gpt2.kind, vocabulary()) == Gpt2.hash
    assert len(vocabulary()) == Gpt2.vocab_size == 50257
    assert Gpt2.end_of_text == 50256


def test_the_merges_lead_to_the_vocabulary_in_its_order() -> None:
    merges = merges_file().decode().splitlines()[1:]
    assert [spelled(merge.replace(" ", "")) for merge in merges] == list(vocabulary()[256:50256])


@settings(max_examples=200)
@given(st.text() | st.text(alphabet="ab1 \n\t'slvet.ü"))
def test_ids_are_those_of_the_released_pattern(text: str) -> None:
    assert Gpt2().encode(text) == released().encode_ordinary(text)


def released() -> tiktoken.Encoding:
    if not _released:
        ranks = {entry: rank for rank, entry in enumerate(vocabulary()[:-1])}
        _released.append(tiktoken.Encoding("released", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={}))
    return _released[0]


_released: list[tiktoken.Encoding] = []


@pytest.mark.slow
def test_both_files_are_openais_to_the_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the hashes that tiktoken checks when it downloads them."""
    asked: dict[str, str] = {}
    monkeypatch.setattr(openai_public, "data_gym_to_mergeable_bpe_ranks", lambda **said: asked.update(said))
    openai_public.gpt2()
    assert hashlib.sha256(merges_file()).hexdigest() == asked["vocab_bpe_hash"]
    assert hashlib.sha256(vocabulary_file()).hexdigest() == asked["encoder_json_hash"]


def test_a_damaged_list_is_not_believed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path, whole = tmp_path / "merges.bz2", gpt2._MERGES.read_bytes()
    monkeypatch.setattr(gpt2, "_MERGES", path)
    for data in (None, b"", b"garbage", bz2.compress(b"#version: 0.2\nJ ello\n"), whole[:-1]):
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(
            InputError, match=r"merges.bz2: GPT-2's vocabulary is missing or damaged; reinstall nanopace"
        ):
            merges_file()


def test_opening_reads_no_vocabulary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpt2, "_MERGES", tmp_path / "absent")
    assert Gpt2().vocab_size == 50257
