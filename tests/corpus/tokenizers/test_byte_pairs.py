"""Long runs of blanks, which crash tiktoken alone, change no token."""

from __future__ import annotations

import re
import sys

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.corpus.tokenizers import byte_pairs as merging
from nanopace.corpus.tokenizers.byte_pairs import Merging
from nanopace.corpus.tokenizers.gpt2 import vocabulary
from nanopace.errors import InputError

GPT2 = Merging(vocabulary()[:-1])
BLANKS = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2028\u2029\u202f\u205f\u3000"


@pytest.mark.slow
@pytest.mark.usefixtures("untraced")
def test_a_million_blanks_are_encoded() -> None:
    text = "x" + "\n" * 1_200_000 + " z"
    ids = GPT2.encode(text)
    assert ids[0] == GPT2.encode("x")[0]
    assert ids[-1] == GPT2.encode(" z")[0]  # the last blank belongs to the word after it
    assert GPT2.encode_batch(["a", text])[1] == ids
    assert b"".join(vocabulary()[each] for each in ids).decode() == text


@settings(max_examples=300)
@given(st.lists(st.text(alphabet=BLANKS, max_size=9) | st.text(alphabet="a1.'sü\x1c\u200b", max_size=3)))
def test_a_cut_changes_no_token(parts: list[str]) -> None:
    text = "".join(parts)
    whole = GPT2.encode(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "_LONG_RUN", 2)
        patch.setattr(merging, "_LONG_BLANKS", re.compile(merging._BLANK + "{2,}"))
        assert GPT2.encode(text) == whole
        assert GPT2.encode_batch([text, text]) == [whole, whole]


def test_every_blank_of_the_regular_expression_is_known() -> None:
    everything = "".join(map(chr, range(0x110000)))
    known = "".join(re.findall(merging._BLANK, everything))
    assert known == "".join(regex.findall(r"\p{White_Space}", everything))


def test_without_tiktoken_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(InputError, match=r"pip install nanopace\[train\]"):
        Merging(vocabulary()[:-1])
