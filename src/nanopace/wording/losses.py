"""Sentences about the loss; sentences.py has the rules for all findings."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.template import Sentence, say, say_n

LOSSES: Mapping[str, Sentence] = {
    "skipped_steps": say_n(
        "One step was skipped because its loss or gradient was NaN or infinite (iteration {iterations}). It changed "
        "no weights.",
        "{count} steps were skipped because their loss or gradient was NaN or infinite (streaks: {streaks}; "
        "iterations {iterations}). They changed no weights.",
        count="count",
    ),
    "loss_spikes": say_n(
        "The loss spiked once, at iteration {iteration}: {largest_z} standard deviations above the steps before it. "
        "That is harmless if it recovers.",
        "The loss spiked {count} times, highest at iteration {iteration}: {largest_z} standard deviations above the "
        "steps before it. That is harmless if it recovers each time.",
        count="count",
    ),
    "training_loss_course": say_n(
        "The training loss went from {first_loss} in the first row to {last_loss} in the last.",
        "The training loss went from {first_loss} to {last_loss}, each the mean of {rows} rows.",
        count="rows",
    ),
    "core_metric": say(
        "{score} is {core} at iteration {core_iteration}; its best was {best_core}, at iteration {best_core_iteration}."
    )
    | say("{score} is {core} at iteration {core_iteration}, its best so far."),
    "loss_noise": say_n(
        "Each row's loss is that of one micro-batch and varies by ±{noise}; the evaluations are more informative.",
        "Each row's loss is that of the last of {accumulation} micro-batches and varies by ±{noise}; the evaluations "
        "are more informative.",
        count="accumulation",
    )
    | say("Each row's loss varies by ±{noise}; the evaluations are more informative."),
    "overfitting": say_n(
        "The model is overfitting: the validation loss was best at iteration {best_val_iteration} ({best_val}) and "
        "has since risen to {last_val}, while the training loss, here that of the last step, has not.",
        "The model is overfitting: the validation loss was best at iteration {best_val_iteration} ({best_val}) and "
        "has since risen to {last_val}, while the training loss, here the mean of the last {train_steps} steps, has "
        "not.",
        count="train_steps",
    )
    | say(
        "The model is overfitting: the validation loss was best at iteration {best_val_iteration} ({best_val}) and "
        "has since risen to {last_val}."
    ),
    "gap_grows": say_n(
        "The gap between the validation loss and the training loss, here that of the step before, grew by {gap_trend} "
        "in the second half of the run; the validation loss has not turned up.",
        "The gap between the validation loss and the training loss, here the mean of the last {train_steps} steps, "
        "grew by {gap_trend} in the second half of the run; the validation loss has not turned up.",
        count="train_steps",
    )
    | say(
        "The gap between validation and training loss grew by {gap_trend} in the second half of the run, to {gap}; the "
        "validation loss has not turned up."
    ),
    "best_not_saved": say(
        "The best validation loss ({best_val} at iteration {best_val_iteration}) was not saved as a checkpoint."
    ),
    "loss_diverged": say(
        "The first loss in this log, at iteration {first}, is already NaN or infinite. Check the initial weights, the "
        "data and the precision, and lower learning_rate."
    )
    | say(
        "The loss diverged at iteration {iteration}. Go back to an earlier checkpoint, with a lower learning_rate or "
        "a longer warm-up."
    ),
    "forecast": say(
        "If the trend holds, the validation loss at iteration {iteration} will be about {loss} (80% interval {low} to "
        "{high})."
    ),
    "final_loss": say(
        "By the end of the run, at iteration {iteration}, the validation loss should reach about {loss} (80% interval "
        "{low} to {high}). This includes the drop to expect while the learning rate falls."
    ),
    "forecast_withheld": say(
        "No forecast of the validation loss: while the learning rate falls, the loss drops below its trend, and by how "
        "much is not known for a run like this."
    ),
}
