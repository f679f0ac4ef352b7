"""The class of each kernel, the least time a class takes, and the table of both. A profile needs a card."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import kernels
from kernel_classes import (
    ACTIVATION,
    AROUND_ATTENTION,
    ATTENTION,
    CROSS_ENTROPY,
    NORMS,
    PRODUCTS,
    REST,
    TOKENS,
    UPDATE,
    Ceilings,
    Kernel,
    Shape,
    Work,
    by_class,
    class_of,
    least,
)
from nanopace.hardware.flops import flops_per_token, parameters
from nanopace.knob_values import ingredients

OWN = Path(__file__).resolve().parents[2] / "src/nanopace/train/kernels"
MODULES = {
    "activation": ACTIVATION,
    "attention": ATTENTION,
    "adamw": UPDATE,
    "head": CROSS_ENTROPY,
    "norm": NORMS,
    "muon": UPDATE,
    "quantize": UPDATE,
    "checksum": UPDATE,
    "relu2": ACTIVATION,
    "rotary": AROUND_ATTENTION,
    "own_value": AROUND_ATTENTION,
    "embedding": TOKENS,
    "value_embeddings": TOKENS,
}
# Names that their libraries use on different cards.
THEIRS = {
    "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT": PRODUCTS,
    "nvjet_tss_256x128_64x4_2x1_v_bz_coopA_NTN": PRODUCTS,
    "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn": PRODUCTS,
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_nt_align8>": PRODUCTS,
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float>": PRODUCTS,
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_kernel0_0": ATTENTION,
    "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_31_64x64x64_1x2x1_kernel0_0": ATTENTION,
    "void cudnn::fusion::compute_dot_do_o_specialized<true, __nv_bfloat16, 64, 128>": ATTENTION,
    "void cudnn::fusion::convert_dq_to_16bits<true, __nv_bfloat16, 64, 128>": ATTENTION,
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, cutlass::bfloat16_t>>": ATTENTION,
    "fmha_cutlassB_bf16_aligned_64x64_k64_sm80(PyTorchMemEffAttention::AttentionBackwardKernel)": ATTENTION,
    "Memset (Device)": REST,
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>": REST,
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::OpaqueType<2u>, unsigned int, 2>": REST,
}
GPT2 = Shape(layers=12, width=768, vocabulary=50304, length=1024, batch=64, seen=20_000)


def _launched(path: Path) -> list[str]:
    """The kernels of a module: everything called with a grid."""
    calls = [each.func for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.Call)]
    grids = [each.value for each in calls if isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Tuple)]
    return [each.id for each in grids if isinstance(each, ast.Name)]


def test_a_profile_tells_our_kernels_apart() -> None:
    launched = {path.stem: _launched(path) for path in OWN.glob("*.py")}
    found = {module: {class_of(name) for name in names} for module, names in launched.items() if names}
    assert found == {module: {kind} for module, kind in MODULES.items()}
    names = [name for each in launched.values() for name in each]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("name", "kind"), THEIRS.items())
def test_others_kernels_are_known_by_their_names(name: str, kind: str) -> None:
    assert class_of(name) == kind


def test_what_an_update_launches_is_the_updates() -> None:
    product = next(iter(THEIRS))
    found = by_class([Kernel(product, 2.0), Kernel(product, 1.0), Kernel("_gelu_forward", 0.5)], [Kernel(product, 4.0)])
    assert (found[PRODUCTS], found[ACTIVATION], found[UPDATE]) == (3.0, 0.5, 4.0)
    assert sum(found.values()) == 7.5


def test_products_and_attention_are_what_the_analyst_counts() -> None:
    """Except for the norms' weights, which are in no product, and the scores, which are computed twice."""
    work = least(GPT2)
    weights = parameters(12, 768, 50304) - 25 * 768
    by_token = flops_per_token(weights, 12, 768, 1024, causal=True)
    assert work[PRODUCTS].flops + work[ATTENTION].flops * 6 / 7 == pytest.approx(GPT2.rows * by_token)


