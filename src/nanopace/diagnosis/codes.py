"""Every finding, with the numbers it carries.

Add a new finding here first; a test then asks for its sentence in every language. The suffix of a number is its unit:
`_s` seconds, `_ms` milliseconds, `_share` and names like `mfu` a fraction, `_tflops` TFLOP/s; `_kwh`, `_watts`, `_mhz`
and `_celsius` are plain. A name without a suffix is a count, an iteration, a loss or a name. A number is None only
where the comment allows it.
"""

from __future__ import annotations

from collections.abc import Mapping

_APART = ("evaluation_s", "checkpoint_s")
_ROWS = ("saved_rows", "unsaved_rows")
_END = ("run", "other", "iteration", "loss", "low", "high", "other_loss")  # where a run will end
_SOONER = ("sooner", "later", "target_loss", "sooner_s", "later_s")  # two runs reaching the same loss

# lost_s: the cost of the change for as long as it lasted; 0 if the steps became faster
_SHIFT = ("iteration", "before_ms", "after_ms", "change_share", "lost_s")
_FIFTHS = ("first_ms", "last_ms", "change_share", "lost_s")  # in the first and the last fifth of the run

# Additional keys for trainers that do not use nanoGPT's knobs (see other_trainers.py): `elsewhere` is True, `compile`
# is what may be off, `knobs` can be passed by --set, `flag` names the card. Each is present only if known.
ELSEWHERE = ("elsewhere", "compile", "knobs", "flag")

