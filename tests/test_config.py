"""The knobs are nanoGPT's, and TrainConfig refuses what cannot train."""

from __future__ import annotations

import pytest

from nanopace.config import KNOBS, TrainConfig, knobs_of
from nanopace.config_text import read_config_text
from nanopace.errors import ConfigError

from .test_config_text import SHAKESPEARE


def test_the_knobs_are_nanogpts() -> None:
    assert KNOBS["batch_size"].default == 12
    assert KNOBS["gradient_accumulation_steps"].default == 40
    assert KNOBS["learning_rate"].default == 6e-4
    assert KNOBS["bias"].default is False
    assert all(knob.why and knob.fitted(knob.default) == knob.default for knob in KNOBS.values())


def test_every_knob_is_classified() -> None:
    """By what it can change and what it belongs to: compare, ablate, infer and resumed runs all rely on it."""
    nanogpts = {name for name, knob in KNOBS.items() if knob.nanogpt}
    assert nanogpts == {
        *("out_dir", "eval_interval", "log_interval", "eval_iters", "eval_only", "always_save_checkpoint", "init_from"),
        *("wandb_log", "wandb_project", "wandb_run_name", "dataset", "gradient_accumulation_steps", "batch_size"),
        *("block_size", "n_layer", "n_head", "n_embd", "dropout", "bias", "learning_rate", "max_iters", "weight_decay"),
        *("beta1", "beta2", "grad_clip", "decay_lr", "warmup_iters", "lr_decay_iters", "min_lr", "backend", "device"),
        *("dtype", "compile"),
    }
    assert {name for name, knob in KNOBS.items() if knob.effect == "speed"} == {
        *("batch_size", "gradient_accumulation_steps", *knobs_of("shape", "recipe", "machine"), "dropout", "backend"),
        *("fused", "deterministic", "check_every", "memory", "parallel"),
    }
    assert {name for name, knob in KNOBS.items() if knob.effect == "loss"} == {
        *("init_from", "which", "dataset", "documents", "seed", "learning_rate", "min_lr", "decay_lr", "warmup_iters"),
        *("lr_decay_iters", "max_iters", "weight_decay", "beta1", "beta2", "grad_clip", "matrix_lr", "cooldown"),
    }
    assert set(knobs_of("call")) == {"out_dir", "eval_only", "init_from", "which", "rescue_dir", "overwrite"}
    assert set(knobs_of("machine")) == {"device", "dtype", "compile", "fp8", "memory_limit"}
    assert set(knobs_of("site")) == {"backend", "wandb_log", "wandb_project", "wandb_run_name"}
    assert knobs_of("recipe") == ("recipe", "without")
    assert knobs_of("shape") == ("block_size", "n_layer", "n_head", "n_embd", "vocab_size", "bias")


def test_the_defaults_make_a_config() -> None:
    config = TrainConfig()
    assert {name: getattr(config, name) for name in KNOBS} == {name: knob.default for name, knob in KNOBS.items()}
    assert TrainConfig(**read_config_text(SHAKESPEARE, "c.py")).min_lr == 1e-4  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"batch_size": "8"}, "batch_size must be int"),
        ({"batch_size": 0}, "batch_size must be int >= 1"),
        ({"beta2": 1.0}, "beta2 must be float >= 0, < 1"),
        ({"n_head": 7}, "n_embd must be a multiple of n_head"),
        ({"min_lr": 1.0}, "min_lr must not exceed learning_rate"),
        ({"dtype": "int8"}, "dtype must be one of"),
        ({"parallel": "fsdp", "dtype": "float16"}, "parallel=fsdp and dtype=float16 cannot be combined"),
    ],
)
def test_a_config_that_cannot_train_names_its_knob(knobs: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TrainConfig(**knobs)  # type: ignore[arg-type]
    assert said in str(caught.value)


def test_a_constant_rate_needs_no_minimum() -> None:
    assert TrainConfig(learning_rate=3e-5, decay_lr=False).learning_rate == 3e-5
