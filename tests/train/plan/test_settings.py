from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nanopace.config import TrainConfig
from nanopace.corpus.shards.corpus import Corpus, open_corpus
from nanopace.errors import ConfigError
from nanopace.hardware.cards import find_card
from nanopace.train.plan.device import Machine, pick_kernels
from nanopace.train.plan.ladder import pick_steps
from nanopace.train.plan.settings import choose_settings, pick_eval_train, shape_of

CPU = Machine(torch.device("cpu"), "found no CUDA card")


def card(name: str, memory_gb: float) -> Machine:
    return Machine(torch.device("cuda", 0), "found", name, memory_gb, card=find_card(name))


@pytest.fixture(autouse=True)
def bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: not including_emulation)


@pytest.fixture
def small(corpus: Path) -> Corpus:
    return open_corpus(corpus)


@pytest.fixture
def large(tmp_path: Path) -> Corpus:
    """A corpus in nanoGPT's format, large enough for a GPT-2; the file is sparse, so it takes no space."""
    folder = tmp_path / "owt"
    folder.mkdir()
    for name, tokens in (("train", 60_000_000), ("val", 100_000)):
        with (folder / f"{name}.bin").open("wb") as file:
            file.truncate(2 * tokens)
    return open_corpus(folder)


def test_a_config_leaves_nanogpts_defaults(small: Corpus) -> None:
    plan = choose_settings({"n_embd": 64, "n_head": 4}, small, CPU, machine_decides=False)
    assert (plan.config.n_layer, plan.config.batch_size, plan.config.max_iters) == (12, 12, 600_000)
    assert (plan.config.device, plan.config.dtype, plan.config.compile) == ("cpu", "float32", False)
    assert plan.config.vocab_size == 257
    assert plan.reasons["device"] == "cpu: found no CUDA card"
    assert plan.reasons["vocab_size"] == "257: the corpus's own"
    assert "n_layer" not in plan.reasons


def test_what_is_asked_for_is_done(small: Corpus) -> None:
    asked = {"dtype": "bfloat16", "compile": True, "vocab_size": 300, "n_embd": 64, "n_head": 4}
    plan = choose_settings(asked, small, CPU, machine_decides=False)
    assert (plan.config.dtype, plan.config.compile, plan.config.vocab_size) == ("bfloat16", True, 300)
    assert plan.reasons.keys() == {"device", "dataset", "eval_train", "defaults"}


def test_a_vocabulary_that_is_too_small(small: Corpus) -> None:
    with pytest.raises(ConfigError, match="vocab_size must be at least 257"):
        choose_settings({"vocab_size": 256}, small, CPU, machine_decides=False)


def test_without_a_word_about_it_the_vocabulary_is_gpt2s(large: Corpus) -> None:
    plan = choose_settings({}, large, CPU, machine_decides=False)
    assert plan.config.vocab_size == 50304
    assert "does not say" in plan.reasons["vocab_size"]


def test_nanogpts_meta_decides_as_it_does_there(tmp_path: Path) -> None:
    for name in ("train", "val"):
        np.arange(65, dtype=np.uint16).repeat(9).tofile(tmp_path / f"{name}.bin")
    letters = {chr(40 + each): each for each in range(65)}
    meta = {"vocab_size": 65, "stoi": letters, "itos": {each: letter for letter, each in letters.items()}}
    (tmp_path / "meta.pkl").write_bytes(pickle.dumps(meta))
    assert choose_settings({}, open_corpus(tmp_path), CPU, machine_decides=False).config.vocab_size == 65


def test_two_minutes_of_a_cpu(small: Corpus) -> None:
    config = choose_settings({}, small, CPU, machine_decides=True).config
    assert (config.n_layer, config.n_embd, config.block_size) == (4, 128, 128)
    assert config.max_iters == config.lr_decay_iters == 5 * config.eval_interval
    fewer = choose_settings({"max_iters": 50, "n_layer": 1}, small, CPU, machine_decides=True).config
    assert (fewer.max_iters, fewer.lr_decay_iters, fewer.eval_interval, fewer.n_layer) == (50, 50, 10, 1)


@pytest.mark.usefixtures("ampere")
@pytest.mark.parametrize(
    ("asked", "memory_gb", "fitting", "batch_size"),
    [
        ({}, 8, 17, 16),
        ({}, 12, 33, 32),
        ({}, 24, 79, 64),
        ({}, 140, 527, 64),
        ({"recipe": "fast"}, 12, 40, 32),
        ({"fused": False}, 12, 15, 8),  # torch.compile's kernels: 0.607 GiB per sequence, not 0.417 as in a bare loop
        ({"dropout": 0.1}, 24, 33, 32),
        ({"compile": False}, 12, 9, 8),
    ],
)
def test_a_card_is_filled_as_far_as_its_kernels_go(
    large: Corpus, asked: dict[str, Any], memory_gb: float, fitting: int, batch_size: int
) -> None:
    pytest.importorskip("triton")
    machine = card("4090", memory_gb)
    plan = choose_settings(asked, large, machine, machine_decides=True)
    config = plan.config
    assert (config.n_layer, config.n_embd, config.dtype) == (12, 768, "bfloat16")
    assert plan.reasons["batch_size"] == f"{batch_size}: {fitting} would fit in {memory_gb} GiB"
    assert config.batch_size == batch_size
    assert config.tokens_per_iteration == 1 << (17 if "recipe" in asked else 19)  # 240M tokens in all
    assert config.max_iters * config.tokens_per_iteration == pytest.approx(4 * 60e6, rel=0.02)
    kernels, _ = pick_kernels(config, shape_of(config, "gelu"), machine.device, 1)
    assert pick_steps(config, shape_of(config, "gelu"), machine, kernels)[0] == ()  # and nothing has to be saved


