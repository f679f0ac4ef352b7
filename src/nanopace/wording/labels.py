"""Labels for all codes that are not findings: origins, causes, phases, verdicts.

Also lists which of a finding's numbers are percentages or losses, if the ending of the name does not show it.
"""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.template import label

MFUS = frozenset({"card", "card_causal", "card_low", "card_high", "steady_printed", "printed_last", "computed_mfu"})
LOSSES = frozenset(
    {"loss", "low", "high", "best_val", "last_val", "gap", "gap_trend"}
    | {"better_loss", "worse_loss", "leader_loss", "follower_loss", "target_loss", "loss_error", "other_loss"}
    | {"first_loss", "last_loss", "run_loss"}
    | {"core", "best_core"}
)
SIGNED_SHARES = frozenset(
    {"change_share", "excess_share", "drift_share", "flops_per_token_share", "utilisation_share", "peak_share"}
    | {"gpu_count_share"}
)
# Values of knobs are written as typed.
KNOB_VALUES = frozenset(
    {"from_interval", "to_interval", "from_iters", "to_iters", "from_batch", "to_batch", "to_accumulation"}
    | {"log_interval", "eval_interval", "learning_rate"}
)

# For a card's sensors, by the ending of the number's name: the unit and the number of digits.
UNITS: Mapping[str, tuple[str, int]] = {
    "_kwh": ("kWh", 3),
    "_watts": ("W", 3),
    "_mhz": ("MHz", 3),
    "_celsius": ("°C", 2),
}

GPU_FLAG = label("--gpu NAME")  # as a finding's `flag`; the metavar is that of --help

ORIGINS: Mapping[str, str] = {
    "log": label("from the log"),
    "config file": label("from the config file"),
    "flag": label("from the command line"),
    "inferred": label("inferred"),
}

BECAUSE: Mapping[str, str] = {
    "nanogpt_default": label("nanoGPT's default"),
    "first_loss": label("from the untrained model's loss"),
    "parameter_groups": label("from the parameter group sizes"),
    "model_shape": label("from the model's shape"),
    "batch_shape": label("from batch size, accumulation and block size"),
    "mfu_time_parameters": label("from mfu, time and parameters"),
    "printed_rate": label("from the printed tokens per second and dt"),
    "counted_tokens": label("the mean of the tokens that the log counts"),
    "printed_mfu": label("from the printed mfu, FLOPs per token and dt"),
    "printed_tflops": label("from the printed TFLOP/s"),
    "row_spacing": label("from the row spacing"),
    "repeated_line": label("from a line that each process prints"),
    "unnumbered_device": label("from the device, which has no number"),
    "trainer": label("always the case with this trainer"),
}

STAGES: Mapping[str, str] = {
    "base": label("base training"),
    "mid": label("midtraining"),
    "sft": label("fine-tuning (SFT)"),
    "rl": label("reinforcement learning (RL)"),
}

CAUSES: Mapping[str, str] = {
    "compile": label("compilation and warm-up"),
    "evaluation": label("evaluation"),
    "checkpoint": label("checkpoint"),
    "restart": label("restart"),
    "periodic": label("recurring stall"),
    "data": label("fetching data"),
    "stall": label("stall"),
}

PHASES: Mapping[str, str] = {
    "training": label("training"),
    "evaluation": label("evaluation"),
    "checkpoint": label("checkpoint"),
    "startup": label("start-up and compilation"),
    "stall": label("stalls"),
    "suspended": label("suspended"),
    "restart": label("lost to restarts"),
    "rollback": label("lost to rollbacks"),
    "other": label("logging and other"),
    "unknown": label("unknown"),
}

# Used instead if the trainer never compiles.
WITHOUT_COMPILING: Mapping[str, str] = {"compile": label("warm-up"), "startup": label("start-up")}

PARTS: Mapping[str, str] = {
    "data": label("waiting for data"),
    "forward_backward": label("forward and backward"),
    "computing": label("computing"),
    "optimizer": label("optimizer"),
    "bus": label("waiting for host memory"),
    "startup": label("start-up"),
    "compile": label("compilation"),
    "first_steps": label("first steps"),
    "logging": label("logging"),
}

# All others are called by their trainer's name.
FORMATS: Mapping[str, str] = {
    "ledger": label("nanopace ledger"),
    **dict.fromkeys(("pattern", "pattern_elapsed"), label("read with --pattern")),
}

ENDINGS: Mapping[str, str] = {
    "finished": label("finished"),
    "interrupted": label("interrupted"),
    "out_of_memory": label("out of memory"),
    "diverged": label("diverged"),
    "corrupted": label("corrupted data"),
    "error": label("ended with an error"),
}

# Numbers in one sentence that differ and must be seen to differ.
SIDE_BY_SIDE = (
    *(("sooner_tokens", "later_tokens"), ("faster_ms", "slower_ms"), ("before_ms", "after_ms"), ("new_ms", "base_ms")),
    *(("faster_tokens_per_s", "slower_tokens_per_s"), ("new_tokens_per_s", "base_tokens_per_s")),
    ("faster_overall_tokens_per_s", "slower_overall_tokens_per_s"),
)

VERDICTS: Mapping[str, str] = {
    "near_limit": label("close to the card's limit"),
    "good": label("well used"),
    "power_limited": label("at its power limit"),
    "half_idle": label("more than half the card is idle"),
    "mostly_idle": label("most of the card is idle"),
    "above_peak": label("above the card's rated peak"),
}

METRICS: Mapping[str, str] = {
    "loss": label("loss"),
    "bpc": label("bits per character"),
    "bpb": label("bits per byte"),
    "core": label("CORE metric"),
}

COVER_EVIDENCE: Mapping[str, str] = {
    "tokens": label("only that fits the printed tokens per second"),
    "stamps": label("only that fits the time stamps"),
    "first_row": label("the first row includes an evaluation, yet takes less than half as long as any other"),
    "trainer": label("this log measures time that way"),
    "clock": label("it is the difference between two readings of the trainer's clock"),
}

CLOCKS: Mapping[str, str] = {
    "measured": label("measured"),
    "rows": label("log rows"),
    "incomplete": label("log rows, incomplete"),
}

FACTS: Mapping[str, str] = {
    "tokens_per_iteration": label("tokens per iteration"),
    "parameters": label("parameters"),
    "flops_per_token": label("FLOPs per token"),
    "flops_per_token_causal": label("FLOPs per token (causal)"),
    "gpu": label("GPU"),
    "gpu_memory_gb": label("GPU memory (GB)"),
    "gpu_count": label("number of GPUs"),
    "measured_tflops": label("measured peak (TFLOP/s)"),
    "world_size": label("processes"),
    "printed_peak_tflops": label("peak assumed by the printed mfu (TFLOP/s)"),
}
