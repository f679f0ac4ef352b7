"""Products where there is no card, and how one algorithm is chosen of many. On a card: tests/gpu/test_products.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from nanopace.train.kernels import products
from nanopace.train.kernels.cublaslt import CublasLt, CublasLtError, cublaslt
from nanopace.train.kernels.products import TORCH_S, Choice, Question, add_product, choose_algorithms, product

CARD = torch.device("cuda", 0)


@pytest.fixture
def draw() -> Any:
    """On the card where there is one."""
    generator, device = torch.Generator().manual_seed(0), CARD if torch.cuda.is_available() else "cpu"
    return lambda *size, scale=1.0: (torch.randn(size, generator=generator) * scale).to(device)


def test_a_product_goes_where_it_is_told(draw: Any) -> None:
    a, b = draw(5, 7).bfloat16(), draw(3, 7).bfloat16().t()
    out = a.new_full((6, 3), torch.nan)
    assert product(a, b, out[1:]).data_ptr() == out[1].data_ptr()
    torch.testing.assert_close(out[1:], a @ b)
    torch.testing.assert_close(product(a, b), a @ b)
    assert torch.isnan(out[0]).all()


def test_a_weight_s_gradient_is_added_up_in_float32(draw: Any) -> None:
    """Of factors in bfloat16: what many micro-batches add must not be rounded away."""
    before = draw(40, 24, scale=100)
    gradient, expected = before.clone(), before.double()
    for _ in range(5):
        d_out, x = draw(9, 40).bfloat16(), draw(9, 24).bfloat16()
        add_product(gradient, d_out.t(), x)
        expected += d_out.double().t() @ x.double()
    assert float((gradient - expected).norm() / expected.norm()) < 1e-6


def test_a_part_of_a_gradient_can_be_added_to(draw: Any) -> None:
    """Queries, keys and values come one after the other."""
    slope, x = draw(9, 24).bfloat16(), draw(9, 24).bfloat16()
    gradient = torch.zeros((72, 24), device=x.device)
    add_product(gradient[24:48], slope.t(), x)
    torch.testing.assert_close(gradient[24:48], slope.float().t() @ x.float())
    assert gradient[:24].count_nonzero() == gradient[48:].count_nonzero() == 0


def test_the_residual_stream_is_added_to_in_its_own_type(draw: Any) -> None:
    x, a, b = draw(5, 4).bfloat16(), draw(5, 7).bfloat16(), draw(7, 4).bfloat16()
    expected = x.double() + a.double() @ b.double()
    add_product(x, a, b)
    torch.testing.assert_close(x.double(), expected, rtol=1e-2, atol=1e-2)


# --- which algorithm -------------------------------------------------------------------------------------------------


def question(rows: int) -> Question:
    return Question(rows, 64, 32, (64, 1), (1, 64), (32, 1), torch.bfloat16, adds=False, device=CARD)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[Question, None]:
    """As if a card were there, with a library that has three proposals for everything."""
    monkeypatch.setattr(products, "_asked", {question(rows): None for rows in (8, 16, 32)})
    monkeypatch.setattr(products, "_answers", {})
    monkeypatch.setattr(products, "cublaslt", lambda _device: SimpleNamespace(version=130000))
    monkeypatch.setattr(products, "_proposals", lambda *_: ["first", "second", "third"])
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _device: "a card")
    known: dict[str, str] = {}
    monkeypatch.setattr(products, "recall", lambda _topic, question: known.get(question))
    monkeypatch.setattr(products, "remember", lambda _topic, question, answer: known.update({question: answer}))
    return products._asked


def measured(choices: dict[int, Choice]) -> Any:
    return lambda question, _proposals: choices[question.rows]


def test_what_was_asked_is_answered_and_remembered(
    asked: dict[Question, None], monkeypatch: pytest.MonkeyPatch
) -> None:
    choices = {8: Choice(1, 1.17), 16: TORCH_S, 32: Choice(2, 1.05)}
    monkeypatch.setattr(products, "_measured", measured(choices))
    said = "2 of 3 matrix products by other algorithms than torch's, 1.05 to 1.17 times as fast"
    assert choose_algorithms() == said
    assert list(products._answers.values()) == ["second", None, "third"]
    assert not asked
    assert choose_algorithms() is None
    asked |= {question(8): None, question(32): None}
    monkeypatch.setattr(products, "_measured", measured({}))  # nobody measures again
    assert choose_algorithms() == f"{said.replace('of 3', 'of 2')}, measured before"


def test_full_memory_is_no_answer_for_the_next_start(
    asked: dict[Question, None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Choice:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(products, "_measured", full)
    assert choose_algorithms() == "0 of 3 matrix products by other algorithms than torch's"
    asked[question(8)] = None
    monkeypatch.setattr(products, "_measured", measured({8: Choice(0, 1.1)}))
    assert str(choose_algorithms()).startswith("1 of 1 ")


def test_without_the_library_torch_multiplies(asked: dict[Question, None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "cublaslt", lambda _device: None)
    assert choose_algorithms() is None
    assert not asked
    assert list(products._answers.values()) == [None] * 3


def test_a_library_that_takes_no_such_product_proposes_nothing() -> None:
    class Refusing:
        def algorithms(self, a: Tensor, b: Tensor, out: Tensor, *, adds: bool) -> list[Any]:
            assert (a.shape, b.shape, out.shape, adds) == ((8, 64), (64, 32), (8, 32), False)
            assert a.is_meta
            raise CublasLtError("cublasLtMatmulAlgoGetHeuristic: status 15")

    library: Any = Refusing()
    assert products._proposals(question(8), library) == []


def test_a_machine_without_cuda_has_no_such_library() -> None:
    assert cublaslt(torch.device("cpu")) is None or torch.version.cuda is not None
    with pytest.raises(OSError, match="libcublasLt"):
        CublasLt("libcublasLt.so.999", CARD)


@pytest.mark.parametrize(
    ("times", "best"),
    [
        ({-1: 1.0, 0: 0.9, 3: 0.8}, Choice(3, 1.25)),
        ({-1: 1.0, 0: 0.98}, TORCH_S),  # too little to be sure of
        ({-1: 1.0, 0: 1.2}, TORCH_S),
        ({-1: 1.0}, TORCH_S),
    ],
)
def test_the_best_is_clearly_better_than_torch_s(times: dict[int, float], best: Choice) -> None:
    assert products._best(times) == best


@given(st.integers(-1, 7), st.floats(1, 100))
def test_what_is_written_is_read(number: int, speed: float) -> None:
    assert products._read(f"{number} {speed:.3f}", 8) == Choice(number, float(f"{speed:.3f}"))


@given(st.none() | st.text() | st.sampled_from(["8 1.1", "-2 1.1", "1 nan", "1 inf", "1", "1 1.1 2", "a 1.1"]))
def test_what_somebody_else_wrote_is_measured_again(written: str | None) -> None:
    choice = products._read(written, 8)
    assert choice is None or -1 <= choice.number < 8
