"""Matrices in 8 bits, which products are worth it, and what the user sees if there are none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from nanopace.config import Asked, TrainConfig
from nanopace.errors import ConfigError
from nanopace.ledger.file import LEDGER_FILE
from nanopace.train.kernels import fp8 as fp8_module
from nanopace.train.kernels.fp8 import FP8, FP8_GRADIENT, LARGEST, PRODUCTS, Fp8Weight, pick_products, scale_after_norm
from nanopace.train.models.fast import FastGPT
from nanopace.train.models.gpt2 import GPT, ModelShape
from nanopace.train.parallel import parallelize
from nanopace.train.plan import measure, resolve
from nanopace.train.plan.device import check_fp8, find_machine
from nanopace.train.plan.origin import find_saved, settings_of
from nanopace.train.plan.run_plan import Choice
from nanopace.wording.catalog import words

from ..conftest import Recorder
from ..planning import plan_with
from ..runs import run

DEVICE = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
CARD = torch.device("cuda", 0)
SHAPE = ModelShape(n_layer=1, n_head=1, n_embd=16, vocab_size=32, block_size=8)
ASKED = TrainConfig(fp8=True, compile=True, dtype="bfloat16")


def drawn(*size: int, scale: float = 1.0) -> Tensor:
    return (torch.randn(size, generator=torch.Generator().manual_seed(size[0])) * scale).bfloat16().to(DEVICE)


def normed(rows: int, width: int) -> tuple[Tensor, Tensor]:
    """A norm's output, also in 8 bits."""
    y = functional.layer_norm(drawn(rows, width).float(), (width,)).bfloat16()
    return y, (y.float() * scale_after_norm(width)).to(FP8)


# --- the product -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("eight_bits")
@pytest.mark.parametrize("scale", [1e-4, 1.0, 300.0])
def test_a_product_in_eight_bits(scale: float) -> None:
    (y, y8), matrix = normed(16, 64), drawn(48, 64, scale=scale)
    fp8_weight = Fp8Weight(matrix)
    fp8_weight.quantize(matrix)
    product, expected = fp8_weight.product(y8), y.float() @ matrix.float().t()
    assert product.dtype == torch.bfloat16
    assert 0.01 < float((product - expected).norm() / expected.norm()) < 0.05  # of three bits and a rounded fourth
    largest = matrix.float().abs().max() / LARGEST
    rounded = (y8.float() / scale_after_norm(64)) @ ((matrix.float() / largest).to(FP8).float() * largest).t()
    assert float((product - rounded).norm() / rounded.norm()) < 5e-3


@pytest.mark.usefixtures("eight_bits")
def test_a_matrix_of_zeros_is_no_division_by_0() -> None:
    fp8_weight = Fp8Weight(drawn(16, 32))
    fp8_weight.quantize(torch.zeros_like(drawn(16, 32)))
    assert fp8_weight.product(normed(16, 32)[1]).count_nonzero() == 0


@pytest.mark.usefixtures("eight_bits")
@pytest.mark.parametrize("cap", [None, 15.0])
def test_the_head_in_eight_bits(cap: float | None) -> None:
    """Logits and d_x come from rounded factors; the weight's gradient does not."""
    from nanopace.train.kernels.head import head_gradients

    (x, x8), weight = normed(6, 32), drawn(48, 32)
    weight8, targets = Fp8Weight(weight, backward=True), torch.tensor([3, 47, 0, 5, -1, 9], device=DEVICE)
    weight8.quantize(weight)
    gradient = torch.ones_like(weight, dtype=torch.float32)
    loss, d_x = head_gradients(x, weight, gradient, targets, 0.5, cap, x8=x8, weight8=weight8)
    logits = weight8.product(x8).float().requires_grad_()
    capped = logits if cap is None else cap * torch.tanh(logits / cap)
    expected = functional.cross_entropy(capped, targets, ignore_index=-1)
    (slope,) = torch.autograd.grad(expected * 0.5, logits)
    torch.testing.assert_close(loss, expected.detach(), rtol=1e-4, atol=0)
    assert d_x[4].count_nonzero() == 0
    found, exact = gradient - 1, slope.t() @ x.float()
    assert float((found - exact).norm() / exact.norm()) < 2**-6  # of the logits' slopes, which are cut to bfloat16
    exact = slope @ weight.float()
    assert 0.01 < float((d_x - exact).norm() / exact.norm()) < 0.1  # two bits and a rounded third


@pytest.mark.usefixtures("eight_bits")
def test_the_gradient_of_an_input_in_eight_bits() -> None:
    d, matrix, scale = drawn(16, 48, scale=1e-5), drawn(48, 64), torch.tensor(1e-6, device=DEVICE)
    fp8_weight = Fp8Weight(matrix, backward=True)
    fp8_weight.quantize(matrix)
    found = fp8_weight.input_gradient((d / scale).to(FP8_GRADIENT), scale)
    exact = d.float() @ matrix.float()
    assert found.dtype == torch.bfloat16
    assert 0.02 < float((found - exact).norm() / exact.norm()) < 0.1
    assert fp8_weight.has_backward
    assert not Fp8Weight(matrix).has_backward