FINDINGS: Mapping[str, tuple[str, ...]] = {
    # --- how the log was read
    "many_runs": ("runs",),  # in the file; only some of them are read
    "other_ranks": ("rank", "ranks", "rows"),  # the rank that is read, the number of ranks, and the rows of the others
    "interleaved_processes": ("rows",),  # from other processes, mixed with those of the one that is read
    "quoted_log": ("log_lines", "lines", "rows"),  # the first two, or the last, may be None
    "log_truncated": ("last_iteration",),  # the compressed file ends before its log does
    "unread_evaluations": ("count", "line", "line_text"),  # line: number of the first; line_text: shortened
    # A printed time covers this many iterations, or, if None, all since the row before; shown_by: a code of run.py.
    "rows_cover_several": ("iterations", "shown_by"),
    "clock_set_to_zero": ("iteration", "left_out_s"),  # after this iteration; the trainer's final time leaves it out
    "rows_ahead_of_gpu": ("wait_ms",),  # for the GPU, at each evaluation: the rows' times do not wait for it
    "batch_scheduled": ("smallest", "largest"),  # tokens per step
    "layers_repeated": ("iteration",),  # from here on, some layers are computed several times
    "attention_scheduled": (),  # the attention window changes during the run
    "counts_from_one": ("trainer",),  # for its steps; iterations count from 0
    "rate_per_gpu": ("per_gpu", "gpus", "total"),  # printed tokens per second; gpus and total may be None
    "rate_wrong": ("printed", "tokens", "training_s", "rate"),  # tokens per second at the end; rate: the right value
    "iterations_are_micro_batches": ("per_step",),
    "bar_hides_time": ("bar_s", "gap_s"),  # per step: as the progress bar estimates it, and as it moved on
    "whole_seconds": (),  # the log's times have no fractions
    "rate_with_evaluations": ("printed", "evaluation_s", "runtime_s"),  # printed: steps per second
    "tracked_series": ("train", "validation"),  # the tracker's series that is each loss; validation may be None
    "seconds_as_ms": ("batch", "printed_ms", "step_s"),
    # For a log without step times. total_s may be None, and so may mean_step_s, which leaves out evaluations.
    "untimed_log": ("rows", "total_s", "mean_step_s"),
    # --- slow rows
    "evaluation_rows": ("slow", "rows", "interval", "each_s", "overhead_s", "overhead_share"),  # interval may be None
    # checkpoint_low_s and checkpoint_high_s: the 80% interval, None if it is narrow
    "checkpoint_measured": (*_APART, "checkpoint_low_s", "checkpoint_high_s", "checkpoint_share", *_ROWS),
    "checkpoint_stamped": (*_APART, "checkpoint_low_s", "checkpoint_high_s"),  # from the lines' time stamps
    "checkpoint_within_scatter": (*_APART, *_ROWS),  # checkpoint_s: at most
    "checkpoint_few_saves": (*_APART, *_ROWS),  # checkpoint_s: at most, because the few rows may have been slow anyway
    # The few rows with a save took longer_s more in total than the others, because of the save or of something else.
    "save_in_doubt": ("saved_rows", "evaluation_s", "longer_s"),
    "checkpoint_other_speed": _ROWS,  # the rows with a save and those without are at different speeds
    "checkpoint_few_without": _ROWS,  # the few rows without a save may have been slow anyway
    "checkpoint_at_least": ("spike_s", "checkpoint_s"),  # because the first row limits the evaluation's cost
    "checkpoint_bounded": ("spike_s", "predicted_s", "checkpoint_s"),  # checkpoint_s: at most
    "checkpoint_unknown": ("spike_s", "predicted_s"),  # predicted_s may be None
    "checkpoint_not_first": ("total_s",),  # the first row contains no checkpoint
    "startup": ("iteration", "total_s", "evaluation_s", "compile_s", "step_s"),
    "startup_compile": ("iteration", "total_s", "step_s"),  # if no evaluation is included
    "startup_of_several": ("iterations", "total_s", "step_s"),  # the same, if the first row covers several
    "startup_bounded": ("iteration", "total_s", "evaluation_s", "compile_s", "step_s"),  # at most and at least
    "startup_together": ("iteration", "total_s", "step_s"),  # together with an evaluation of unknown cost
    "startup_unsplit": ("iteration", "total_s", "step_s"),  # the log shows no evaluation
    "hidden_evaluations": ("hidden", "count", "log_interval", "eval_interval", "hidden_s"),
    "align_log_interval": ("log_interval", "eval_interval"),  # this would show them
    "after_last_row": ("iteration", "after_s"),  # an evaluation and its checkpoint
    "gap_between_rows": ("count", "total_s", "largest_s", "iteration"),  # only the time stamps show it
    "hidden_unpriced": ("hidden", "count"),  # none is visible, so the cost is unknown
    "hidden_in_doubt": ("hidden", "count", "low_s", "high_s"),  # the few rows with a save are in doubt
    "evaluation_with_samples": ("trainer",),  # its evaluations include more
    # This trainer stops its clock for evaluations: `count` have no time, `timed` a printed one (None: all have none).
    "evaluations_outside_clock": ("count", "timed", "timed_s"),
    "periodic_stalls": ("rows", "interval", "each_s", "total_s", "total_share"),
    "stalls": ("rows", "largest_s", "iteration", "total_s", "total_share"),
    "fetch_stalls": ("rows", "largest_s", "iteration", "total_s", "total_share", "fetch_share"),  # of all rows
    "long_events": ("count", "total_s", "largest_s", "iteration"),  # evaluations and checkpoints outside the rows
    "uneven_rows": ("rows", "normal_rows", "excess_share", "total_s"),
    "level_shift": _SHIFT,
    "level_shift_scheduled": _SHIFT,  # in a run whose steps grow on schedule
    "level_shift_at_power_limit": (*_SHIFT, "at_limit", "samples"),
    "level_shift_at_nan": (*_SHIFT, "nan_iteration"),
    "level_shift_at_batch": (*_SHIFT, "work_ratio"),  # mfu x time changed as much as time: so did the tokens
    "level_shift_at_restart": (*_SHIFT, "restart_iteration"),
    "slow_beginning": ("iterations", "before_ms", "after_ms", "ratio", "lost_s"),
    "pace_changes": ("changes", "fastest_ms", "slowest_ms", "lost_s"),  # many level shifts; the most expensive follows
    "cpu_pace": ("changes", "fastest_ms", "slowest_ms"),  # level shifts of a run on the CPU
    "memory_spill": (*_SHIFT, "ratio"),  # a level shift of 1.8 x and more
    "drift": (*_FIFTHS, "drift_share"),
    "slower_as_scheduled": _FIFTHS,
    "slower_at_the_end": _FIFTHS,
    "faster_at_the_end": _FIFTHS,
    "no_plain_row": ("rows",),  # each contains an evaluation or the start-up, so the step time is unknown
    "restarts": ("count", "lost_iterations", "lost_s"),
    "restarts_untimed": ("count", "lost_iterations"),  # in a log without times; None if none was repeated
    "suspended": ("count", "suspended_s"),  # the machine slept
    "data_stalls": ("count", "total_s", "total_share", "largest_s", "iteration"),  # reported by the trainer
    "rollbacks": ("count", "failed_at", "iteration", "lost_iterations", "lost_s"),  # from and to, for the last
    "micro_batch_reduced": ("iteration", "from_batch", "to_batch", "to_accumulation"),  # from_batch may be None
    "micro_batch_reduced_at_start": ("from_batch", "to_batch", "to_accumulation"),  # from_batch may be None
    "micro_batch_reduced_in_evaluation": ("iteration", "from_batch", "to_batch"),  # from_batch may be None
    "straggler": ("rank", "slowest_share", "lag_share"),
    "ended_out_of_memory": ("last_iteration",),
    "ended_diverged": ("last_iteration",),
    "ended_corrupted": ("last_iteration",),
    "ended_error": ("last_iteration",),
    "ended_interrupted": ("last_iteration",),
    "conflict": ("knob", "used", "other"),
    "untimed_sft": ("rows",),
    "untimed_rl": ("rows",),
    # --- mfu
    "mfu_smoothed": ("printed_last", "steady_printed"),
    "mfu_smoothed_and_slower": ("printed_last", "steady_printed", "first_ms", "last_ms", "change_share"),
    "mfu_smoothed_only": ("printed_last", "steady_printed"),  # makes no claim about the speed
    "mfu_disagrees": ("steady_printed", "computed_mfu"),  # computed_mfu: from FLOPs, tokens and step time
    "mfu_other_card": ("steady_printed", "printed_peak_tflops", "card", "card_name", "card_tflops"),
    "mfu_card_unknown": ("achieved_tflops", "steady_printed", "printed_peak_tflops"),
    "gpus_unknown": (),  # TFLOP/s are the total of all GPUs
    "mfu_causal": ("trainer",),  # its printed mfu counts half of the attention's FLOPs
    "ran_on_cpu": (),
    "mfu_unknown": ("missing",),  # the missing facts, as a list of knobs
    "mfu_over_100": ("steady_printed", "printed_peak_tflops", "achieved_tflops"),
    "mfu_zero": ("achieved_tflops", "printed_peak_tflops"),  # achieved_tflops may be None
    "card_without_peak": ("card_name",),
    "card_variants": (
        *("card_name", "card_low", "fast_card_name", "fast_tflops", "card_high", "slow_card_name", "slow_tflops"),
    ),
    "dtype_float32": ("card_tflops", "card_precision"),
    "card_above_peak": ("card", "card_name", "card_tflops"),
    "utilisation_measured": ("measured_share", "measured_tflops", "card_name"),  # of the peak that tune measured
    "utilisation_near_limit": ("card", "card_name"),
    "utilisation_good": ("card", "card_name"),
    # at_limit: the samples at the power limit; the last two may be None
    "utilisation_power_limited": ("card", "card_name", "at_limit", "samples", "limited_watts", "limited_mhz"),
    "utilisation_half_idle": ("card", "card_name"),
    "utilisation_mostly_idle": ("card", "card_name"),
    "throttled_heat": ("throttled_share", "highest_celsius"),  # highest_celsius may be None
    "throttled_hardware": ("throttled_share",),
    "throttled_power": ("throttled_share", "median_watts", "median_mhz"),  # the last two may be None
    "energy": ("energy_kwh", "mean_watts"),  # mean_watts may be None
    "tokens_unknown": ("missing",),
    "rate_smoothed": ("trainer",),  # its printed tokens per second are a moving average
    "printed_rate_wrong": ("printed_batch", "batch"),  # in tokens
    # --- loss
    "skipped_steps": ("count", "streaks", "iterations"),  # iterations: a list of the first ones
    "loss_spikes": ("count", "largest_z", "iteration"),  # largest_z: in standard deviations
    "training_loss_course": ("first_loss", "last_loss", "rows"),  # means over this many rows
    "core_metric": ("score", "core", "core_iteration", "best_core", "best_core_iteration"),  # the last two may be None
    "loss_noise": ("noise", "accumulation"),  # accumulation may be None
    # train_steps: the training loss is the mean of this many steps; None if measured like validation. gap_trend may be
    # None.
    "overfitting": ("gap", "gap_trend", "train_steps", "best_val", "best_val_iteration", "last_val"),
    "gap_grows": ("gap", "gap_trend", "train_steps"),  # while the validation loss is still at its best
    "best_not_saved": ("best_val", "best_val_iteration"),
    "loss_diverged": ("iteration", "first"),  # first: the same iteration if no loss before it is finite, else None
    "forecast": ("iteration", "loss", "low", "high"),
    "final_loss": ("iteration", "loss", "low", "high"),  # at the end of the learning rate's schedule
    "forecast_withheld": (),  # the trend would be too high: the learning rate falls
    # --- advice
    "raise_eval_interval": ("from_interval", "to_interval", "evaluations"),  # evaluations: how many remain
    "lower_eval_iters": ("from_iters", "to_iters", "noise_factor"),
    "lower_eval_iters_unknown": ("factor", "noise_factor"),  # eval_iters is unknown: divide it by factor
    "save_less_often": ("checkpoints", "to_checkpoints"),
    "use_float16": ("card_name", "dtype"),  # dtype may be None
    "turn_on_compile": (),
    "larger_micro_batch": ("from_batch", "to_batch", "to_accumulation"),
    "find_the_stall": ("interval",),  # interval may be None
    "find_the_straggler": ("rank",),
    "smaller_micro_batch": ("to_batch", "to_accumulation"),
    "leave_float16": (),
    "calm_the_loss": ("learning_rate",),  # learning_rate may be None
    "nothing_to_change": ("overhead_share",),
    # --- comparing
    "compare_speed": ("faster", "slower", "faster_tokens_per_s", "slower_tokens_per_s", "slower_share"),
    "compare_speed_equal": ("tokens_per_s",),
    "compare_speed_unclear": ("faster", "slower", "faster_tokens_per_s", "slower_tokens_per_s"),  # by their medians
    "compare_speed_unknown": ("missing",),
    "compare_untimed": ("run",),  # its log has no step times
    "compare_both_untimed": (),
    "compare_step_unknown": ("run",),  # none of its rows is a plain step
    "compare_time_per_iteration": ("faster", "slower", "faster_ms", "slower_ms"),  # if tokens are unknown
    # Each is its factor on tokens/s, minus 1; gpu_count_share is None if the counts are equal or one is unknown.
    "compare_why": ("flops_per_token_share", "gpu_count_share", "utilisation_share", "peak_share"),
    "compare_why_unknown_peak": ("flops_per_token_share", "gpu_count_share", "utilisation_share"),
    "compare_overall": ("faster", "slower", "faster_overall_tokens_per_s", "slower_overall_tokens_per_s"),  # by step
    "compare_stretch": ("run", "first_iteration", "last_iteration", "ratio"),  # ratio: to its normal step
    "compare_time_share": ("run", "phase", "time_share"),
    # The comparison of losses only holds if the data is the same; target_metric: if it is in bits per byte alone.
    "compare_data_unknown": ("target_metric",),
    "compare_loss_tokens": ("better", "worse", "tokens", "better_loss", "worse_loss"),
    "compare_loss_iterations": ("better", "worse", "iteration", "better_loss", "worse_loss"),
    "compare_crossover": ("early", "late", "crossover_s"),
    "compare_crossover_best": ("early", "late", "crossover_s"),  # the later leader's loss has risen since
    "compare_leads_time": ("leader", "follower", "at_s", "leader_loss", "follower_loss"),
    "compare_loss_equal": ("better_loss", "worse_loss"),  # at the end of the stretch they share; within noise
    # Too few evaluations to know their noise; or, with a run, that run's losses before its log starts are unknown.
    "compare_loss_uncertain": ("better_loss", "worse_loss", "run", "iteration"),
    "compare_diverged": ("run", "iteration"),
    "compare_risen": ("run", "best_val", "best_val_iteration", "last_val"),
    # The medians of training losses; all None if the logs have too few.
    "compare_loss_unknown": ("first_iteration", "last_iteration", "run", "run_loss", "other", "other_loss"),
    "compare_other_metric": ("a_metric", "b_metric"),  # bits per byte and nats
    "compare_other_data": ("a_dataset", "b_dataset"),  # losses on different data cannot be compared
    "compare_other_tokenizer": (),  # likewise for losses per token
    "compare_other_vocabulary": ("a_vocabulary", "b_vocabulary"),
    "compare_vocabulary_inferred": ("a_vocabulary", "b_vocabulary"),  # from the losses before the first step
    "compare_other_token_length": ("a_token_bytes", "b_token_bytes"),  # loss over bits per byte: tokens or text differ
    "compare_other_corpus": (),  # same name, different tokens
    "compare_sooner": (*_SOONER, "sooner_ratio", "sooner_tokens", "later_tokens"),
    "compare_sooner_iterations": (*_SOONER, "sooner_ratio", "sooner_iterations", "later_iterations"),  # tokens unknown
    "compare_arrival_equal": (*_SOONER, "loss_error"),
    "compare_arrival_same": (*_SOONER, "target_metric"),  # only if not the losses are compared, but bits per byte
    # Too few evaluations to know their noise; or, with at_most_s, the first evaluation of the later one is below it.
    "compare_arrival_uncertain": (*_SOONER, "target_metric", "at_most_s"),
    "compare_sooner_bits": (*_SOONER, "sooner_ratio"),  # target_loss: in bits per byte, because the tokens differ
    "compare_arrival_equal_bits": (*_SOONER, "loss_error"),
    # What a run that is not over will have at the last evaluation of the other, which is; loss: with its 80% interval.
    "compare_end_lower": _END,
    "compare_end_higher": _END,
    "compare_end_open": _END,  # the interval contains other_loss
    "compare_clock_incomplete": ("run",),
    "compare_late_start": ("run", "iteration"),
    "compare_clock_unknown": ("run",),  # none of its rows is a plain step, and some iterations have no row
    "compare_one_knob": ("knob",),
    "compare_speed_knob": ("knob",),  # several changed, but only this one affects speed
    "compare_known_differ": ("knob",),  # the only known difference, but not everything relevant is known
    "compare_several_knobs": ("count", "knobs"),
    "compare_same_settings": (),
    "compare_settings_unknown": ("missing",),
}
