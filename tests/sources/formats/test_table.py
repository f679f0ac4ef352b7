"""What the trainers' figures mean, according to their source code: reports depend on it, and no log contains it."""

from __future__ import annotations

from nanopace.record import field_names
from nanopace.sources.formats.table import BUILT_IN
from nanopace.sources.log_format import LogFormat

FIGURES = field_names(LogFormat)[field_names(LogFormat).index("row_contains_evaluation") :]

TRACKED = {"row_contains_evaluation": False, "row_time": "all"}
HUGGING_FACE = TRACKED | {"row_loss": "smoothed", "ends_at_max_iters": True}


def test_what_the_figures_mean() -> None:
    plain = LogFormat("", "", "")
    assert {
        each.name: {name: getattr(each, name) for name in FIGURES if getattr(each, name) != getattr(plain, name)}
        for each in BUILT_IN
    } == {
        "nanogpt": {
            "mfu_smoothing": 0.9,
            "printed_peak": 312.0,
            "row_loss": "micro-batch",
            "row_time": "iteration_or_all",
            "nanogpt_knobs": True,
            "nanogpt_defaults": True,
            "gpt2_shape": True,
            "ends_at_max_iters": True,
        },
        "nanochat": {
            "row_contains_evaluation": False,
            "zero_mfu_is_unknown": True,
            "row_loss": "smoothed",
            "has_stages": True,
            "stops_before_max_iters": True,
            "cools_down": True,
        },
        "nanopace": {
            "row_contains_evaluation": False,
            "printed_peak": "card",
            "nanogpt_knobs": True,
            "gpt2_shape": True,
        },
        "ledger": {"row_contains_evaluation": False, "nanogpt_knobs": True, "gpt2_shape": True},
        "modded-nanogpt": {
            "row_contains_evaluation": False,
            "row_loss": "micro-batch",
            "row_time": "clock",
            "clock_ms": 1.0,
            "ends_at_max_iters": True,
            "cools_down": True,
        },
        "parameter-golf": {
            "row_contains_evaluation": False,
            "row_time": "clock",
            "clock_ms": 1.0,
            "ends_at_max_iters": True,
            "ends_by_time": True,
            "cools_down": True,
        },
        "build_nanogpt": {"row_time": "iteration_or_all", "gpt2_shape": True, "stops_before_max_iters": True},
        "build_nanogpt_log": {"row_contains_evaluation": False},
        "llama2c": {
            "mfu_smoothing": 0.9,
            "printed_peak": 312.0,
            "row_loss": "micro-batch",
            "nanogpt_knobs": True,
            "ends_at_max_iters": True,
        },
        "mingpt": {"compiles": False, "row_contains_evaluation": False},
        "makemore": {"compiles": False, "row_contains_evaluation": False, "stops_before_max_iters": True},
        "llmc": {
            "compiles": False,
            "row_contains_evaluation": False,
            "gpt2_shape": True,
            "ends_at_max_iters": True,
            "stops_before_max_iters": True,
        },
        "llmc_python": {"gpt2_shape": True, "ends_at_max_iters": True, "stops_before_max_iters": True},
        "llmc_log": {"compiles": False, "row_contains_evaluation": False},
        "llmq": {"compiles": False, "row_contains_evaluation": False, "ends_at_max_iters": True},
        "llmq_json": {"compiles": False, "row_contains_evaluation": False, "ends_at_max_iters": True},
        "torchtitan": {"row_contains_evaluation": False, "row_time": "mean"},
        "megatron": {"compiles": False, "row_contains_evaluation": False, "row_time": "mean"},
        "megatron-2021": {"compiles": False, "row_time": "mean"},
        "litgpt": {"row_contains_evaluation": False},
        "lit-gpt": {"row_contains_evaluation": False, "row_loss": "micro-batch"},
        "lingua": {"row_time": "mean", "row_loss": "micro-batch"},
        "lingua-metrics": {"row_time": "mean", "row_loss": "micro-batch"},
        "autoresearch": {"row_contains_evaluation": False, "row_loss": "smoothed"},
        "hf_trainer_state": HUGGING_FACE,
        "hf_console": HUGGING_FACE,
        "llama_factory": HUGGING_FACE,
        "hf_table": {each: HUGGING_FACE[each] for each in HUGGING_FACE if each != "row_time"},
        "lightning": {"row_contains_evaluation": False},
        "wandb_csv": TRACKED,
        "tensorboard": TRACKED,
        "wandb": TRACKED,
        "clock": {"row_contains_evaluation": False, "gpt2_shape": True},
    }
