"""Products by cuBLASLt on a real card: `pytest -m gpu tests/gpu/test_products.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from nanopace.train.kernels import products
from nanopace.train.kernels.cublaslt import cublaslt
from nanopace.train.kernels.products import add_product, choose_algorithms, product

CARD = torch.device("cuda", 0)
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA card")]

# rows, inner, columns, whether a and b are transposed views, and what is added to: None, bfloat16 or float32.
SHAPES = [
    (2048, 768, 2304, False, True, None),
    (2048, 768, 768, False, True, torch.bfloat16),
    (2048, 3072, 768, False, False, None),
    (768, 2048, 3072, True, False, torch.float32),
    (50304, 512, 768, True, False, torch.float32),
    (96, 40, 24, False, True, None),
    (100, 33, 7, False, False, torch.float32),  # rows of no 16 bytes
]
Shape = tuple[int, int, int, bool, bool, torch.dtype | None]


@pytest.fixture(autouse=True)
def nothing_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    products._answers.clear()
    products._asked.clear()
    yield
    products._answers.clear()
    products._asked.clear()


def matrices(shape: Shape) -> tuple[Tensor, Tensor, Tensor | None]:
    rows, inner, columns, a_transposed, b_transposed, adds = shape
    torch.manual_seed(0)
    a = torch.randn((inner, rows) if a_transposed else (rows, inner), device=CARD).bfloat16()
    b = torch.randn((columns, inner) if b_transposed else (inner, columns), device=CARD).bfloat16()
    total = None if adds is None else torch.randn((rows, columns), device=CARD).to(adds)
    return a.t() if a_transposed else a, b.t() if b_transposed else b, total


def expected(a: Tensor, b: Tensor, total: Tensor | None) -> Tensor:
    return a.double() @ b.double() + (0 if total is None else total.double())


def found(a: Tensor, b: Tensor, total: Tensor | None) -> Tensor:
    if total is None:
        return product(a, b)
    total = total.clone()
    add_product(total, a, b)
    return total


def error(mine: Tensor, exact: Tensor) -> float:
    return float((mine.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("shape", SHAPES)
def test_every_algorithm_agrees_with_torch_s(shape: Shape) -> None:
    library = cublaslt(CARD)
    assert library is not None
    a, b, total = matrices(shape)
    exact, by_torch = expected(a, b, total), found(a, b, total)
    limit = max(1.01 * error(by_torch, exact), 1e-6)
    (question,) = products._asked
    algorithms = products._proposals(question, library)
    assert algorithms or shape[1] % 8  # which it does not take
    for each in algorithms:
        out = torch.full_like(by_torch, torch.nan) if total is None else total.clone()
        each(a, b, out)
        assert error(out, exact) <= limit


def test_what_was_chosen_is_taken_and_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_WORTH_IT", 0.0)  # one of the library's, though it may be torch's own
    monkeypatch.setattr(products, "_best", lambda times: products.Choice(max(times), 1.5))
    a, b, total = matrices(SHAPES[3])
    before = found(a, b, total)
    assert choose_algorithms() == (
        "1 of 1 matrix products by other algorithms than torch's, 1.50 to 1.50 times as fast"
    )
    (chosen,) = products._answers.values()
    assert chosen is not None
    torch.testing.assert_close(found(a, b, total), before, rtol=1e-5, atol=1e-3)
    assert choose_algorithms() is None
    products._answers.clear()
    found(a, b, total)
    assert str(choose_algorithms()).endswith("times as fast, measured before")


def test_a_graph_records_what_was_chosen() -> None:
    a, b, _ = matrices(SHAPES[0])
    before = product(a, b)
    choose_algorithms()
    product(a, b)
    out, graph = torch.empty_like(before), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        product(a, b, out)
    a.mul_(2)
    graph.replay()
    assert error(out, 2 * before.double()) < 1e-2


def test_what_begins_at_an_odd_place_is_torch_s() -> None:
    a, b, _ = matrices(SHAPES[0])
    odd = torch.empty(a.numel() + 1, device=CARD, dtype=a.dtype)[1:].view_as(a).copy_(a)
    assert error(product(odd, b), expected(a, b, None)) < 1e-2
    assert not products._asked


def test_where_memory_is_full_torch_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(products, "_measured", full)
    a, b, total = matrices(SHAPES[1])
    found(a, b, total)
    assert choose_algorithms() == "0 of 1 matrix products by other algorithms than torch's"
    assert error(found(a, b, total), expected(a, b, total)) < 1e-2
    products._answers.clear()
    monkeypatch.undo()