@pytest.mark.usefixtures("eight_bits")
def test_only_forward_products_sum_with_fewer_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients have a few large terms, next to which the small ones would be lost: that cost 0.035 in 800 steps."""
    fast = []
    monkeypatch.setattr(torch, "_scaled_mm", lambda *_, use_fast_accum, **__: fast.append(use_fast_accum))
    weight8 = Fp8Weight(drawn(48, 64), backward=True)
    weight8.product(normed(16, 64)[1])
    weight8.input_gradient(drawn(16, 48).to(FP8_GRADIENT), torch.ones((), device=DEVICE))
    assert fast == [True, False]


# --- which are worth it ----------------------------------------------------------------------------------------------

Timed = Callable[..., None]


@pytest.fixture
def timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Timed]:
    """Sets the measured times of the next trials: norm, norm with 8 bits, bf16, 8 bits. Each is still run."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def say(*milliseconds: tuple[float, float, float, float]) -> None:
        times = iter([time for each in milliseconds for time in each])

        def run(do: Callable[[], object], _device: torch.device, *, calls: int) -> float:
            assert calls
            do()
            return next(times)

        monkeypatch.setattr(fp8_module, "card_ms", run)
        fp8_module._speeds.cache_clear()

    yield say
    fp8_module._speeds.cache_clear()


@pytest.mark.usefixtures("eight_bits")
def test_what_is_faster_is_picked_and_said_and_remembered(timed: Timed) -> None:
    timed((1, 1.5, 3.0, 1.5), (1, 1, 3.0, 2.0), (2, 1, 3.3, 2.0))
    sentence = "speed relative to bf16: qkv ×1.50, into ×1.50, head ×1.65"
    assert pick_products(SHAPE, 2, DEVICE) == (("qkv", "into", "head"), sentence)
    assert pick_products(SHAPE, 2, DEVICE)[1] == sentence  # still the same run
    timed()
    assert pick_products(SHAPE, 2, DEVICE) == (("qkv", "into", "head"), sentence + ", measured earlier")
    said = words("de").message(pick_products(SHAPE, 2, DEVICE)[1])
    assert said == "Tempo gegenüber bf16: qkv ×1,50, into ×1,50, head ×1,65, früher gemessen"


@pytest.mark.usefixtures("eight_bits")
def test_what_is_not_is_left_as_it_is(timed: Timed) -> None:
    timed((1, 2, 3.0, 2.0), (1, 1, 3.0, 2.0), (1, 1, 3.0, 2.9))
    assert pick_products(SHAPE, 2, DEVICE) == (
        ("into",),
        "speed relative to bf16: into ×1.50; left in bf16: qkv ×1.00, head ×1.03",
    )
    timed((1, 2, 3.0, 2.5), (1, 2, 3.0, 4.0))
    assert pick_products(replace(SHAPE, vocab_size=70), 2, DEVICE) == (
        (),
        "no product was at least 5% faster than in bf16: qkv ×0.86, into ×0.60, head not possible",
    )


