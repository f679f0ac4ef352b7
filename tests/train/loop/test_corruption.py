"""Bits that flip on purpose, in weights, averages and gradients: the run stops, says where, and keeps what is good."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from nanopace.config import TrainConfig
from nanopace.errors import ConfigError, InputError, UsageError
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import MODEL, newest_intact
from nanopace.train.loop import corruption
from nanopace.train.loop.batches import Batches
from nanopace.train.loop.corruption import CorruptionWatch, _compared
from nanopace.train.loop.loop import Loop
from nanopace.train.loop.passes import PlainPasses
from nanopace.train.models.gpt2 import GPT

from ..conftest import TINY
from ..runs import events, resume, run

WEIGHT = "transformer.h.1.mlp.c_fc.weight"
Fault = Callable[[Loop], None]


start = partial(run, base={**TINY, "check_every": 4, "save_interval": 5})


def flip(tensor: Tensor, bit: int = 3, at: int = 17) -> None:
    tensor.detach().view(-1).view(torch.int32)[at % tensor.numel()] ^= 1 << bit


def between_steps(monkeypatch: pytest.MonkeyPatch, step: int, fault: Fault) -> None:
    """`fault` happens after the update before this step."""
    plain = Loop._between_steps

    def then(loop: Loop) -> None:
        plain(loop)
        if loop.iteration == step:
            fault(loop)

    monkeypatch.setattr(Loop, "_between_steps", then)


def evidence(out: Path) -> tuple[Path, dict[str, Any]]:
    (folder,) = out.glob("evidence-step-*")
    return folder, json.loads((folder / "evidence.json").read_text())


def end_of(out: Path) -> tuple[str, list[str]]:
    return events(out)[-1]["reason"], [each["text"] for each in events(out, "note")]


def parameter(loop: Loop, name: str = WEIGHT) -> Tensor:
    return dict(loop._parts.model.named_parameters())[name]


def average(loop: Loop) -> Tensor:
    state = loop._parts.optimizer.state[parameter(loop)]
    return state["exp_avg_sq"] if "exp_avg_sq" in state else state["momentum"]


@pytest.mark.parametrize("knobs", [{}, {"recipe": "fast"}], ids=["gpt2", "fast"])
def test_if_nothing_is_wrong_nothing_changes(corpus: Path, tmp_path: Path, knobs: dict[str, Value]) -> None:
    """Neither the weights nor the random numbers of dropout."""
    _, told = start(corpus, tmp_path / "checked", **knobs, check_every=1)
    _, plain = start(corpus, tmp_path / "plain", **knobs, check_every=0)
    assert told.losses == plain.losses
    last = "checkpoints/step-00000021"
    ours, theirs = (load_file(tmp_path / name / last / MODEL) for name in ("checked", "plain"))
    assert all(torch.equal(each, theirs[name]) for name, each in ours.items())


@pytest.mark.parametrize("recipe", ["gpt2", "fast"])
@pytest.mark.parametrize(("what", "of"), [("", parameter), ("exp_avg_sq.", average)], ids=["weight", "average"])
@pytest.mark.parametrize("bit", [0, 30])
def test_a_flipped_bit_at_rest_stops_the_run(
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    of: Callable[[Loop], Tensor],
    bit: int,
    recipe: str,
) -> None:
    """In a step that is not checked: the sums are compared in every step, and looked at before the next save."""
    between_steps(monkeypatch, 9, lambda loop: flip(of(loop), bit))
    name = f"{what}{WEIGHT}" if recipe == "gpt2" or not what else f"momentum.{WEIGHT}"
    with pytest.raises(UsageError, match=f"step 9: {name} changed between two updates") as caught:
        start(corpus, tmp_path / "out", recipe=recipe)
    said = str(caught.value)
    folder, known = evidence(tmp_path / "out")
    assert f"evidence: {folder}" in said
    assert said.endswith(
        f"test the memory, then resume from {tmp_path}/out/checkpoints/step-00000005 with --init_from=resume"
    )
    assert [each["name"] for each in known["differences"]] == [name]
    assert abs(known["differences"][0]["change"]) == 1 << bit
    assert known["step"] == 9
    reason, notes = end_of(tmp_path / "out")
    assert reason == "corrupted"
    assert notes[-1] == said
    saved, refused = newest_intact(tmp_path / "out")
    assert saved.step == 5
    assert not refused


@pytest.mark.parametrize(
    ("before", "step", "knobs", "saved_step"),
    [
        ("_between_steps", 10, {}, 5),
        # a best checkpoint is saved after its evaluation, and only because of it
        ("_evaluate", 10, {"always_save_checkpoint": False, "check_every": 40}, 5),
        ("_end", 21, {}, 20),
    ],
)
def test_a_flip_just_before_a_save_is_not_saved(
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: str,
    step: int,
    knobs: dict[str, Value],
    saved_step: int,
) -> None:
    plain = getattr(Loop, before)

    def flipped(loop: Loop, *given: int) -> None:
        if loop.iteration == step:
            flip(parameter(loop), 0)
        plain(loop, *given)

    monkeypatch.setattr(Loop, before, flipped)
    with pytest.raises(UsageError, match=f"step {step}: .* changed between two updates"):
        start(corpus, tmp_path / "out", **knobs)
    saved, _ = newest_intact(tmp_path / "out")
    assert saved.step == saved_step


def test_nor_is_one_before_the_data_is_gone(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When what was learned until then is saved at once."""
    between_steps(monkeypatch, 8, lambda loop: flip(parameter(loop)))
    plain, calls = Batches.next, [0]

    def gone(batches: Batches) -> tuple[Tensor, Tensor]:
        calls[0] += 1
        if calls[0] == 9:
            raise InputError("{path}: has changed under the run", path="train-00000.bin")
        return plain(batches)

    monkeypatch.setattr(Batches, "next", gone)
    with pytest.raises(UsageError, match="step 8: "):
        start(corpus, tmp_path / "out", check_every=40)
    saved, _ = newest_intact(tmp_path / "out")
    assert saved.step == 5