@pytest.fixture
def ampere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A card without 8 bits."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 6))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA GeForce RTX 3090")


@pytest.mark.usefixtures("ampere")
def test_fast_has_8_bits_where_the_card_does(large: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    machine = card("4090", 24)

    def chosen(**asked: Any) -> tuple[bool, str | None, str]:
        plan = choose_settings({"recipe": "fast", **asked}, large, machine, machine_decides=True)
        return plan.config.fp8, plan.reasons.get("fp8"), plan.reasons["batch_size"]

    assert chosen() == (False, None, "64: 100 would fit in 24 GiB")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 9))
    assert chosen() == (True, "True: recipe fast", "64: 97 would fit in 24 GiB")  # they need a little more memory
    assert chosen(fp8=False)[:2] == (False, None)
    assert chosen(fp8=True)[:2] == (True, None)
    assert chosen(recipe="gpt2")[:2] == (False, None)
    for impossible in ({"dropout": 0.1}, {"compile": False}, {"dtype": "float16"}):
        assert chosen(**impossible)[:2] == (False, None)


def test_a_small_corpus_gets_a_small_model(small: Corpus) -> None:
    plan = choose_settings({}, small, card("4090", 24), machine_decides=True)
    assert (plan.config.n_embd, plan.config.dropout, plan.config.max_iters) == (384, 0.1, 200)
    assert plan.reasons["gpu"].endswith("TFLOP/s in bfloat16")
    unknown = choose_settings({}, small, Machine(torch.device("cuda", 0), "found", "X9"), machine_decides=True)
    assert unknown.reasons["gpu"] == "X9: unknown peak"
    assert unknown.config.batch_size == 8


TRAIN_GPT2 = {"eval_interval": 1000, "eval_iters": 200, "gradient_accumulation_steps": 40}
SHAKESPEARE = {"eval_interval": 250, "eval_iters": 200, "gradient_accumulation_steps": 1, "max_iters": 5000}
NANOGPTS = "--eval_train=full prints nanoGPT's train loss"


@pytest.mark.parametrize(
    ("knobs", "choice"),
    [
        (TRAIN_GPT2, ("full", "the second pass adds about 0.17% to the steps")),
        (SHAKESPEARE, ("steps", f"a second pass would add about 27%; {NANOGPTS}")),
        ({**SHAKESPEARE, "eval_iters": 7}, ("full", "the second pass adds about 0.93% to the steps")),
        ({**SHAKESPEARE, "eval_iters": 8}, ("steps", f"a second pass would add about 1.1%; {NANOGPTS}")),
        # the steps between two evaluations are no more than there are
        ({**TRAIN_GPT2, "max_iters": 100}, ("steps", f"a second pass would add about 1.7%; {NANOGPTS}")),
        ({**SHAKESPEARE, "max_iters": 0}, ("steps", f"a second pass would add about 6667%; {NANOGPTS}")),
        ({**SHAKESPEARE, "eval_only": True}, ("full", "an evaluation alone has no training steps to report")),
        (
            {**TRAIN_GPT2, "eval_target_error": 0.003},
            ("steps", "a second pass takes as long as eval_target_error demands; --eval_train=full runs it"),
        ),
    ],
)
def test_a_second_pass_is_made_where_nobody_notices(knobs: dict[str, Any], choice: tuple[str, str]) -> None:
    assert pick_eval_train(TrainConfig(**knobs)) == choice


@pytest.mark.parametrize(
    ("asked", "made", "said"),
    [
        ({}, "steps", "steps: a second pass would add about 27%"),
        ({"eval_train": "auto"}, "steps", "steps: a second pass would add about 27%"),
        ({"eval_train": "full"}, "full", None),
        ({"eval_train": "steps", "eval_iters": 1}, "steps", None),
        ({"eval_train": "steps", "eval_only": True}, "full", "full: an evaluation alone"),
    ],
)
def test_which_training_loss_is_settled_before_the_run(
    small: Corpus, asked: dict[str, Any], made: str, said: str | None
) -> None:
    plan = choose_settings({"n_embd": 64, "n_head": 4, **SHAKESPEARE, **asked}, small, CPU, machine_decides=False)
    assert plan.config.eval_train == made
    assert plan.reasons.get("eval_train", "").startswith(said or "")
    assert ("eval_train" in plan.reasons) is (said is not None)
