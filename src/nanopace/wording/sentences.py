"""What each finding says, in English; the catalogues have the other languages.

A sentence says what is so and what to do about it, in words for people who train models and do not study clocks. It
blames nobody, and says "unknown" where something is. Codes and the names of their numbers are those of
diagnosis/codes.py; a test holds the two tables together.
"""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.advice import ADVICE
from nanopace.wording.comparisons import COMPARISONS
from nanopace.wording.template import Sentence, say, say_n
from nanopace.wording.utilisation import UTILISATION

SENTENCES: Mapping[str, Sentence] = {
    # --- how the log was read
    "many_runs": say("This file holds {runs} runs; only the first and the last ones are read."),
    "other_ranks": say_n(
        "{ranks} ranks print into this log. Rank {rank} is explained; {rows} row of the others is left out.",
        "{ranks} ranks print into this log. Rank {rank} is explained; {rows} rows of the others are left out.",
        count="rows",
    ),
    "interleaved_processes": say_n(
        "Several processes printed into this log at the same time, and their rows are mixed. One process is explained; "
        "{rows} row of the others is left out.",
        "Several processes printed into this log at the same time, and their rows are mixed. One process is explained; "
        "{rows} rows of the others are left out.",
        count="rows",
    ),
    "quoted_log": say("{log_lines} of {lines} lines are a training log; the rest is text around it.")
    | say_n(
        "This file quotes {rows} row of a log; it is not a log itself.",
        "This file quotes {rows} rows of a log; it is not a log itself.",
        count="rows",
    ),
    "log_truncated": say(
        "The compressed file is truncated: it could be read up to iteration {last_iteration}, and what follows is "
        "missing."
    ),
    "unread_evaluations": say_n(
        "{count} line looks like an evaluation but could not be read, so it is missing below. It is line {line}: "
        "“{line_text}”.",
        "{count} lines look like evaluations but could not be read, so they are missing below. The first is line "
        "{line}: “{line_text}”.",
        count="count",
    ),
    "untimed_log": say(
        "This log prints no step times, so only its loss can be explained. The run took {total_s}: {mean_step_s} for "
        "each step on average, with everything but evaluations."
    )
    | say("This log prints no step times, so only its loss can be explained. The run took {total_s}.")
    | say("This log prints no step times, so only its loss can be explained."),
    "rows_cover_several": say(
        "The time of a row covers {iterations} iterations here, not one: {shown_by}. All times below are per iteration."
    )
    | say(
        "The time of a row covers all iterations since the row before: {shown_by}. All times below are per iteration."
    ),
    "clock_set_to_zero": say(
        "The trainer set its clock to zero after iteration {iteration}: its final time leaves out the {left_out_s} "
        "before that, which are counted here."
    ),
    "rows_ahead_of_gpu": say(
        "The clock of a row does not wait for the GPU; at an evaluation it does, for {wait_ms} on average. This wait "
        "is given back to the rows that are short by it, so single rows are estimates, and their sums are exact."
    ),
    "batch_scheduled": say(
        "The batch changes during the run, from {smallest} to {largest} tokens as the code in the log says: a step "
        "takes longer where the batch is larger, and tokens per second are not computed."
    ),
    "layers_repeated": say(
        "From iteration {iteration} on some layers are computed several times, as the log says: a step takes longer."
    ),
    "attention_scheduled": say(
        "The window of the attention changes during the run, as the code in the log says: a step takes longer where it "
        "is wider."
    ),
    "counts_from_one": say(
        "{trainer} counts its steps from 1; here iterations are counted from 0, so its step 1 is iteration 0."
    ),
    "rate_per_gpu": say(
        "The tokens per second that are printed ({per_gpu}) are those of one GPU; all {gpus} together do {total}."
    )
    | say(
        "The tokens per second that are printed ({per_gpu}) are those of one GPU, and the log does not say how many "
        "there were."
    ),
    "rate_wrong": say(
        "The printed “Tok/sec” ({printed}) is wrong: this trainer divides by a time stamp. {tokens} tokens in "
        "{training_s} are {rate} per second."
    ),
    "iterations_are_micro_batches": say(
        "This log counts micro-batches: {per_step} of them make one update of the weights. What is called a step "
        "below is one micro-batch."
    ),
    "whole_seconds": say(
        "The clock of this log shows whole seconds: a single row is known to about a second, and rows that it cannot "
        "tell apart are given their mean."
    ),
    "rate_with_evaluations": say(
        "The {printed} steps per second that are printed at the end count evaluation as training: {evaluation_s} of "
        "{runtime_s}."
    ),
    "tracked_series": say("The training loss is the series “{train}”, the validation loss “{validation}”.")
    | say("The training loss is the series “{train}”; none is surely the validation loss."),
    # --- slow rows
    "evaluation_rows": say_n(
        "{slow} of {rows} rows is slow, and it is not slow training: its time contains evaluation and saving "
        "({each_s}, every {interval} iterations). That costs {overhead_s}, {overhead_share} of the wall clock.",
        "{slow} of {rows} rows are slow, and none of them is slow training: their time contains evaluation and saving "
        "({each_s} each, every {interval} iterations). That costs {overhead_s}, {overhead_share} of the wall clock.",
        count="slow",
    )
    | say_n(
        "{slow} of {rows} rows is slow, and it is not slow training: its time contains evaluation and saving "
        "({each_s}). That costs {overhead_s}, {overhead_share} of the wall clock.",
        "{slow} of {rows} rows are slow, and none of them is slow training: their time contains evaluation and saving "
        "({each_s} each). That costs {overhead_s}, {overhead_share} of the wall clock.",
        count="slow",
    ),
    "checkpoint_measured": say(
        "Rows with a save ({saved_rows}) against rows without ({unsaved_rows}): the evaluation takes {evaluation_s}, "
        "the checkpoint {checkpoint_s} (80% interval {checkpoint_low_s} to {checkpoint_high_s}). The checkpoint is "
        "about {checkpoint_share} of the delay."
    )
    | say(
        "Rows with a save ({saved_rows}) against rows without ({unsaved_rows}): the evaluation takes {evaluation_s}, "
        "the checkpoint {checkpoint_s}. The checkpoint is {checkpoint_share} of the delay."
    ),
    "checkpoint_stamped": say(
        "By the time stamps of its lines, an evaluation takes {evaluation_s} and a checkpoint {checkpoint_s} (80% "
        "interval {checkpoint_low_s} to {checkpoint_high_s})."
    )
    | say("By the time stamps of its lines, an evaluation takes {evaluation_s} and a checkpoint {checkpoint_s}."),
    "checkpoint_within_scatter": say(
        "Rows with a save ({saved_rows}) and rows without ({unsaved_rows}) take the same within their scatter: the "
        "evaluation takes {evaluation_s}, a checkpoint {checkpoint_s} at most."
    ),
    "checkpoint_few_saves": say(
        "Too few rows have a save ({saved_rows}, against {unsaved_rows} without) to time a checkpoint: the evaluation "
        "takes {evaluation_s}, a checkpoint {checkpoint_s} at most."
    ),
    "save_in_doubt": say_n(
        "{saved_rows} row with a save took {longer_s} longer than an evaluation without one ({evaluation_s}). One row "
        "does not tell whether a checkpoint takes that long or something held it up.",
        "{saved_rows} rows with a save took {longer_s} longer in all than evaluations without one ({evaluation_s} "
        "each). So few rows do not tell whether a checkpoint takes that long or something held them up.",
        count="saved_rows",
    ),
    "checkpoint_other_speed": say(
        "Rows with a save ({saved_rows}) and rows without ({unsaved_rows}) differ in more than the save, so what "
        "a checkpoint takes cannot be told from them."
    ),
    "checkpoint_at_least": say(
        "Evaluation and checkpoint take {spike_s} together. The first row evaluates and does not save, and took less: "
        "a checkpoint takes {checkpoint_s} at least."
    ),
    "checkpoint_bounded": say(
        "Every evaluation row also saves, so the two cannot be timed apart. Of the delay of {spike_s}, the evaluation "
        "should take about {predicted_s}; a checkpoint takes {checkpoint_s} at most."
    ),
    "checkpoint_unknown": say(
        "Evaluation and checkpoint take {spike_s} together, less than the {predicted_s} expected of the evaluation "
        "alone: the checkpoint is small, but nothing here bounds it."
    )
    | say(
        "Evaluation and checkpoint take {spike_s} together, and this log cannot tell them apart. With --config FILE "
        "or --set eval_iters=N the evaluation can be estimated."
    ),
    "checkpoint_not_first": say(
        "There is no checkpoint in the first row ({total_s}): none is written before training."
    ),
    "startup": say(
        "Iteration {iteration} took {total_s}: first evaluation {evaluation_s}, compile and warm-up {compile_s}, "
        "the step itself {step_s}. This happens once per start."
    ),
    "startup_compile": say(
        "Iteration {iteration} took {total_s} instead of {step_s}: compile and warm-up. This happens once per start."
    ),
    "startup_of_several": say(
        "The first {iterations} iterations took {total_s} instead of {step_s}: compile and warm-up. This happens once "
        "per start."
    ),
    "startup_bounded": say(
        "Iteration {iteration} took {total_s}: the first evaluation at most {evaluation_s}, as much as later ones take "
        "with their checkpoint, so compile and warm-up at least {compile_s}; the step itself {step_s}. This happens "
        "once per start."
    ),
    "startup_together": say(
        "Iteration {iteration} took {total_s} instead of {step_s}: the first evaluation and the warm-up (with compile, "
        "if that is on), which this log cannot tell apart. This happens once per start."
    ),
    "startup_unsplit": say(
        "Iteration {iteration} took {total_s} instead of {step_s}: compile, warm-up and, if there was one, the first "
        "evaluation. This happens once per start."
    ),
    "hidden_evaluations": say_n(
        "{hidden} of {count} evaluations falls between two rows (log_interval {log_interval}, eval_interval "
        "{eval_interval}), so no row shows it. The wall clock here contains its {hidden_s}.",
        "{hidden} of {count} evaluations fall between the rows (log_interval {log_interval}, eval_interval "
        "{eval_interval}), so no row shows them. The wall clock here contains their {hidden_s}.",
        count="hidden",
    )
    | say("Between the rows, so that none shows them: {hidden} of {count} evaluations, {hidden_s} in all."),
    "align_log_interval": say(
        "Choose log_interval (now {log_interval}) so that it divides eval_interval ({eval_interval}): then the log "
        "shows every evaluation."
    ),
    "after_last_row": say(
        "After the last row the log has an evaluation, at iteration {iteration}. The wall clock here contains its "
        "{after_s}, estimated from the others."
    ),
    "gap_between_rows": say_n(
        "The time stamps show {largest_s} before iteration {iteration} that no row contains. What happened there is "
        "unknown.",
        "The time stamps show {total_s} in {count} places that no row contains, most before iteration {iteration} "
        "({largest_s}). What happened there is unknown.",
        count="count",
    ),
    "hidden_unpriced": say(
        "Hidden between the rows: {hidden} of {count} evaluations. No row, or only one, shows what one like them "
        "costs. "
        "A log_interval that divides eval_interval would show it."
    ),
    "evaluation_with_samples": say(
        "{trainer}'s clock runs on during validation, HellaSwag and samples, and while it saves, which it does not "
        "print. All of that together is called evaluation here."
    ),
    "evaluations_outside_clock": say(
        "This trainer stops its clock for evaluations ({count} here): no row is slow because of them, and the log does "
        "not say how long they take."
    ),
    "periodic_stalls": say(
        "Every {interval} iterations a row is slower by {each_s} without an evaluation ({rows} rows, {total_s} in all, "
        "{total_share} of the wall clock). Something recurs there: logging, sampling, data shards or a job beside it."
    ),
    "stalls": say_n(
        "{rows} row was held up for no reason that the log names: by {largest_s} at iteration {iteration}, "
        "{total_share} of the wall clock. Usual reasons: data loading, the disk, another program beside it.",
        "{rows} rows were held up for no reason that the log names: {total_s} in all, {total_share} of the wall clock, "
        "most at iteration {iteration} ({largest_s}). Usual reasons: data loading, the disk, another program beside "
        "it.",
        count="rows",
    ),
    "long_events": say_n(
        "One evaluation or checkpoint took {largest_s} longer than the others, at iteration {iteration}: something "
        "held it up, and it counts among the stalls of the wall clock.",
        "{count} evaluations or checkpoints took far longer than the others: {total_s} more in all, most at iteration "
        "{iteration} ({largest_s}). Something held them up, and they count among the stalls of the wall clock.",
        count="count",
    ),
    "uneven_rows": say(
        "{rows} of the {normal_rows} normal rows took longer ({excess_share}), {total_s} in all: too little to list, "
        "and among the stalls of the wall clock."
    ),
    "level_shift": say(
        "From iteration {iteration} on a step takes {after_ms} instead of {before_ms} ({change_share}). A card that "
        "changes its clock with its temperature or another program on it is the usual reason: watch nvidia-smi."
    ),
    "level_shift_scheduled": say(
        "From iteration {iteration} on a step takes {after_ms} instead of {before_ms} ({change_share}). This "
        "trainer changes what a step does as the run goes on, so it need not be another speed."
    ),
    "level_shift_at_power_limit": say(
        "From iteration {iteration} on a step takes {after_ms} instead of {before_ms} ({change_share}). The card was "
        "at its power limit in {at_limit} of {samples} samples: there its clock, and the speed with it, moves with its "
        "temperature."
    ),
    "level_shift_at_nan": say(
        "From iteration {iteration} on a step takes {after_ms} instead of {before_ms} ({change_share}). The loss "
        "became NaN or infinite at iteration {nan_iteration}, so this says nothing about the card: steps whose update "
        "is skipped take less time."
    ),
    "level_shift_at_batch": say(
        "From iteration {iteration} on a step takes {after_ms} instead of {before_ms} ({change_share}). By its printed "
        "mfu it also does {work_ratio} times as much work: another batch size, not another speed."
    ),
    "level_shift_at_restart": say(
        "From iteration {iteration} on a step takes {after_ms} instead of {before_ms} ({change_share}). Training was "
        "restarted at iteration {restart_iteration}: other settings, another machine or another program on the card "
        "may be the reason."
    ),
    "slow_beginning": say(
        "The first {iterations} iterations were {ratio} times slower ({before_ms} instead of {after_ms} a step), which "
        "cost {lost_s}. Usual reasons: warm-up, a cold file cache, another program running alongside."
    ),
    "pace_changes": say(
        "The step time changed {changes} times, between {fastest_ms} and {slowest_ms}. At its fastest throughout, the "
        "run would have been {lost_s} shorter."
    ),
    "cpu_pace": say_n(
        "The time of a step changed {changes} time, between {fastest_ms} and {slowest_ms}: other programs are on this "
        "CPU, too.",
        "The time of a step changed {changes} times, between {fastest_ms} and {slowest_ms}: other programs are on this "
        "CPU, too.",
        count="changes",
    ),
    "memory_spill": say(
        "From iteration {iteration} on a step takes {ratio} times as long ({after_ms} instead of {before_ms}). That is "
        "typical of full GPU memory spilling into main memory: try a smaller batch_size with more "
        "gradient_accumulation_steps."
    ),
    "drift": say(
        "The step time changed gradually over the run: {first_ms} in the first fifth, {last_ms} in the last "
        "({change_share})."
    ),
    "slower_as_scheduled": say(
        "Steps became slower over the run: {first_ms} in the first fifth, {last_ms} in the last ({change_share}). "
        "This trainer changes what a step does as the run goes on, so it need not be another speed."
    ),
    "slower_at_the_end": say(
        "Steps became slower over the run: {first_ms} in the first fifth, {last_ms} in the last ({change_share}). "
        "Usual reasons: heat, or another program running alongside."
    ),
    "faster_at_the_end": say(
        "Steps became faster over the run: {first_ms} in the first fifth, {last_ms} in the last ({change_share})."
    ),
    "no_plain_row": say_n(
        "The log has {rows} row, and it contains an evaluation or the start-up: how long a step takes is unknown.",
        "Each of the {rows} rows contains an evaluation or the start-up, so how long a step takes is unknown. A "
        "smaller log_interval would show plain steps.",
        count="rows",
    ),
    "restarts": say_n(
        "Training was restarted once; iterations done twice: {lost_iterations}. With the new start-up this cost "
        "{lost_s}.",
        "Training was restarted {count} times; iterations done twice: {lost_iterations}. With the new start-ups this "
        "cost {lost_s}.",
        count="count",
    ),
    "suspended": say_n(
        "The run was suspended once, for {suspended_s}: the machine slept, or somebody pressed Ctrl-Z. That is no slow "
        "training.",
        "The run was suspended {count} times, {suspended_s} in all: the machine slept, or somebody pressed Ctrl-Z. "
        "That is no slow training.",
        count="count",
    ),
    "data_stalls": say_n(
        "Training waited once for data: {largest_s} at iteration {iteration}, {total_share} of the wall clock. Usual "
        "reasons: a slow or busy disk, a network drive.",
        "Training waited {count} times for data: {total_s} in all, {total_share} of the wall clock, most at iteration "
        "{iteration} ({largest_s}). Usual reasons: a slow or busy disk, a network drive.",
        count="count",
    ),
    "rollbacks": say_n(
        "The loss was not finite any more, so training went back from iteration {failed_at} to {iteration} and met "
        "other data. Iterations done twice: {lost_iterations}; this cost {lost_s}.",
        "The loss was not finite any more, so training went back {count} times, at last from iteration {failed_at} to "
        "{iteration}, and met other data. Iterations done twice: {lost_iterations}; this cost {lost_s}.",
        count="count",
    ),
    "micro_batch_reduced": say(
        "Memory was full at iteration {iteration}: since then a micro-batch is {to_batch} sequences instead of "
        "{from_batch}, and {to_accumulation} of them make a step. The tokens per step are the same, and no step was "
        "lost."
    )
    | say(
        "Memory was full at iteration {iteration}: since then a micro-batch is {to_batch} sequences, and "
        "{to_accumulation} of them make a step. The tokens per step are the same, and no step was lost."
    ),
    "micro_batch_reduced_at_start": say(
        "Memory was full at the start: a micro-batch is {to_batch} sequences instead of {from_batch}, and "
        "{to_accumulation} of them make a step. The tokens per step are the same."
    )
    | say(
        "Memory was full at the start: a micro-batch is {to_batch} sequences, and {to_accumulation} of them make a "
        "step. The tokens per step are the same."
    ),
    "micro_batch_reduced_in_evaluation": say(
        "Memory was full in the evaluation of iteration {iteration}: since then evaluations look at {to_batch} "
        "sequences at a time instead of {from_batch}. Their results are the same."
    )
    | say(
        "Memory was full in the evaluation of iteration {iteration}: since then evaluations look at {to_batch} "
        "sequences at a time. Their results are the same."
    ),
    "straggler": say(
        "Rank {rank} is the slowest in {slowest_share} of the steps; its own work takes {lag_share} longer, and the "
        "others wait for it."
    ),
    "ended_diverged": say(
        "Training was stopped after iteration {last_iteration}: the loss was not finite again and again, with other "
        "data, too. The run's directory holds the evidence (evidence-step-N) and the last good checkpoint."
    ),
    "ended_out_of_memory": say(
        "The run ran out of memory after iteration {last_iteration}. A smaller batch_size with more "
        "gradient_accumulation_steps needs less and trains on the same tokens per iteration."
    ),
    "ended_error": say("The run ended with an error after iteration {last_iteration}; the end of the log names it."),
    "ended_interrupted": say("The run was interrupted after iteration {last_iteration}."),
    "conflict": say("{knob} is given as {used} and as {other}; {used} is used here."),
    "untimed_sft": say_n(
        "The log goes on with one row of fine-tuning (SFT) that has no time, and is not part of this.",
        "The log goes on with {rows} rows of fine-tuning (SFT) that have no time, and are not part of this.",
        count="rows",
    ),
    "untimed_rl": say_n(
        "The log goes on with one row of reinforcement learning that has no time, and is not part of this.",
        "The log goes on with {rows} rows of reinforcement learning that have no time, and are not part of this.",
        count="rows",
    ),
    # --- loss
    "skipped_steps": say_n(
        "One step was skipped because its loss or gradient was not finite (iteration {iterations}). The weights stayed "
        "as they were.",
        "{count} steps were skipped because their loss or gradient was not finite (streaks: {streaks}; iterations "
        "{iterations}). The weights stayed as they were.",
        count="count",
    ),
    "loss_spikes": say_n(
        "The loss jumped once, at iteration {iteration}: {largest_z} standard deviations above the steps before it. "
        "That does no harm if it comes back.",
        "The loss jumped {count} times, most at iteration {iteration}: {largest_z} standard deviations above the steps "
        "before it. That does no harm if it comes back each time.",
        count="count",
    ),
    "training_loss_course": say_n(
        "The training loss went from {first_loss} in the first row to {last_loss} in the last.",
        "The training loss went from {first_loss} to {last_loss}, both the mean of {rows} rows.",
        count="rows",
    ),
    "core_metric": say(
        "{score} is {core} at iteration {core_iteration}; its best was {best_core}, at iteration {best_core_iteration}."
    )
    | say("{score} is {core} at iteration {core_iteration}, its best so far."),
    "loss_noise": say_n(
        "The loss on each row is of one micro-batch and scatters by ±{noise}; the evaluations tell more.",
        "The loss on each row is of the last of {accumulation} micro-batches and scatters by ±{noise}; the evaluations "
        "tell more.",
        count="accumulation",
    )
    | say("The loss on each row scatters by ±{noise}; the evaluations tell more."),
    "overfitting": say_n(
        "The model is over-fitting: validation was best at iteration {best_val_iteration} ({best_val}) and has risen "
        "to {last_val} since, while the training loss, here that of the last step, has not followed.",
        "The model is over-fitting: validation was best at iteration {best_val_iteration} ({best_val}) and has risen "
        "to {last_val} since, while the training loss, here the mean of the last {train_steps} steps, has not "
        "followed.",
        count="train_steps",
    )
    | say(
        "The model is over-fitting: validation was best at iteration {best_val_iteration} ({best_val}) and has risen "
        "to {last_val} since."
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
        "The loss diverged at iteration {iteration}. Go back to a checkpoint before it, with a lower learning_rate or "
        "a longer warm-up."
    ),
    "forecast": say(
        "If the trend holds, the validation loss at iteration {iteration} will be about {loss} (80% interval {low} to "
        "{high})."
    ),
    # --- the card, comparing runs, and what to change, in modules of their own
    **UTILISATION,
    **COMPARISONS,
    **ADVICE,
}
