"""What a GPU did and waited for. naive.json.gz: three steps of a small GPT in plain torch on an H200 that read its loss
after every step; the trace contains only what is needed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.cli.main import main
from nanopace.errors import InputError
from nanopace.trace.kernels import class_of
from nanopace.trace.read import Trace, Work, is_trace, read_trace
from nanopace.trace.summary import summarise

NAIVE = str(Path(__file__).with_name("naive.json.gz"))
Capture = pytest.CaptureFixture[str]


def test_a_real_trace_is_summed_up_as_holistic_trace_analysis_does() -> None:
    """Its figures, by bench/profile_against_hta.py."""
    (found,) = summarise(read_trace(NAIVE))
    assert (found.device_name, found.steps, found.launches) == ("NVIDIA H200", 3, 843)
    assert found.window_ms == pytest.approx(60.423, abs=0.001)
    assert found.busy_ms == pytest.approx(3.755, abs=0.001)
    assert found.idle_host_ms == pytest.approx(56.207, abs=0.001)
    assert found.idle_copy_ms + found.idle_wait_ms == pytest.approx(0.462, abs=0.001)
    assert sum(each.share for each in found.classes) == pytest.approx(1)
    assert sum(each.count for each in found.classes) == found.launches
    assert {each.name for each in found.classes} >= {"matrix products", "attention", "optimizer", "normalisation"}


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("nvjet_sm90_tst_64x64_64x13_2x1_v_bz_NNT", "matrix products"),
        ("sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128", "matrix products"),
        ("void cutlass::device_kernel<flash::FlashAttnFwdSm90<...>>", "attention"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16", "attention"),
        ("void at::native::reduce_kernel<512, 1, ReduceOp<float, ...{lambda(float, float)#1}>", "reductions"),
        ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<...FusedAdamMathFunctor...>", "optimizer"),
        ("_adamw", "optimizer"),
        ("_muon_update", "optimizer"),
        ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>", "normalisation"),
        ("triton_per_fused_native_layer_norm_0", "normalisation"),
        ("_norm_backward", "normalisation"),
        ("_cross_entropy", "loss"),
        ("void (anonymous namespace)::softmax_warp_forward<float>", "loss"),
        ("triton_poi_fused_add_gelu_2", "elementwise"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>", "elementwise"),
        ("_relu2_forward", "elementwise"),
        ("_qk_norm_rope_forward", "normalisation"),
        ("_embed_backward", "embedding"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "communication"),
        ("Memcpy HtoD (Pinned -> Device)", "copies"),
        ("Memset (Device)", "copies"),
        ("something_of_mine", "other"),
    ],
)
def test_a_kernel_has_a_class(kernel: str, kind: str) -> None:
    assert class_of(kernel) == kind


times = st.integers(0, 60).map(float)
work = st.builds(
    lambda begin, length, stream, is_copy, asked: Work("k", begin, begin + length, stream, is_copy, asked),
    times,
    times,
    st.integers(0, 2),
    st.booleans(),
    st.none() | times,
)


@given(st.lists(work, min_size=1, max_size=12))
def test_every_moment_is_busy_or_idle_for_one_reason(some: list[Work]) -> None:
    """Compared with a plain count of the microseconds in which a stream works."""
    some.sort(key=lambda each: (each.begin, each.end))
    (found,) = summarise(Trace("t", {}, {0: some}, ()))
    first, last = min(each.begin for each in some), max(each.end for each in some)
    busy = sum(any(each.begin <= at < each.end for each in some) for at in range(int(first), int(last)))
    assert found.window_ms == pytest.approx((last - first) / 1000)
    assert found.busy_ms == pytest.approx(busy / 1000)
    assert found.idle_host_ms + found.idle_copy_ms + found.idle_wait_ms == pytest.approx(found.idle_ms)


@pytest.mark.parametrize(
    ("asked", "before_is_copy", "cause"),
    [(15.0, False, "host"), (15.0, True, "host"), (5.0, False, "wait"), (5.0, True, "copy"), (None, False, "wait")],
)
def test_why_a_gpu_is_idle(asked: float | None, before_is_copy: bool, cause: str) -> None:
    before = Work("a", 0.0, 10.0, 7, before_is_copy, None)
    (found,) = summarise(Trace("t", {}, {0: [before, Work("b", 20.0, 30.0, 7, False, asked)]}, ()))
    idle = {"host": found.idle_host_ms, "copy": found.idle_copy_ms, "wait": found.idle_wait_ms}
    assert idle == pytest.approx({name: 0.01 if name == cause else 0.0 for name in idle})


def test_explain_reads_a_trace(capsys: Capture) -> None:
    assert main(["explain", NAIVE, "--width=100"]) == 0
    said = capsys.readouterr().out
    assert "3 steps of 20.1 ms; the GPU was busy for 6.2% of 60.4 ms." in said
    assert "93.0%: waiting for the host to launch more work" in said
    assert "a larger micro-batch" in said
    assert "multi_tensor_apply_kernel" in said
    assert "namespace" not in said
    assert main(["explain", NAIVE, "--json"]) == 0
    (trace,) = json.loads(capsys.readouterr().out)["traces"]
    assert trace["idle_host_ms"] == pytest.approx(56.207, abs=0.001)


def test_a_trace_is_no_log_and_has_no_page(capsys: Capture, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.touch()
    assert main(["explain", NAIVE, str(log)]) == 2
    assert "logs and traces are explained separately" in capsys.readouterr().err
    assert main(["explain", NAIVE, f"--html={tmp_path / 'page.html'}"]) == 2
    assert "--html: a trace has no page" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        '{"traceEvents": 3}',
        '{"traceEvents": [',
        '[{"traceEvents": []}]',
        '{"traceEvents": ' + "[" * 100_000,
        '{"schemaVersion": 1, "deviceProperties": []}',
    ],
)
def test_what_is_no_trace_is_one_line(text: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    assert is_trace(str(path))
    assert main(["explain", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "trace.json: " in said


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda each: st.lists(each), max_leaves=5))
def test_strange_events_are_left_out(value: object) -> None:
    from tempfile import TemporaryDirectory

    kernel = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1.0, "dur": 2.0, "args": {"device": 0, "stream": 7}}
    events = [
        value,
        {**kernel, "ts": value},
        {**kernel, "args": value},
        {**kernel, "name": value},
        {"ph": value},
        kernel,
    ]
    with TemporaryDirectory() as folder:
        path = Path(folder, "trace.json.gz")
        path.write_bytes(gzip.compress(json.dumps({"traceEvents": events, "deviceProperties": value}).encode()))
        try:
            assert summarise(read_trace(str(path)))
        except InputError as error:
            raise AssertionError(str(error)) from error
