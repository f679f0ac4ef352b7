"""Complete runs with the host's memory, by our own kernels as on a card: losses, checkpoints, kills, faults."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from nanopace.errors import ConfigError, UsageError
from nanopace.ledger import SpanEvent, read_ledger
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import MODEL, OPTIMIZER
from nanopace.train.host import arena as arena_module
from nanopace.train.host.states import HostStates
from nanopace.train.loop import loop as loop_module
from nanopace.train.loop.loop import Loop
from nanopace.train.plan import resolve
from nanopace.train.ranks import Silent

from .. import runs
from ..conftest import TINY

if find_spec("triton") is None or torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("on a card, tests/gpu/test_host_memory.py", allow_module_level=True)

from nanopace.train.fused.gpt2 import FusedGPT
from nanopace.train.fused.model import Layer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("untraced", "ours")]
KNOBS: dict[str, Value] = {
    **TINY,
    "n_layer": 1,
    "block_size": 8,
    "batch_size": 1,
    "dropout": 0.0,
    "max_iters": 4,
    "eval_interval": 2,
    "eval_iters": 1,
    "save_interval": 2,
    "keep_last": 5,
}


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own kernels on a CPU, in triton's interpreter."""
    monkeypatch.setattr(resolve, "pick_kernels", lambda *_: ("fused", "as on a card"))


run = partial(runs.run, base=KNOBS)


def tensors(out: Path, step: int) -> dict[str, torch.Tensor]:
    folder = out / "checkpoints" / f"step-{step:08d}"
    return {**load_file(folder / MODEL), **load_file(folder / OPTIMIZER)}


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


@pytest.mark.parametrize("memory", ["host", "host_weights, host_activations"])
def test_the_same_losses_checkpoints_and_samples(corpus: Path, tmp_path: Path, memory: str) -> None:
    knobs: dict[str, Value] = {"max_iters": 2, "sample_interval": 2}
    _, card = run(corpus, tmp_path / "card", memory="", **knobs)
    outcome, host = run(corpus, tmp_path / "host", memory=memory, **knobs)
    assert host.losses == card.losses
    assert [each.val for each in host.all("eval")] == [each.val for each in card.all("eval")]
    assert [each.text for each in host.all("sample")] == [each.text for each in card.all("sample")] != []
    for step in (2, 3):
        assert_same(tensors(tmp_path / "host", step), tensors(tmp_path / "card", step))
    assert outcome.reason == "finished"
    (said,) = host.all("started")
    assert "host" in said.choices["memory"]


def test_a_run_resumes_with_and_without(corpus: Path, tmp_path: Path) -> None:
    """Checkpoints say nothing of where something was."""
    knobs: dict[str, Value] = {"lr_decay_iters": 3, "memory": "host", "eval_interval": 9}
    _, whole = run(corpus, tmp_path / "whole", **knobs, max_iters=3)
    run(corpus, tmp_path / "cut", **knobs, max_iters=0)
    _, rest = run(corpus, tmp_path / "cut", **knobs, max_iters=1, init_from="resume")
    _, last = run(corpus, tmp_path / "cut", **{**knobs, "memory": ""}, max_iters=3, init_from="resume")
    assert {**rest.losses, **last.losses} == {step: whole.losses[step] for step in range(1, 4)}


@pytest.mark.parametrize("deterministic", [True, False])
def test_no_clock_says_who_updates_if_bits_have_to_be_the_same(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deterministic: bool
) -> None:
    """A card's AdamW and that of the host's cores differ in the last bits."""
    tried = list[HostStates]()
    monkeypatch.setattr(HostStates, "_cores_are_faster", lambda states: bool(tried.append(states)))
    run(corpus, tmp_path / "out", memory="host", max_iters=0, deterministic=deterministic)
    assert bool(tried) is not deterministic


