"""The training order: every window once per epoch, the same however it is sliced."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.corpus.shards import order as order_module
from nanopace.corpus.shards.order import Order
from nanopace.corpus.shards.token_files import Shard, Split
from nanopace.errors import InputError

END = 0  # of text


def unread(*tokens: int) -> Split:
    """Shards of these sizes that do not exist on disk: without documents, the order never reads them."""
    return Split(Shard(Path(f"{number}.bin"), count, "uint16") for number, count in enumerate(tokens))


def on_disk(directory: Path, shards: list[list[int]]) -> Split:
    made = []
    for number, tokens in enumerate(shards):
        path = directory / f"{number}.bin"
        path.write_bytes(np.array(tokens, dtype="<u2").tobytes())
        made.append(Shard(path, len(tokens), "uint16"))
    return Split(made)


sizes = st.lists(st.integers(1, 80), min_size=1, max_size=5)
seeds = st.integers(-(2**63), 2**64)


@st.composite
def orders(draw: st.DrawFn) -> Order:
    shards = draw(sizes.filter(lambda each: max(each) > 1))
    return Order(unread(*shards), draw(st.integers(1, max(shards) - 1)), draw(seeds))


# --- windows ---------------------------------------------------------------------------------------------------------


@given(sizes.filter(lambda each: max(each) > 1), st.data(), seeds, st.integers(0, 3))
def test_an_epoch_is_every_window_once(shards: list[int], data: st.DataObject, seed: int, epoch: int) -> None:
    block = data.draw(st.integers(1, max(shards) - 1))
    split = unread(*shards)
    order = Order(split, block, seed)
    starts = order.starts(epoch * order.windows, order.windows)
    assert starts.dtype == np.int64
    shard = np.searchsorted(split.first, starts, side="right") - 1
    assert (starts + block + 1 <= split.first[shard + 1]).all(), "a window lies in one shard"
    for number, tokens in enumerate(shards):
        inside = np.sort(starts[shard == number]) - split.first[number]
        assert (np.diff(inside) == block).all(), "windows lie one after the other"
        assert len(inside) == max(tokens // block - 1, int(tokens > block))
        assert not len(inside) or inside[0] < 2 * block, "and begin at the beginning"


@given(orders(), st.integers(0, 200), st.lists(st.integers(0, 60), max_size=8))
def test_slices_do_not_matter(order: Order, first: int, counts: list[int]) -> None:
    whole = order.starts(first, sum(counts))
    parts = [order.starts(first + sum(counts[:number]), count) for number, count in enumerate(counts)]
    assert np.concatenate([np.empty(0, dtype=np.int64), *parts]).tolist() == whole.tolist()


def test_seeds_and_epochs_have_orders_of_their_own() -> None:
    def permutations(seed: int) -> list[tuple[int, ...]]:
        order = Order(unread(10_001), 10, seed)
        return [tuple(order.starts(epoch * order.windows, order.windows)) for epoch in range(3)]

    found = [each for seed in (0, 1, -1, 2**32) for each in permutations(seed)]
    assert len(set(found)) == len(found)


def test_windows_lie_elsewhere_in_every_epoch() -> None:
    order = Order(unread(5000, 7000), 16, 7)
    firsts = [int(order.starts(epoch * order.windows, order.windows).min()) for epoch in range(200)]
    assert set(firsts) == set(range(24)), "each place that leaves room for as many windows: 16, and 5000 % 16"


def test_the_last_token_is_trained_on_in_some_epoch() -> None:
    order = Order(unread(1007), 10, 0)
    assert max(int(order.starts(epoch * order.windows, order.windows).max()) for epoch in range(200)) == 1007 - 11


def test_the_order_has_no_pattern() -> None:
    """Neighbours in the order are not neighbours in the corpus, and each position gets early and late windows alike."""
    order = Order(unread(1_000_001), 10, 3)
    starts = order.starts(0, order.windows) // 10
    ranks = np.argsort(starts)
    correlation = np.corrcoef(np.arange(len(ranks)), ranks)[0, 1]
    assert abs(correlation) < 0.02
    steps = np.abs(np.diff(starts))
    assert steps.mean() == pytest.approx(len(starts) / 3, rel=0.02)  # as for two places drawn at random


def test_the_order_is_the_same_on_every_machine() -> None:
    """A resumed run must find exactly these windows: a change of the order breaks it, and must be deliberate."""
    order = Order(unread(100, 60), 8, 1337)
    assert order.windows == 17
    assert order.starts(0, 17).tolist() == [
        *(13, 53, 21, 45, 37, 61, 77, 119, 143, 111, 5, 85, 69, 29, 127, 135, 151),
    ]
    assert order.starts(17, 3).tolist() == [34, 125, 26]


@given(st.integers(0, 2**32 - 1), st.integers(1, 3000))
def test_a_permutation_is_one(seed: int, count: int) -> None:
    random = np.random.default_rng(seed).integers(0, 2**32, count, dtype=np.uint32)
    permutation = order_module._permutation(random)
    assert sorted(permutation.tolist()) == list(range(count))
    assert permutation.tolist() == sorted(range(count), key=lambda each: (random[each], each))
    assert permutation.dtype == np.int32


def test_numbers_are_drawn_alike_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = order_module._drawn(np.random.Philox(key=5), 1000)
    monkeypatch.setattr(order_module, "_DRAWN_AT_ONCE", 7)
    assert order_module._drawn(np.random.Philox(key=5), 1000).tolist() == whole.tolist()


# --- documents -------------------------------------------------------------------------------------------------------


def plainly_aligned(tokens: list[int], block: int) -> list[int]:
    """The same rule, token by token."""
    documents = sorted({0} | {place for place, token in enumerate(tokens) if token == END})
    found = []
    document = at = 0
    while at + block < len(tokens):
        found.append(at)
        at += block
        inside = max(each for each in documents if each <= at)
        if inside != document:
            document = at = inside
    return found


shards_of_documents = st.lists(
    st.lists(st.sampled_from([END, 1, 2, 3, 4, 5]), min_size=1, max_size=60), min_size=1, max_size=3
)


@settings(max_examples=200)
@given(shards_of_documents, st.integers(1, 12), st.integers(1, 9))
def test_windows_begin_at_documents(
    tmp_path_factory: pytest.TempPathFactory, shards: list[list[int]], block: int, at_once: int
) -> None:
    shards.append([1] * (block + 1))  # one window in any case
    split = on_disk(tmp_path_factory.mktemp("order"), shards)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order_module, "_DOCUMENTS_AT_ONCE", at_once)
        order = Order(split, block, 0, documents=True, end_of_text=END)
    expected = [
        int(first) + place
        for first, tokens in zip(split.first, shards, strict=False)
        for place in plainly_aligned(tokens, block)
    ]
    assert sorted(order.starts(0, order.windows).tolist()) == expected
    assert sorted(order.starts(order.windows, order.windows).tolist()) == expected, "in every epoch"


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(1, 12))
def test_no_token_is_lost_but_at_the_end(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], block: int
) -> None:
    tokens = [token for length in lengths for token in (END, *range(1, length))] + [1] * (block + 1)
    order = Order(on_disk(tmp_path_factory.mktemp("order"), [tokens]), block, 0, documents=True, end_of_text=END)
    starts = sorted(order.starts(0, order.windows).tolist())
    assert starts[0] == 0
    assert max(np.diff(starts), default=0) <= block
    assert starts[-1] + 2 * block >= len(tokens) - 1


def test_epochs_of_documents_differ_in_their_order(tmp_path: Path) -> None:
    split = on_disk(tmp_path, [[END, 1, 2, 3] * 200])
    order = Order(split, 4, 0, documents=True, end_of_text=END)
    first, second = (order.starts(epoch * order.windows, order.windows).tolist() for epoch in range(2))
    assert first != second
    assert sorted(first) == sorted(second) == list(range(0, 796, 4))


def test_without_an_end_of_text_there_are_no_documents() -> None:
    with pytest.raises(InputError, match="no token between documents"):
        Order(unread(100), 8, 0, documents=True)
