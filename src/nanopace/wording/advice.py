"""What to change, and what the change costs: advice should always name its price."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.template import Sentence, say, say_n

ADVICE: Mapping[str, Sentence] = {
    "raise_eval_interval": say("Raise eval_interval from {from_interval} to {to_interval}."),
    "lower_eval_iters": say("Lower eval_iters from {from_iters} to {to_iters}."),
    "lower_eval_iters_unknown": say("Divide eval_iters by {factor}."),
    "save_less_often": say("Save less often: {to_checkpoints} checkpoints instead of {checkpoints}."),
    "use_float16": say("Set dtype=float16: the {card_name} has no bf16 arithmetic and emulates {dtype}.")
    | say(
        "Set dtype=float16 unless it already is: the {card_name} has no bf16 arithmetic and only emulates bfloat16, "
        "which nanoGPT may have chosen."
    ),
    "turn_on_compile": say("Turn on compile: fused kernels usually make every step faster."),
    "larger_micro_batch": say(
        "Raise batch_size from {from_batch} to {to_batch} and set gradient_accumulation_steps to {to_accumulation}: "
        "the same tokens per iteration in fewer, larger pieces."
    ),
    "find_the_stall": say(
        "Find out what happens every {interval} iterations: compare the times with evaluation, logging, sampling, "
        "data shards and other jobs."
    )
    | say("Find out what causes the stalls: compare their times with data loading, disk activity and other jobs."),
    "find_the_straggler": say(
        "Check what is different about rank {rank}: its card's clocks and temperature (nvidia-smi), other programs "
        "running alongside, the card's slot."
    ),
    "smaller_micro_batch": say(
        "Start with batch_size {to_batch} and gradient_accumulation_steps {to_accumulation}: that fits in memory "
        "from the start."
    ),
    "leave_float16": say(
        "Train in bfloat16 if the card supports it, otherwise in float32: float16 overflows above 65,504, and the "
        "loss becomes NaN or infinite."
    ),
    "calm_the_loss": say(
        "Lower learning_rate (now {learning_rate}) or raise warmup_iters, and look at the data of these steps."
    )
    | say("Lower learning_rate or raise warmup_iters, and look at the data of these steps."),
    "nothing_to_change": say(
        "Nothing is worth changing: evaluations and checkpoints take {overhead_share} of the wall clock."
    ),
}

ADVICE_COST: Mapping[str, Sentence] = {
    "raise_eval_interval": say_n(
        "you see the validation loss only {evaluations} time, and up to {to_interval} iterations are lost if the run "
        "stops",
        "you see the validation loss only {evaluations} times, and up to {to_interval} iterations are lost if the "
        "run stops",
        count="evaluations",
    ),
    "lower_eval_iters": say("the validation loss gets {noise_factor}x as noisy"),
    "lower_eval_iters_unknown": say("the validation loss gets {noise_factor}x as noisy"),
    "save_less_often": say("more training is lost if the run stops"),
    "use_float16": say("none with nanoGPT, which turns on the gradient scaler that float16 needs"),
    "turn_on_compile": say("about a minute at the start"),
    "larger_micro_batch": say("more GPU memory"),
    "find_the_stall": say("an hour of investigation"),
    "find_the_straggler": say("an hour of investigation"),
    "calm_the_loss": say("the loss falls more slowly"),
}
