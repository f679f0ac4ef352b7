"""A vocabulary trained on a corpus: the same every time, and the same ids from both libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.corpus.tokenizers.base import encodable
from nanopace.corpus.tokenizers.bpe import TrainedBpe, _pairs, train
from nanopace.errors import InputError, UsageError

SOURCE = Path(pytest.__file__).parent
REAL = [path.read_text() for path in sorted(SOURCE.parent.glob("_pytest/*.py"))][:12]
TRAINED = train(REAL, 1200)


def test_it_has_the_size_that_was_asked_for() -> None:
    assert TRAINED.vocab_size == 1200
    assert TRAINED.end_of_text == 1199
    assert len(TRAINED.encode(REAL[0])) < len(REAL[0]) / 2


def test_texts_with_little_in_them_give_a_smaller_one() -> None:
    small = train(["ab ab ab"], 5000)
    assert small.merges == (("a", "b"), ("Ġ", "ab"))
    assert small.vocab_size == 259
    assert small.decode(small.encode("ab ab ü")) == "ab ab ü"
    assert train([], 257).vocab_size == 257


def test_a_size_without_room_for_the_bytes_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 257 entries: 256 is too few"):
        train(REAL, 256)


def test_training_again_gives_the_same() -> None:
    script = (
        "import sys; from pathlib import Path; from nanopace.corpus.tokenizers.bpe import train\n"
        "print(train([Path(name).read_text() for name in sys.argv[1:]], 600).hash)"
    )
    files = [str(path) for path in sorted(SOURCE.parent.glob("_pytest/*.py"))[:6]]
    hashes = set()
    for threads in ("1", "2", "5"):
        environment = os.environ | {"RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": threads}
        command = [sys.executable, "-c", script, *files]
        hashes.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(hashes) == 1


@settings(max_examples=200)
@given(st.text() | st.text(alphabet="aeinrst_ \n(.)'=") | st.sampled_from(REAL).flatmap(lambda t: st.just(t[:500])))
def test_both_libraries_give_the_same_ids(text: str) -> None:
    library = TRAINED.huggingface()
    whole = encodable(text)
    if "<|endoftext|>" not in whole:
        assert TRAINED.encode(text) == library.encode(whole).ids


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(alphabet="ab ", max_size=40), max_size=6), st.integers(257, 320), st.text(alphabet="ab "))
def test_they_do_for_odd_vocabularies_too(texts: list[str], size: int, text: str) -> None:
    """Few letters, so that merges meet and overlap in all ways."""
    trained = train(texts, size)
    assert trained.encode(text) == trained.huggingface().encode(text).ids


def test_both_libraries_agree_on_real_text() -> None:
    library = TRAINED.huggingface()
    assert TRAINED.encode_batch(REAL) == [each.ids for each in library.encode_batch_fast(REAL)]


def test_huggingfaces_library_knows_the_end_of_text() -> None:
    library = TRAINED.huggingface()
    assert library.encode("a<|endoftext|>b").ids == [*TRAINED.encode("a"), 1199, *TRAINED.encode("b")]
    assert library.get_vocab_size() == TRAINED.vocab_size


def test_merges_of_older_releases_are_read() -> None:
    assert list(_pairs(["a b", ("Ġ", "c")])) == [("a", "b"), ("Ġ", "c")]


def test_a_vocabulary_with_two_ways_to_an_entry_is_refused() -> None:
    with pytest.raises(ValueError, match="two merges"):
        TrainedBpe(TRAINED.letters, [("a", "b"), ("b", "c"), ("ab", "c"), ("a", "bc")])


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(InputError, match=r"pip install nanopace\[train\]"):
        train(REAL, 300)