@pytest.mark.usefixtures("eight_bits")
def test_a_trial_that_fails_is_no_reason_to_stop(timed: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    timed((1, 1, 3.0, 2.0), (1, 1, 3.0, 2.0), (1, 1, 3.0, 2.0))
    with monkeypatch.context() as patch:
        patch.setattr(torch, "_scaled_mm", lambda *_, **__: torch.empty(-1))  # a RuntimeError of torch's own
        found = pick_products(SHAPE, 2, DEVICE)
    assert found[1].endswith(": qkv could not be tried, into could not be tried, head could not be tried")
    timed(*[(1, 1, 3.0, 1.5)] * 3)  # the next start tries again
    assert pick_products(SHAPE, 2, DEVICE)[0] == PRODUCTS


@pytest.mark.usefixtures("eight_bits")
def test_an_answer_that_cannot_be_read_is_found_again(timed: Timed, tmp_path: Path) -> None:
    answers = tmp_path / "nanopace" / "fp8.json"
    timed(*[(1, 1, 3.0, 2.0)] * 3)
    pick_products(SHAPE, 2, DEVICE)
    for written in ("qkv fast", "qkv 1.5; into 1.5", "out 1.50", "qkv nan"):
        answers.write_text(json.dumps(dict.fromkeys(json.loads(answers.read_text()), written)))
        timed(*[(1, 1, 3.0, 1.5)] * 3)
        assert pick_products(SHAPE, 2, DEVICE)[1] == "speed relative to bf16: qkv ×2.00, into ×2.00, head ×2.00"


@pytest.mark.usefixtures("eight_bits")
def test_a_run_gets_what_is_faster(timed: Timed, corpus: Path) -> None:
    from nanopace.train.fused.fast import FusedFastGPT
    from nanopace.train.fused.gpt2 import FusedGPT

    kernels = Choice("fused", "as on a card")
    for recipe, model in (("gpt2", GPT(SHAPE)), ("fast", FastGPT(replace(SHAPE, recipe="fast")))):
        timed((1, 1, 3.0, 2.0), (1, 1, 3.0, 3.0), (1, 1, 3.0, 2.0))
        plan = plan_with(replace(ASKED, recipe=recipe, batch_size=1), corpus, DEVICE, kernels=kernels)
        for fp8 in (False, True):
            if fp8:
                plan = replace(plan, fp8=Choice(*pick_products(SHAPE, 2, DEVICE)))
            fused = parallelize(model.to(DEVICE), plan).fused
            assert isinstance(fused, (FusedGPT, FusedFastGPT))
            matrices = fused.layers[0].qkv, fused.layers[0].mlp_fc, fused._head
            assert [each.fp8_weight is not None for each in matrices] == [fp8, False, fp8]


def test_the_ledger_says_it(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU that pretends to support 8 bits."""
    monkeypatch.setattr(resolve, "check_fp8", lambda *_: None)
    asked: list[tuple[int, torch.device]] = []
    found = (("qkv",), "qkv: twice as fast")
    monkeypatch.setattr(measure, "pick_products", lambda _, *given: asked.append(given) or found)
    for fp8, said in ((False, None), (True, "qkv: twice as fast")):
        _, listener = run(corpus, tmp_path / "out", max_iters=1, eval_iters=1, fp8=fp8, overwrite=True)
        first = json.loads((tmp_path / "out" / LEDGER_FILE).read_text().splitlines()[0])
        assert first["choices"].get("fp8") == said
        assert listener.all("started")[0].choices.get("fp8") == said
    assert asked == [(4 * 16, torch.device("cpu"))]


# --- where there are none --------------------------------------------------------------------------------------------


@pytest.fixture
def ada(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 9))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA GeForce RTX 4070")


@pytest.mark.usefixtures("ada")
def test_a_card_that_has_them_and_a_run_that_fits() -> None:
    pytest.importorskip("triton")
    check_fp8(ASKED, SHAPE, CARD, 1)
    check_fp8(replace(ASKED, fp8=False), replace(SHAPE, dropout=0.1), torch.device("cpu"), 2)


@pytest.mark.usefixtures("ada")
@pytest.mark.parametrize(
    ("said", "config", "shape", "ranks"),
    [
        ("compile=False", {"compile": False}, {}, 1),
        ("fused=False", {"fused": False}, {}, 1),
        ("dtype=float16", {"dtype": "float16"}, {}, 1),
        ("parallel=fsdp", {"parallel": "fsdp"}, {}, 1),
        ("dropout=0.1", {}, {"dropout": 0.1}, 1),
        ("bias=True", {}, {"bias": True}, 1),
        ("this run has 2 processes", {}, {}, 2),
        ("with fp8=True, n_embd must be a multiple of 16, not 24", {}, {"n_embd": 24}, 1),
    ],
)
def test_what_it_cannot_go_with(said: str, config: dict[str, Any], shape: dict[str, Any], ranks: int) -> None:
    with pytest.raises(ConfigError) as caught:
        check_fp8(replace(ASKED, **config), replace(SHAPE, **shape), CARD, ranks)
    assert said in str(caught.value)
    assert "fp8" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("ada")
def test_a_card_that_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 6))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA GeForce RTX 3090")
    with pytest.raises(ConfigError, match=r"fp8=True needs a card .* and NVIDIA GeForce RTX 3090 does not; use"):
        check_fp8(ASKED, SHAPE, CARD, 1)


def test_a_run_without_a_card_is_refused_before_anything_is_written(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(ConfigError, match=r"fp8=True needs a card that multiplies in 8 bits .*, and cpu does not"):
        run(corpus, out, fp8=True)
    assert not (out / LEDGER_FILE).exists()


def test_who_goes_on_without_a_card_goes_on_without_them(corpus: Path, tmp_path: Path) -> None:
    """What a machine supports is not a setting of a run."""
    out = tmp_path / "out"
    run(corpus, out, max_iters=1, eval_iters=1)
    saved = find_saved(out, Recorder())
    of_a_card = replace(saved, config={**saved.config, "device": "cuda:0", "fp8": True})
    assert "fp8" not in settings_of(of_a_card, Asked(given={}), find_machine("cpu"))
    assert (
        settings_of(of_a_card, Asked(given={"fp8": True}), find_machine("cpu"))["fp8"] is True
    )  # asked for is asked for