def test_a_sample_is_written_where_all_of_the_model_is(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, inside, seen = HostStates.model_on_host, [False], list[bool]()

    @contextmanager
    def watched(states: HostStates) -> Iterator[None]:
        with plain(states):
            inside[0] = True
            yield
            inside[0] = False

    monkeypatch.setattr(HostStates, "model_on_host", watched)
    monkeypatch.setattr(loop_module, "write_sample", lambda *_: str(seen.append(inside[0])))
    run(corpus, tmp_path / "out", memory="host", max_iters=0, sample_interval=1)
    assert seen
    assert all(seen)


def test_a_killed_run_resumes(corpus: Path, tmp_path: Path) -> None:
    """Killed while the weights of the host's memory are written, without a copy of them."""
    _, whole = run(corpus, tmp_path / "whole", memory="host")
    out = tmp_path / "cut"
    child = os.fork()
    if child == 0:
        from nanopace.train.checkpoint import write

        finish = write.finish_checkpoint

        def die(temporary: Path, directory: Path, *rest: object) -> int:
            if directory.name.endswith("4"):
                os.kill(os.getpid(), signal.SIGKILL)
            return finish(temporary, directory, *rest)  # type: ignore[arg-type]

        write.finish_checkpoint = die
        try:
            run(corpus, out, Silent(), memory="host")
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    _, rest = run(corpus, out, init_from="resume", memory="host")
    assert rest.losses == {step: whole.losses[step] for step in (2, 3, 4)}
    assert_same(tensors(out, 5), tensors(tmp_path / "whole", 5))


def test_a_checkpoint_is_of_one_step_although_nothing_is_copied(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is slower than a step: the update waits."""
    from nanopace.train.checkpoint.tensor_file import TensorFile

    write = TensorFile.write

    def slowly(file: TensorFile, path: Path) -> object:
        time.sleep(0.5)
        return write(file, path)

    monkeypatch.setattr(TensorFile, "write", slowly)
    knobs: dict[str, Value] = {"save_interval": 1, "max_iters": 2, "eval_interval": 9}
    run(corpus, tmp_path / "host", memory="host", **knobs)
    monkeypatch.undo()
    monkeypatch.setattr(resolve, "pick_kernels", lambda *_: ("fused", "as on a card"))
    run(corpus, tmp_path / "card", memory="", **knobs)
    for step in (1, 2, 3):
        assert_same(tensors(tmp_path / "host", step), tensors(tmp_path / "card", step))


def test_time_on_the_bus_is_in_the_ledger_and_part_of_the_steps(corpus: Path, tmp_path: Path) -> None:
    run(corpus, tmp_path / "host", memory="host", max_iters=0)
    run(corpus, tmp_path / "card", memory="", max_iters=0)
    spent = {}
    for name in ("host", "card"):
        events = read_ledger((tmp_path / name / "ledger.jsonl").read_text().splitlines()).events
        spent[name] = sum(each.ms for each in events if isinstance(each, SpanEvent) and each.phase == "bus")
    assert spent["host"] > 0
    assert spent["card"] == 0


def test_waiting_in_an_evaluation_belongs_to_the_evaluation(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a step, when matrices come from the host's memory."""
    plain, phases = Loop._evaluate, list[str]()

    def evaluate(loop: Loop, step: int) -> None:
        phases.append(loop._parts.host.bus._phase)
        plain(loop, step)

    monkeypatch.setattr(Loop, "_evaluate", evaluate)
    run(corpus, tmp_path / "out", memory="host_weights", max_iters=1, eval_interval=1)
    assert phases == ["", ""]


@pytest.mark.parametrize("memory", ["host", "host_gradients"])
def test_the_evidence_has_gradients_wherever_they_are(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: str
) -> None:
    plain = FusedGPT._backward_mlp

    def spoiled(fused: FusedGPT, layer: Layer, *arguments: Any) -> None:
        plain(fused, layer, *arguments)
        layer.mlp_fc.gradient[0, 0] = float("nan")

    monkeypatch.setattr(FusedGPT, "_backward_mlp", spoiled)
    with pytest.raises(UsageError, match="the loss keeps becoming NaN or infinite"):
        run(corpus, tmp_path / "out", memory=memory, max_iters=40, eval_interval=50)
    (found,) = (tmp_path / "out").glob("evidence-step-*/evidence.json")
    assert json.loads(found.read_text())["once_more"]["gradients_not_finite"] == ["transformer.h.0.mlp.c_fc.weight"]


def test_too_little_host_memory_ends_the_run_before_anything_is_written(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arena_module, "available_bytes", lambda: 1 << 30)
    with pytest.raises(UsageError, match=r"memory=host needs 0.0 GiB of host memory, but only 1.0 GiB are free"):
        run(corpus, tmp_path / "out", memory="host")
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())


def test_who_cannot_use_it_is_told(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with pytest.raises(ConfigError, match="memory=host needs our own kernels, which this run cannot use"):
        run(corpus, tmp_path / "out", memory="host")
    with pytest.raises(ConfigError, match="memory=host cannot be combined with averages or gradients"):
        run(corpus, tmp_path / "out", memory="host,averages")