def test_the_first_step_counts(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the same weight changes again before anybody looks."""
    between_steps(monkeypatch, 7, lambda loop: flip(parameter(loop), 3))
    between_steps(monkeypatch, 8, lambda loop: flip(parameter(loop), 5))
    with pytest.raises(UsageError, match="step 7: "):
        start(corpus, tmp_path / "out", check_every=40)
    assert abs(evidence(tmp_path / "out")[1]["differences"][0]["change"]) == 1 << 3


def faulty_passes(monkeypatch: pytest.MonkeyPatch, call: int, fault: Callable[[PlainPasses], None]) -> None:
    plain, calls = PlainPasses.__call__, [0]

    def run(passes: PlainPasses, *arguments: Any) -> Tensor:
        loss = plain(passes, *arguments)
        calls[0] += 1
        if calls[0] == call:
            fault(passes)
        return loss

    monkeypatch.setattr(PlainPasses, "__call__", run)


@pytest.mark.parametrize("call", [2, 3], ids=["the first time", "the second time"])
@pytest.mark.parametrize("name", ["transformer.wte.weight", WEIGHT, "transformer.ln_f.weight"])
def test_a_gradient_that_is_not_the_same_twice_stops_the_run(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: int
) -> None:
    """Call 1 is the rehearsal; step 0 is checked with calls 2 and 3. Any tensor counts, also the last one."""

    def fault(passes: PlainPasses) -> None:
        assert isinstance(passes._loss, GPT)
        gradient = dict(passes._loss.named_parameters())[name].grad
        assert gradient is not None
        flip(gradient, 30)

    faulty_passes(monkeypatch, call, fault)
    with pytest.raises(UsageError, match="step 0: the same micro-batch computed twice") as caught:
        start(corpus, tmp_path / "out")
    said = str(caught.value)
    assert f"mostly of {name} (differing values: 1; tensors: 1; largest difference: " in said
    assert said.endswith("no checkpoint was saved yet: test the memory, then start again")
    folder, known = evidence(tmp_path / "out")
    (found,) = known["differences"]
    assert found["count"] == 1
    assert found["values"][0]["first"] != found["values"][0]["second"]
    batch = load_file(folder / "batch.safetensors")
    assert batch["inputs"].shape == (4, 16)
    assert torch.equal(batch["inputs"][:, 1:], batch["targets"][:, :-1])
    assert end_of(tmp_path / "out")[0] == "corrupted"


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        ([1.0, float("nan")], [1.0, float("nan")], None),
        ([0.0, 1.0], [-0.0, 1.0], 1),
        ([1.0, 2.0], [float("inf"), float("nan")], 2),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_bits_are_compared_not_values(
    first: list[float], second: list[float], count: int | None, dtype: torch.dtype
) -> None:
    found = _compared("w", 0, torch.tensor([*first, 0], dtype=dtype), torch.tensor([*second, 0], dtype=dtype))
    assert (None if found is None else found.count) == count
    assert found is None or found.largest == (0.0 if count == 1 else None)


def test_memory_that_is_too_small_to_compare_ends_nothing_and_is_said(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, plain = start(corpus, tmp_path / "plain", check_every=0)

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(corruption, "_compared", full)
    _, told = start(corpus, tmp_path / "out", check_every=20)
    assert told.losses == plain.losses
    said = "step {}: gradients are not checked (check_every), since memory is full"
    assert told.all("note") == [said.format(0), said.format(20)]


def test_a_check_before_a_save_is_no_logging(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = CorruptionWatch.before_update

    def slowly(watch: CorruptionWatch, step: int) -> None:
        plain(watch, step)
        if step == 5:
            time.sleep(0.2)

    monkeypatch.setattr(CorruptionWatch, "before_update", slowly)
    start(corpus, tmp_path / "out", check_every=40, max_iters=5)
    spans = events(tmp_path / "out", "span")
    spent = {phase: sum(each["ms"] for each in spans if each["phase"] == phase) for phase in ("other", "logging")}
    assert spent["other"] >= 200 > spent["logging"]


def test_the_tensor_that_differs_most_is_named(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(passes: PlainPasses) -> None:
        assert isinstance(passes._loss, GPT)
        for name, weight in passes._loss.named_parameters():
            assert weight.grad is not None
            for at in range({"transformer.wpe.weight": 2, WEIGHT: 3, "transformer.ln_f.weight": 1}.get(name, 0)):
                flip(weight.grad, 20, at)

    faulty_passes(monkeypatch, 3, fault)
    with pytest.raises(UsageError, match=rf"mostly of {WEIGHT} \(differing values: 6; tensors: 3;"):
        start(corpus, tmp_path / "out")


def test_what_cannot_be_said_of_a_difference(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How large it is, if a value is not finite; and where the evidence is, if the disk does not take it."""

    def fault(passes: PlainPasses) -> None:
        assert isinstance(passes._loss, GPT)
        gradient = dict(passes._loss.named_parameters())[WEIGHT].grad
        gradient[0, 0] = float("nan")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    faulty_passes(monkeypatch, 3, fault)
    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(UsageError, match="largest difference: not finite") as caught:
        start(corpus, tmp_path / "out")
    folder = tmp_path / "out" / "evidence-step-0"
    assert f"could not be saved ({folder}: cannot be written: No space left on device)" in str(caught.value)


def test_a_resumed_run_names_what_it_resumed_from(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If nothing has been saved since."""
    start(corpus, tmp_path / "out", max_iters=9)
    between_steps(monkeypatch, 11, lambda loop: flip(parameter(loop)))
    with pytest.raises(UsageError, match="step 11: ") as caught:
        start(corpus, tmp_path / "out", init_from="resume", max_iters=20)
    newest = tmp_path / "out" / "checkpoints" / "step-00000010"
    assert str(caught.value).endswith(f"test the memory, then resume from {newest} with --init_from=resume")


def test_only_every_nth_step_is_computed_twice(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[int] = []
    plain = CorruptionWatch.compute_twice

    def twice(watch: CorruptionWatch, step: int, *rest: Any) -> None:
        checked.append(step)
        plain(watch, step, *rest)

    monkeypatch.setattr(CorruptionWatch, "compute_twice", twice)
    start(corpus, tmp_path / "out", check_every=7)
    assert checked == [0, 7, 14]


def test_a_run_goes_on_from_what_was_good(corpus: Path, tmp_path: Path) -> None:
    """To the bit, as if nothing had happened."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        between_steps(monkeypatch, 9, lambda loop: flip(parameter(loop)))
        with pytest.raises(UsageError):
            start(corpus, tmp_path / "out")
    start(corpus, tmp_path / "whole")
    resume(tmp_path / "out", device="cpu")
    last = f"checkpoints/step-00000021/{MODEL}"
    assert (tmp_path / "out" / last).read_bytes() == (tmp_path / "whole" / last).read_bytes()


def test_what_cannot_be_checked_is_refused() -> None:
    with pytest.raises(ConfigError, match="check_every needs deterministic=True on a card"):
        TrainConfig(check_every=10, device="cuda")
    with pytest.raises(ConfigError, match="memory=gradients and check_every cannot be combined"):
        TrainConfig(
            check_every=10, device="cuda", deterministic=True, memory="gradients", gradient_accumulation_steps=1
        )
    assert TrainConfig(check_every=10, device="cpu").check_every == 10
    assert TrainConfig(check_every=10, deterministic=True).check_every == 10
