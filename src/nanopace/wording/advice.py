"""What to change, and what the change costs: an advice without its price is half an advice."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.template import Sentence, say, say_n

ADVICE: Mapping[str, Sentence] = {
    "raise_eval_interval": say("Raise eval_interval from {from_interval} to {to_interval}."),
    "lower_eval_iters": say("Lower eval_iters from {from_iters} to {to_iters}."),
    "lower_eval_iters_unknown": say("Divide eval_iters by {factor}."),
    "save_less_often": say("Save less often: {to_checkpoints} instead of {checkpoints} checkpoints."),
    "use_float16": say("Set dtype=float16: the {card_name} has no bf16 arithmetic and emulates {dtype}.")
    | say(
        "Set dtype=float16, if it is not set already: the {card_name} has no bf16 arithmetic and can only emulate "
        "bfloat16, which nanoGPT may have chosen."
    ),
    "turn_on_compile": say("Turn compile on: fused kernels usually make every step faster."),
    "larger_micro_batch": say(
        "Raise batch_size from {from_batch} to {to_batch} and set gradient_accumulation_steps to {to_accumulation}: "
        "the same tokens per iteration in fewer, larger pieces."
    ),
    "find_the_stall": say(
        "Find what happens every {interval} iterations: compare the times with logging, sampling, data shards and "
        "other jobs."
    )
    | say("Find what holds up the slow rows: compare their times with data loading, disk and other jobs."),
    "find_the_straggler": say(
        "Look at what is different with rank {rank}: clocks and temperature of its card (nvidia-smi), other programs "
        "beside it, the slot that the card is in."
    ),
    "smaller_micro_batch": say(
        "Start with batch_size {to_batch} and gradient_accumulation_steps {to_accumulation}: the memory holds that "
        "from the beginning."
    ),
    "leave_float16": say(
        "Train in bfloat16 where the card has it, else in float32: float16 overflows beyond 65,504, and then the loss "
        "is not a number."
    ),
    "calm_the_loss": say(
        "Lower learning_rate (now {learning_rate}) or raise warmup_iters, and look at the data that these steps met."
    )
    | say("Lower learning_rate or raise warmup_iters, and look at the data that these steps met."),
    "nothing_to_change": say(
        "Nothing worth changing: evaluations and checkpoints take {overhead_share} of the wall clock."
    ),
}

ADVICE_COST: Mapping[str, Sentence] = {
    "raise_eval_interval": say_n(
        "the whole run shows the validation loss only {evaluations} time, and up to {to_interval} iterations are lost "
        "if it stops",
        "the whole run shows the validation loss only {evaluations} times, and up to {to_interval} iterations are lost "
        "if it stops",
        count="evaluations",
    ),
    "lower_eval_iters": say("the validation loss is {noise_factor} times as noisy"),
    "lower_eval_iters_unknown": say("the validation loss is {noise_factor} times as noisy"),
    "save_less_often": say("more training is lost if the run stops"),
    "use_float16": say("none with nanoGPT: it turns on the gradient scaler that float16 needs"),
    "turn_on_compile": say("about a minute at the start"),
    "larger_micro_batch": say("more GPU memory"),
    "find_the_stall": say("an hour of looking"),
    "find_the_straggler": say("an hour of looking"),
    "calm_the_loss": say("the loss falls more slowly"),
}
