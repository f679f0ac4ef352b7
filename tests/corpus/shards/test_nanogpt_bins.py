"""meta.pkl is read and never run; train.bin is tokens or it is refused."""

from __future__ import annotations

import contextlib
import os
import pickle
import pickletools
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.corpus.shards.nanogpt_bins import raw_shard
from nanopace.corpus.tokenizers.nanogpt_meta import Meta, plain_dict, read_meta
from nanopace.errors import InputError

TEXT = "First Citizen:\nBefore we proceed any further, hear me speak. ü€😀"
LETTERS = sorted(set(TEXT))
META = {
    "vocab_size": len(LETTERS),
    "itos": dict(enumerate(LETTERS)),
    "stoi": {letter: number for number, letter in enumerate(LETTERS)},
}
PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)

scalars = st.text(st.characters(codec=None), max_size=5) | st.integers() | st.integers(-(2**2000), 2**2000)
keys = st.text(max_size=3) | st.integers(-300, 70_000)
plain = st.dictionaries(
    keys, st.recursive(scalars, lambda inner: st.dictionaries(keys, inner, max_size=3), max_leaves=8)
)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_real_meta_is_read(protocol: int, tmp_path: Path) -> None:
    path = tmp_path / "meta.pkl"
    path.write_bytes(pickle.dumps(META, protocol))
    assert read_meta(path) == Meta(len(LETTERS), tuple(LETTERS))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(max_examples=30)
@given(content=plain)
def test_plain_dicts_are_what_pickle_makes_of_them(protocol: int, content: dict[Any, Any]) -> None:
    data = pickle.dumps(content, protocol)
    assert plain_dict(data) == content
    assert plain_dict(pickletools.optimize(data)) == content


def test_an_alphabet_of_thousands_is_read() -> None:
    letters = {chr(0x4E00 + number): number for number in range(20_000)}
    assert plain_dict(pickle.dumps({"stoi": letters})) == {"stoi": letters}