def test_bytes_of_a_model_that_can_be_counted_by_hand() -> None:
    """Two layers, and rows of 8 values for each of 3 x 5 tokens, 4 of them distinct."""
    small = Shape(layers=2, width=8, vocabulary=100, length=5, batch=3, seen=4)
    stream = 15 * 8 * 2
    work = {kind: each.bytes for kind, each in least(small).items()}
    assert work[CROSS_ENTROPY] == 15 * 100 * (2 + 2)
    assert work[NORMS] == 5 * (1 + 1) * stream + 4 * (3 + 1) * stream + (2 + 1) * stream
    assert work[ACTIVATION] == 2 * ((1 + 1) + (2 + 1)) * 4 * stream
    assert work[AROUND_ATTENTION] == work[REST] == 0
    assert work[TOKENS] == (4 + 5) * 8 * 4 * (1 + 2) + (1 + 1) * stream
    weights = 2 * 12 * 64
    assert work[UPDATE] == (weights + 105 * 8) * 4 * (4 + 4) + (weights + 800) * 2


def test_bytes_of_the_recipe_fast() -> None:
    has = ingredients("fast", "")
    small = Shape(layers=2, width=8, vocabulary=100, length=5, batch=3, seen=4, has=has, tables=3, valued=1)
    stream = 15 * 8 * 2
    work = least(small)
    assert work[AROUND_ATTENTION].bytes == 2 * ((2 + 2) + (3 + 2 + 3) + (2 + 1) + (3 + 3 + 1)) * stream
    table = 4 * 8 * 4
    assert work[TOKENS].bytes == table * (1 + 2) + (1 + 2) * stream + (2 + 1) * stream + table * (1 + 1 + 2)
    weights = 2 * 12 * 64
    assert work[UPDATE].bytes == weights * 4 * (3 + 3) + 3 * 800 * 4 * (4 + 4) + (weights + 800) * 2
    square, wide = 2 * 8**3 * 3, 2 * 8**3 * (4 + 1 + 4)  # x x^T, its square, and that times x
    assert work[UPDATE].flops == 2 * 5 * (4 * square + 2 * wide)


def test_a_limit_is_the_work_at_the_ceilings() -> None:
    assert Ceilings(flops=2e12, bytes=1e9).ms(Work(flops=1e9, bytes=3e6)) == pytest.approx(0.5 + 3.0)


def test_the_table_adds_up(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    step = [Kernel("nvjet_tst", 60.0), Kernel("flash_fwd", 20.0), Kernel("_cross_entropy", 10.0), Kernel("Memset", 1.0)]
    measured = kernels.Measured("a card", GPT2, Ceilings(800e12, 4e12), step, [Kernel("multi_tensor", 9.0)], 92.5)
    monkeypatch.setattr(kernels, "measure", lambda recipe, batch: measured if (recipe, batch) == ("fast", 64) else None)
    monkeypatch.setattr(sys, "argv", ["kernels.py", "--recipe", "fast", "--micro_batch", "64"])
    kernels.main()
    lines = capsys.readouterr().out.splitlines()
    assert "800 TFLOP/s" in lines[1]
    assert "4000 GB/s" in lines[1]
    assert "92.50 ms of wall-clock time; kernels run for 91.00 ms of it" in lines[2]
    rows = {line[:20].strip(): line[20:].split() for line in lines[4:]}
    assert list(rows) == [PRODUCTS, ATTENTION, CROSS_ENTROPY, REST, UPDATE, "sum"]
    limits = {kind: float(columns[1]) for kind, columns in rows.items()}
    assert limits[CROSS_ENTROPY] == pytest.approx(65536 * 50304 * 4 / 4e9, abs=0.01)
    assert rows[CROSS_ENTROPY][2] == "3.03"
    assert rows[REST][1:] == ["0.00", "-", "1.0%"]
    assert [rows["sum"][0], rows["sum"][3]] == ["100.00", "100.0%"]
    assert limits.pop("sum") == pytest.approx(sum(limits.values()), abs=0.03)
