"""Sentences for trainers that do not use nanoGPT's knobs, in place of those that name these knobs.

No knob is named here, because each trainer has its own. Nothing is requested that cannot be passed to nanopace for such
a log.
"""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.template import Sentence, say, say_n

ELSEWHERE: Mapping[str, Sentence] = {
    # --- slow rows
    "checkpoint_unknown": say("Evaluation and checkpoint together take {spike_s}; this log cannot separate them."),
    "startup_compile": say(
        "Iteration {iteration} took {total_s} instead of {step_s}: warm-up. This happens once per start."
    ),
    "startup_of_several": say(
        "The first {iterations} iterations took {total_s} instead of {step_s}: warm-up. This happens once per start."
    ),
    "startup": say(
        "Iteration {iteration} took {total_s}: first evaluation {evaluation_s}, warm-up {compile_s}, the step itself "
        "{step_s}. This happens once per start."
    ),
    "startup_bounded": say(
        "Iteration {iteration} took {total_s}: the first evaluation at most {evaluation_s} (what later ones take "
        "with their checkpoint), so the warm-up at least {compile_s}, and the step itself {step_s}. This happens once "
        "per start."
    ),
    "startup_together": say(
        "Iteration {iteration} took {total_s} instead of {step_s}: the first evaluation and the warm-up, which this "
        "log cannot separate. This happens once per start."
    ),
    "startup_unsplit": say(
        "Iteration {iteration} took {total_s} instead of {step_s}: warm-up and the first evaluation, if there was "
        "one. This happens once per start."
    ),
    "hidden_evaluations": say("Hidden between rows: {hidden} of {count} evaluations, {hidden_s} in all."),
    "align_log_interval": say(
        "The log has a row every {log_interval} iterations and an evaluation every {eval_interval}. If the second "
        "were a multiple of the first, the log would show every evaluation."
    ),
    "hidden_unpriced": say(
        "Hidden between rows: {hidden} of {count} evaluations. At most one row shows what such an evaluation costs."
    ),
    "memory_spill": say(
        "From iteration {iteration} on, a step takes {ratio}x as long ({after_ms} instead of {before_ms}). That is "
        "typical of full GPU memory spilling into main memory: try a smaller micro-batch and more gradient "
        "accumulation."
    ),
    "no_plain_row": say_n(
        "The log has {rows} row, and it may contain an evaluation or the start-up: the step time is unknown.",
        "Each of the {rows} rows may contain an evaluation or the start-up, so the step time is unknown. With more "
        "rows in the log, some would be plain steps.",
        count="rows",
    ),
    "ended_out_of_memory": say(
        "The run ran out of memory after iteration {last_iteration}. If that was in a training step, a smaller "
        "micro-batch with more gradient accumulation needs less memory for the same tokens per iteration."
    ),
    "loss_diverged": say(
        "The first loss in this log, at iteration {first}, is already NaN or infinite. Check the initial weights, the "
        "data and the precision, and lower the learning rate."
    )
    | say(
        "The loss diverged at iteration {iteration}. Go back to an earlier checkpoint, with a lower learning rate or "
        "a longer warm-up."
    ),
    # --- the card
    "mfu_other_card": say(
        "The printed {steady_printed} is relative to {printed_peak_tflops}, the peak the trainer assumed for this "
        "card. Relative to the {card_name} ({card_tflops}), it is {card}."
    ),
    "mfu_card_unknown": say(
        "The card is unknown. The printed {steady_printed} is relative to {printed_peak_tflops}, the peak the "
        "trainer assumed; this card reached {achieved_tflops}. Pass --gpu NAME to see its own share."
    ),
    "mfu_over_100": say(
        "An mfu of {steady_printed} is possible: the trainer divides by {printed_peak_tflops}, and the card reached "
        "{achieved_tflops}."
    ),
    "card_above_peak": say(
        "{card} of the {card_name}'s rated {card_tflops}: more than such a card should reach. Either the trainer "
        "prints wrong TFLOP/s, or the card is a different one."
    ),
    "utilisation_half_idle": say(
        "{card} of what the {card_name} can do: more than half the card is idle. Try {compile} and a larger "
        "micro-batch, and check data loading."
    )
    | say(
        "{card} of what the {card_name} can do: more than half the card is idle. Try a larger micro-batch, and check "
        "data loading."
    ),
    "utilisation_mostly_idle": say(
        "{card} of what the {card_name} can do: most of the card is idle. Usual reasons: a small model or micro-batch, "
        "{compile} off, float32, slow data loading."
    )
    | say(
        "{card} of what the {card_name} can do: most of the card is idle. Usual reasons: a small model or micro-batch, "
        "float32, slow data loading."
    ),
    "mfu_unknown": say(
        "The card's utilisation cannot be computed without {knobs} and the card. Pass --set NAME=VALUE and {flag}."
    )
    | say("The card's utilisation cannot be computed without {knobs}. Pass --set NAME=VALUE.")
    | say("The card's utilisation cannot be computed: the card is unknown. Pass {flag}.")
    | say("The card's utilisation cannot be computed: the log does not show how many FLOPs a step takes."),
    "tokens_unknown": say("Tokens per second cannot be computed without {knobs}. Pass --set NAME=VALUE.")
    | say("Tokens per second are unknown: the log does not show how many tokens a step has."),
    # --- advice
    "raise_eval_interval": say("Evaluate every {to_interval} iterations instead of every {from_interval}."),
    "larger_micro_batch": say(
        "Use micro-batches of {to_batch} sequences instead of {from_batch}, {to_accumulation} per step: the same "
        "tokens per iteration in fewer, larger pieces."
    ),
    "calm_the_loss": say(
        "Lower the learning rate (now {learning_rate}) or use a longer warm-up, and look at the data of these steps."
    )
    | say("Lower the learning rate or use a longer warm-up, and look at the data of these steps."),
}

COST_ELSEWHERE: Mapping[str, Sentence] = {
    "raise_eval_interval": say_n(
        "you see the validation loss only {evaluations} time",
        "you see the validation loss only {evaluations} times",
        count="evaluations",
    ),
}