class Call:
    """Pickles as a call of a given function."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


class Plain:
    pass


def shared() -> dict[str, Any]:
    inner: dict[str, int] = {}
    return {"a": inner, "b": inner}


def endless() -> dict[str, Any]:
    content: dict[str, Any] = {}
    content["self"] = content
    return content


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_is_executed(protocol: int, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    path = tmp_path / "meta.pkl"
    for content in (
        Call(os.mkdir, str(mark)),
        {"vocab_size": Call(os.mkdir, str(mark))},
        {"vocab_size": 65, "stoi": {"a": Call(eval, f"__import__('os').mkdir({str(mark)!r})")}},
    ):
        path.write_bytes(pickle.dumps(content, protocol))
        with pytest.raises(InputError, match="nothing is executed") as error:
            read_meta(path)
        assert str(path) in str(error.value)
        assert not mark.exists()
    pickle.loads(path.read_bytes())  # noqa: S301
    assert mark.exists(), "it would have been, had it been unpickled"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "content",
    [
        *([1, 2], (1,), "text", 7, None, True, 1.5, b"bytes", {"a": [1]}, {"a": (1, 2)}, {"a": None}, {"a": 1.5}),
        *({"a": True}, {"a": b"bytes"}, {(1, 2): 3}, {None: 1}, {1.5: 1}, {True: 1}, {"a": {1, 2}}, {b"k": 1}),
        *({"a": bytearray(b"x")}, Plain(), {"a": Plain()}, Plain, {"a": os.system}, shared(), endless()),
    ],
    ids=lambda content: re.sub(r" at 0x\w+", "", repr(content))[:40],
)
def test_anything_but_a_plain_dict_is_refused(protocol: int, content: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        plain_dict(pickle.dumps(content, protocol))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b".",
        b"}",
        b"(.",
        b"}}.",
        b"}K\x01s.",  # one item is not a pair
        b"K\x01s.",
        b"s.",
        b"}(K\x01u.",
        b"(u.",
        b"u.",
        b"d.",
        b"(K\x01d.",
        b"}(K\x01s.",  # a mark where a key should be
        b"K\x01(K\x01K\x01u.",  # items for a number
        b"q\x00.",  # nothing to remember
        b"(q\x00.",
        b"}h\x07.",  # nothing remembered
        b"}2.",  # DUP
        b"}0.",  # POP
        b"cos\nsystem\n(S'true'\ntR.",
        b"(S'true'\nios\nsystem\n.",
        b"Pid\n.",
        b"}Q.",
        b"\x82\x01.",
        b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b"x.",  # a missing buffer
        b"\x80\x04\x8d" + struct.pack("<Q", 1 << 60) + b"x.",  # a missing string
        b"}\x8b" + struct.pack("<i", 1 << 30) + b"x.",  # a missing integer
        b"L" + b"9" * 100_000 + b"L\n.",  # one that takes minutes to read
        b"\xff\xff",
    ],
    ids=repr,
)
def test_pickles_made_by_hand_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        plain_dict(data)


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_no_bytes_break_the_reading(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(plain_dict(data), dict)


@settings(max_examples=300)
@given(st.data(), st.sampled_from(PROTOCOLS))
def test_nor_does_a_damaged_meta(data: st.DataObject, protocol: int) -> None:
    """A few bytes of a real one are changed. If it is still read, the result is what unpickling would give."""
    pickled = bytearray(pickle.dumps({"vocab_size": 3, "stoi": {"a": 0, "b": 1, "ü": 2}}, protocol))
    for place in data.draw(st.lists(st.integers(0, len(pickled) - 1), max_size=3)):
        pickled[place] = data.draw(st.integers(0, 255))
    try:
        found = plain_dict(bytes(pickled))
    except ValueError:
        return
    try:
        unpickled = pickle.loads(bytes(pickled))  # noqa: S301
    except Exception:  # pickle is stricter about protocols, frames and its memo
        return
    assert found == unpickled


@pytest.mark.parametrize(
    ("content", "meta"),
    [
        ({"vocab_size": 50304}, Meta(50304, None)),
        ({}, Meta(None, None)),
        ({"vocab_size": 0}, Meta(None, None)),
        ({"vocab_size": -1}, Meta(None, None)),
        ({"vocab_size": 1 << 40}, Meta(None, None)),
        ({"vocab_size": "65"}, Meta(None, None)),
        ({"stoi": {}}, Meta(None, None)),
        ({"stoi": "abc"}, Meta(None, None)),
        ({"stoi": {"ab": 0, "c": 1}}, Meta(None, None)),
        ({"stoi": {"a": 0, "c": 2}}, Meta(None, None)),
        ({"stoi": {"a": 0, "b": 0}}, Meta(None, None)),
        ({"stoi": {"a": "0"}}, Meta(None, None)),
        ({"stoi": {"a": {}}}, Meta(None, None)),
        ({"stoi": {0: "a"}}, Meta(None, None)),
        ({"stoi": {"b": 1, "a": 0}, "author": "me", "files": {"train": 1}}, Meta(None, ("a", "b"))),
    ],
)
def test_what_a_meta_says(content: dict[str, Any], meta: Meta, tmp_path: Path) -> None:
    path = tmp_path / "meta.pkl"
    path.write_bytes(pickle.dumps(content))
    assert read_meta(path) == meta


def test_a_meta_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "meta.pkl"
    with path.open("wb") as file:
        file.truncate((1 << 24) + 1)
    with pytest.raises(InputError, match="too large for a vocabulary"):
        read_meta(path)


def test_a_meta_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"meta\.pkl: cannot be read: No such file"):
        read_meta(tmp_path / "meta.pkl")


# --- tokens ----------------------------------------------------------------------------------------------------------


def test_a_file_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    path.write_bytes(b"\1\0\2\0\3\0")
    shard = raw_shard(path)
    assert (shard.tokens, shard.dtype, shard.offset, shard.max_id) == (3, "uint16", 0, None)
    assert shard.read(0, shard.tokens).tolist() == [1, 2, 3]


@pytest.mark.parametrize(("data", "message"), [(b"", "is empty"), (b"\1\0\2", r"odd number of bytes \(3\)")])
def test_what_cannot_be_tokens_is_refused(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    path.write_bytes(data)
    with pytest.raises(InputError, match=rf"train\.bin: .*{message}"):
        raw_shard(path)
