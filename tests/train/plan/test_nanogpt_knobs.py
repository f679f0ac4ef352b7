"""Asking for any of nanoGPT's training knobs gives nanoGPT's defaults for the rest: knob by knob."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from nanopace.cli.main import main
from nanopace.config import KNOBS
from nanopace.corpus.download.named import EMBEDDED
from nanopace.literals import Value
from nanopace.train.plan.device import Machine
from nanopace.train.plan.run_plan import RunPlan

from ..conftest import TINY, write_corpus
from ..planning import asked_by, plan_of

# nanoGPT's train.py, by hand: each knob's default, and another value. Setting one of the first ones means training.
TRAINING: dict[str, tuple[Value, Value]] = {
    "gradient_accumulation_steps": (40, 8),
    "batch_size": (12, 4),
    "block_size": (1024, 512),
    "n_layer": (12, 2),
    "n_head": (12, 6),
    "n_embd": (768, 384),
    "dropout": (0.0, 0.2),
    "bias": (False, True),
    "learning_rate": (6e-4, 1e-3),
    "max_iters": (600000, 5000),
    "weight_decay": (0.1, 0.2),
    "beta1": (0.9, 0.8),
    "beta2": (0.95, 0.99),
    "grad_clip": (1.0, 0.5),
    "decay_lr": (True, False),
    "warmup_iters": (2000, 100),
    "lr_decay_iters": (600000, 5000),
    "min_lr": (6e-5, 1e-5),
}
# Not init_from, which takes the shape of the model from weights: test_pretrained.py.
BESIDE: dict[str, tuple[Value, Value]] = {
    "out_dir": ("out", "elsewhere"),
    "eval_interval": (2000, 250),
    "log_interval": (1, 7),
    "eval_iters": (200, 20),
    "eval_only": (False, True),
    "always_save_checkpoint": (True, False),
    "wandb_log": (False, True),
    "wandb_project": ("owt", "mine"),
    "wandb_run_name": ("gpt2", "mini"),
    "dataset": ("openwebtext", "mine"),
    "backend": ("nccl", "gloo"),
}
# As found on the machine and in the data, with a reason: nanoGPT's cuda, bfloat16, compiler and meta.pkl.
FOUND: dict[str, tuple[Value, Value]] = {
    "device": ("cpu", "cpu"),
    "dtype": ("float32", "bfloat16"),
    "compile": (False, True),
    "vocab_size": (257, 320),
}
DEFAULTS = {name: default for name, (default, _) in {**TRAINING, **BESIDE, **FOUND}.items()}


@pytest.fixture(autouse=True)
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "wandb", ModuleType("wandb"))
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    for name in ("openwebtext", "mine"):
        write_corpus(tmp_path / "data" / name, val=2000)
    return tmp_path


def with_defaults_but(plan: RunPlan, **given: Value) -> bool:
    settings = {name: plan.config.as_dict()[name] for name in DEFAULTS}
    return settings == DEFAULTS | given


@pytest.mark.parametrize("name", [*TRAINING, "vocab_size"])
def test_a_flag_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, other = {**TRAINING, **FOUND}[name]
    asked = asked_by(monkeypatch, f"--{name}={other}")
    assert not asked.machine_decides
    plan = plan_of(asked)
    assert with_defaults_but(plan, **{name: other})
    left = ", ".join(f"{each}={default}" for each, (default, _) in TRAINING.items() if each != name)
    assert plan.reasons["defaults"] == f"nanoGPT's for everything else: {left}"
    assert plan.reasons["dataset"] == "openwebtext: nanoGPT's default"
    assert plan.reasons["compile"].startswith("False: gains little on a CPU")
    assert plan.reasons["dtype"].startswith("float32: as in nanoGPT on a CPU; --dtype=bfloat16 is usually faster")


@pytest.mark.parametrize("name", [*TRAINING, *BESIDE, *FOUND])
def test_a_flag_beside_a_config(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, other = {**TRAINING, **BESIDE, **FOUND}[name]
    Path("config.py").write_text("")
    asked = asked_by(monkeypatch, "config.py", f"--{name}={other}")
    assert with_defaults_but(plan_of(asked), **{name: other})


def test_every_knob_of_nanogpt_is_in_the_table() -> None:
    ours = list(KNOBS).index("seed")  # the first that nanoGPT does not have
    assert set(list(KNOBS)[:ours]) == {*DEFAULTS, "init_from"}
    assert {name for name, knob in KNOBS.items() if knob.asks_for_a_training} == {*TRAINING, "vocab_size"}


@pytest.mark.parametrize("name", ["none", *BESIDE, "device", "dtype", "compile", "recipe", "seed", "save_interval"])
def test_otherwise_the_machine_decides(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    others = {**BESIDE, **FOUND, "recipe": ("gpt2", "fast"), "seed": (1337, 7), "save_interval": (0, 5)}
    flags = [] if name == "none" else [f"--{name}={others[name][1]}"]
    assert asked_by(monkeypatch, *flags).machine_decides
    assert asked_by(monkeypatch, *flags, "--auto", "--n_layer=2").machine_decides
    assert not asked_by(monkeypatch, *flags, "--n_layer=2").machine_decides
    assert not asked_by(monkeypatch, *flags, "--auto", "--init_from=resume").machine_decides


CARD = Machine(torch.device("cuda", 0), "found", "NVIDIA H200", 140)


@pytest.mark.parametrize("flags", [["--dataset=mine"], ["--auto", "--dataset=mine", "--learning_rate=1e-5"]])
@pytest.mark.parametrize("machine", [None, CARD])
def test_every_choice_of_the_machine_has_its_reason(
    flags: list[str], machine: Machine | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: not including_emulation)
    monkeypatch.setattr("nanopace.train.plan.resolve.waste_less", lambda _: None)  # there is no such card
    asked = asked_by(monkeypatch, *flags)
    plan = plan_of(asked) if machine is None else plan_of(asked, machine)
    for name, value in plan.config.as_dict().items():
        if value != KNOBS[name].default and name not in asked.given:
            shown, _, reason = plan.reasons[name].partition(": ")
            assert (shown, bool(reason)) == (str(value), True), name
        elif KNOBS[name].asks_for_a_training and name not in asked.given:
            assert name in plan.reasons or f"{name}={value}" in plan.reasons["defaults"]
    assert plan.config.min_lr == pytest.approx(plan.config.learning_rate / 10)


def test_the_default_dataset_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data" / "openwebtext").rename(tmp_path / "data" / "moved")
    assert main(["train", "--max_iters=3", "--device=cpu"]) == 2
    said = capsys.readouterr().err
    assert "openwebtext: nanoGPT's default dataset is not here" in said
    assert "--dataset" in said
    assert "--auto" in said
    assert not (tmp_path / "out").exists()


def test_with_nothing_asked_for_it_is_the_embedded_corpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_corpus(tmp_path / "data" / EMBEDDED)
    flags = [f"--{name}={value}" for name, value in TINY.items()]
    plan = plan_of(asked_by(monkeypatch, "--auto", *flags))
    assert plan.config.dataset == EMBEDDED
    assert plan.reasons["dataset"].startswith(f"{EMBEDDED}: the source code of this Python")
