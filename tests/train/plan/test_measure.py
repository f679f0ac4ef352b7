"""With deterministic=True, a start measures nothing that a later one could measure differently."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nanopace.config import TrainConfig
from nanopace.errors import ConfigError
from nanopace.train.clock.clock import make_clock
from nanopace.train.fused.attention import Picked
from nanopace.train.kernels.fp8 import PRODUCTS, products_by_rule
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.plan import measure as measure_module
from nanopace.train.plan.measure import measure, with_attention
from nanopace.train.plan.run_plan import Choice

from ..planning import CPU, plan_with

SHAPE = ModelShape(n_layer=1, n_head=12, n_embd=768, vocab_size=50304, block_size=8)


@pytest.mark.parametrize("deterministic", [True, False])
def test_rules_or_measurements(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deterministic: bool
) -> None:
    for name in ("CUBLAS_WORKSPACE_CONFIG", "TORCHINDUCTOR_DETERMINISTIC"):
        monkeypatch.setenv(name, "")  # so that it is undone
        monkeypatch.delenv(name)
    asked = list[str]()

    def picked(*_: object) -> Picked:
        asked.append("attention")
        return Picked("cudnn", "cudnn: measured")

    monkeypatch.setattr(measure_module, "pick_attention", picked)
    monkeypatch.setattr(measure_module, "pick_products", lambda *_: asked.append("products") or (("qkv",), "measured"))
    monkeypatch.setattr(measure_module, "pick_fixed_order", lambda *_, ours: Picked("flash", f"a rule, {ours}"))
    monkeypatch.setattr(measure_module, "set_tf32", lambda _: "")
    config = TrainConfig(deterministic=deterministic, out_dir=str(tmp_path / "out"), fp8=True, compile=False)
    plan = plan_with(config, corpus, torch.device("cuda"))
    found = measure(plan, make_clock(CPU.device, time.monotonic()))
    if deterministic:
        assert asked == []
        assert (found.attention_kernel, found.attention) == ("flash", "a rule, False")
        assert found.fp8.value == PRODUCTS
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
        assert os.environ["TORCHINDUCTOR_DETERMINISTIC"] == "1"
    else:
        assert asked == ["attention", "products"]
        assert (found.attention_kernel, found.attention) == ("cudnn", "cudnn: measured")
        assert found.fp8.value == ("qkv",)
        assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ


def test_a_workspace_that_torch_would_refuse(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first product that is not ours. Any other setting of the user's stays."""
    monkeypatch.setenv("TORCHINDUCTOR_DETERMINISTIC", "0")
    monkeypatch.setattr(measure_module, "pick_fixed_order", lambda *_, ours: Picked("flash", f"{ours}"))
    config = TrainConfig(deterministic=True, out_dir=str(tmp_path / "out"), compile=False)
    plan = plan_with(config, corpus, torch.device("cuda"))
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:2:16:8")
    with pytest.raises(ConfigError, match="needs CUBLAS_WORKSPACE_CONFIG=:4096:8 or :16:8 in the environment, not"):
        with_attention(plan)
    with_attention(replace(plan, kernels=Choice("fused", "as on another card")))
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    with_attention(plan)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"
    assert os.environ["TORCHINDUCTOR_DETERMINISTIC"] == "0"


def test_products_in_8_bits_by_rule() -> None:
    """The head only where its width allows it, and none in narrow models, where some were slower."""
    assert products_by_rule(SHAPE) == (PRODUCTS, "qkv, into, head: by a rule, not by measurement")
    assert products_by_rule(replace(SHAPE, vocab_size=50257))[0] == ("qkv", "into")
    picked, why = products_by_rule(replace(SHAPE, n_embd=384))
    assert picked == ()
    assert why == "no product: with deterministic=True, only models at least 768 wide"


def test_a_run_uses_deterministic_algorithms_in_its_passes_alone(corpus: Path, tmp_path: Path) -> None:
    from ..runs import run

    seen = list[bool]()
    plain = torch.nn.functional.cross_entropy

    def watched(*arguments: torch.Tensor, **options: object) -> torch.Tensor:
        seen.append(torch.are_deterministic_algorithms_enabled())
        return plain(*arguments, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch.nn.functional, "cross_entropy", watched)
        run(corpus, tmp_path / "out", deterministic=True, max_iters=2)
    assert True in seen
    assert not torch.are_deterministic_algorithms_enabled()
