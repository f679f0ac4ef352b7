"""A few words for every code that is no finding: origins, causes, phases, verdicts.

Also which of a finding's numbers are percentages or losses, where the name's ending does not say so.
"""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.template import mark

MFUS = frozenset({"card", "card_causal", "steady_printed", "printed_last"})
LOSSES = frozenset(
    {"loss", "low", "high", "best_val", "gap", "gap_trend"}
    | {"better_loss", "worse_loss", "leader_loss", "follower_loss"}
)
SIGNED_SHARES = frozenset(
    {"change_share", "excess_share", "drift_share", "flops_per_token_share", "utilisation_share", "peak_share"}
)
# Values of knobs are written as they are typed.
KNOB_VALUES = frozenset(
    {"from_interval", "to_interval", "from_iters", "to_iters", "from_batch", "to_batch", "to_accumulation"}
    | {"log_interval", "eval_interval"}
)

# Of a card's sensors, by the ending of the number's name: the unit, and how many digits it is worth.
UNITS: Mapping[str, tuple[str, int]] = {
    "_kwh": ("kWh", 3),
    "_watts": ("W", 3),
    "_mhz": ("MHz", 3),
    "_celsius": ("°C", 2),
}

ORIGINS: Mapping[str, str] = {
    "log": mark("from the log"),
    "config file": mark("from the config file"),
    "flag": mark("from the command line"),
    "inferred": mark("inferred"),
}

BECAUSE: Mapping[str, str] = {
    "nanogpt_default": mark("nanoGPT's default"),
    "first_loss": mark("from the loss of the untrained model"),
    "parameter_groups": mark("from the sizes of the parameter groups"),
    "model_shape": mark("from the model's shape"),
    "batch_shape": mark("from batch, accumulation and block size"),
    "mfu_time_parameters": mark("from mfu, time and parameters"),
    "row_spacing": mark("from the spacing of the rows"),
    "trainer": mark("what this trainer always does"),
}

CAUSES: Mapping[str, str] = {
    "compile": mark("compile and warm-up"),
    "evaluation": mark("evaluation"),
    "checkpoint": mark("checkpoint"),
    "restart": mark("restart"),
    "periodic": mark("recurring stall"),
    "stall": mark("stall"),
}

PHASES: Mapping[str, str] = {
    "training": mark("training"),
    "evaluation": mark("evaluation"),
    "checkpoint": mark("checkpoint"),
    "startup": mark("start-up and compile"),
    "stall": mark("stalls"),
    "restart": mark("lost to restarts"),
    "other": mark("logging and other"),
    "unknown": mark("unknown"),
}

PARTS: Mapping[str, str] = {
    "data": mark("waiting for data"),
    "forward_backward": mark("forward and backward"),
    "optimizer": mark("optimizer"),
    "startup": mark("start-up"),
    "compile": mark("compiling"),
}

FORMATS: Mapping[str, str] = {
    "nanogpt": mark("nanoGPT"),
    "nanochat": mark("nanochat"),
    "nanopace": mark("nanopace"),
    "ledger": mark("nanopace ledger"),
}

ENDINGS: Mapping[str, str] = {
    "finished": mark("finished"),
    "interrupted": mark("interrupted"),
    "out_of_memory": mark("out of memory"),
    "error": mark("ended with an error"),
}

VERDICTS: Mapping[str, str] = {
    "near_limit": mark("close to the card's limit"),
    "good": mark("well used"),
    "half_idle": mark("more than half of the card is idle"),
    "mostly_idle": mark("most of the card is idle"),
    "above_peak": mark("above the card's rated peak"),
}

METRICS: Mapping[str, str] = {
    "loss": mark("loss"),
    "bpb": mark("bits per byte"),
    "core": mark("CORE metric"),
}

BASES: Mapping[str, str] = {
    "measured": mark("measured"),
    "upper_bound": mark("at most"),
    "unknown": mark("unknown"),
}

FACTS: Mapping[str, str] = {
    "tokens_per_iteration": mark("tokens per iteration"),
    "parameters": mark("parameters"),
    "flops_per_token": mark("FLOPs per token"),
    "flops_per_token_causal": mark("FLOPs per token (causal)"),
    "gpu": mark("GPU"),
    "gpu_memory_gb": mark("GPU memory (GB)"),
    "gpu_count": mark("number of GPUs"),
    "printed_peak_tflops": mark("peak assumed by the printed mfu (TFLOP/s)"),
}
