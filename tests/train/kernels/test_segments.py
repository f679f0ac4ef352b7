from __future__ import annotations

import os

import pytest
import torch
from torch import Tensor

from nanopace.train.kernels import embedding, segments, value_embeddings
from nanopace.train.kernels.embedding import embed_backward
from nanopace.train.kernels.segments import sort_tokens
from nanopace.train.kernels.value_embeddings import add_value_embeddings_backward

from .conftest import Draw, error

PIECE, WIDTH, HEADS, VOCABULARY = 4, 10, 2, 9
# Segments that end at a border, begin at one, cross one, cross several, lie between two, and a last block that is not
# full. Sorted positions 0 to 3 are the first piece, 4 to 7 the second, ...
CASES = {
    "one of each": [5, 1, 4, 0, 3, 2, 7],
    "ends at a border": [1, 1, 1, 1, 2, 3],
    "crosses a border": [1, 1, 2, 2, 2, 3],
    "begins at a border and crosses the next": [0, 1, 1, 1, 2, 2, 2, 2, 2, 3],
    "crosses several borders": [1, *[2] * 11, 3],
    "is all there is": [8] * 13,
    "fills blocks exactly": [*[4] * 8, *[6] * 4],
    "two cross the same block": [*[1] * 6, *[2] * 6],
    "several between two": [1, 1, 1, 2, 3, 4, 5, 5, 5],
    "is short": [3],
}


@pytest.fixture(autouse=True)
def _short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (segments, embedding, value_embeddings):
        monkeypatch.setattr(module, "PIECE", PIECE)


def shuffled(numbers: list[int], device: torch.device) -> Tensor:
    """A micro-batch of one sequence, since only rows count."""
    order = torch.randperm(len(numbers), generator=torch.Generator().manual_seed(len(numbers)))
    return torch.tensor(numbers)[order][None].to(device)


def test_rows_of_equal_tokens_ascend() -> None:
    windows = torch.tensor([[3, 1, 3, 0], [1, 3, 1, 2]])[:, :-1]  # not contiguous
    order = sort_tokens(windows)
    assert order.tokens.tolist() == [1, 1, 1, 3, 3, 3]
    assert order.rows.tolist() == [1, 3, 5, 0, 2, 4]


@pytest.mark.parametrize("case", CASES)
def test_each_segment_is_added_up_wherever_it_lies(draw: Draw, case: str) -> None:
    tokens = shuffled(CASES[case], draw(1).device)
    d_x, before, positions = draw(tokens.numel(), WIDTH), draw(VOCABULARY, WIDTH), draw(tokens.numel(), WIDTH)
    expected = before.double().index_add(0, tokens.flatten(), d_x.double())
    found = before.clone()
    embed_backward(d_x, tokens, sort_tokens(tokens), found, positions)
    assert error(found, expected) < 1e-6
    never = [token for token in range(VOCABULARY) if token not in CASES[case]]
    assert torch.equal(found[never], before[never])


@pytest.mark.parametrize("case", CASES)
def test_so_are_those_of_a_value_table_and_its_gate(draw: Draw, case: str) -> None:
    tokens = shuffled(CASES[case], draw(1).device)
    rows, d_packed = tokens.numel(), draw(tokens.numel(), 3 * WIDTH)
    table, gate = draw(VOCABULARY, WIDTH), draw(HEADS)
    d_table, d_gate = torch.ones_like(table), torch.ones_like(gate)
    add_value_embeddings_backward(d_packed, sort_tokens(tokens), table, gate, d_table, d_gate)
    d_values = d_packed[:, 2 * WIDTH :].double().view(rows, HEADS, -1)
    scaled = (d_values * gate.double()[:, None]).view(rows, WIDTH)
    assert error(d_table, torch.ones_like(table).double().index_add(0, tokens.flatten(), scaled)) < 1e-6
    own = (d_values * table[tokens.flatten()].double().view(rows, HEADS, -1)).sum((0, 2))
    assert error(d_gate, 1 + own) < 1e-6


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="a card orders programs itself")
def test_the_order_of_programs_changes_no_bit(draw: Draw) -> None:
    from .shuffled import shuffled_programs

    tokens = shuffled([*[1] * 7, *[2] * 9, 3, 3, 5], draw(1).device)
    d_x, d_packed = draw(tokens.numel(), WIDTH), draw(tokens.numel(), 3 * WIDTH)
    table, gate = draw(VOCABULARY, WIDTH), draw(HEADS)
    found = []
    for seed in range(3):
        sums = [torch.zeros_like(each) for each in (table, draw(tokens.numel(), WIDTH), table, gate)]
        with shuffled_programs(seed):
            embed_backward(d_x, tokens, sort_tokens(tokens), *sums[:2])
            add_value_embeddings_backward(d_packed, sort_tokens(tokens), table, gate, *sums[2:])
        found.append(sums)
    for other in found[1:]:
        assert all(torch.equal(one, another) for one, another in zip(found[0], other, strict=True))
