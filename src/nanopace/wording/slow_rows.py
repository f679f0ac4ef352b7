"""Sentences about slow rows and what their time contains; sentences.py has the rules for all findings."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.template import Sentence, say, say_n

SLOW_ROWS: Mapping[str, Sentence] = {
    "evaluation_rows": say_n(
        "{slow} of {rows} rows is slow, and not because of training: its time includes evaluation and saving "
        "({each_s}, every {interval} iterations). That costs {overhead_s}, {overhead_share} of the wall clock.",
        "{slow} of {rows} rows are slow, and none because of training: their time includes evaluation and saving "
        "({each_s} each, every {interval} iterations). That costs {overhead_s}, {overhead_share} of the wall clock.",
        count="slow",
    )
    | say_n(
        "{slow} of {rows} rows is slow, and not because of training: its time includes evaluation and saving "
        "({each_s}). That costs {overhead_s}, {overhead_share} of the wall clock.",
        "{slow} of {rows} rows are slow, and none because of training: their time includes evaluation and saving "
        "({each_s} each). That costs {overhead_s}, {overhead_share} of the wall clock.",
        count="slow",
    ),
    "checkpoint_measured": say(
        "Rows with a checkpoint ({saved_rows}) compared with rows without ({unsaved_rows}): the evaluation takes "
        "{evaluation_s}, the checkpoint {checkpoint_s} (80% interval {checkpoint_low_s} to {checkpoint_high_s}), "
        "about {checkpoint_share} of the delay."
    )
    | say(
        "Rows with a checkpoint ({saved_rows}) compared with rows without ({unsaved_rows}): the evaluation takes "
        "{evaluation_s}, the checkpoint {checkpoint_s}, {checkpoint_share} of the delay."
    ),
    "checkpoint_stamped": say(
        "According to the log's time stamps, an evaluation takes {evaluation_s} and a checkpoint {checkpoint_s} (80% "
        "interval {checkpoint_low_s} to {checkpoint_high_s})."
    )
    | say("According to the log's time stamps, an evaluation takes {evaluation_s} and a checkpoint {checkpoint_s}."),
    "checkpoint_within_scatter": say(
        "Rows with a checkpoint ({saved_rows}) and without ({unsaved_rows}) take equally long within their scatter: "
        "the evaluation takes {evaluation_s}, a checkpoint {checkpoint_s} at most."
    ),
    "checkpoint_few_saves": say(
        "Too few rows have a checkpoint to time it ({saved_rows}, against {unsaved_rows} without): the evaluation "
        "takes {evaluation_s}, a checkpoint {checkpoint_s} at most."
    ),
    "save_in_doubt": say_n(
        "{saved_rows} row with a checkpoint took {longer_s} longer than an evaluation without one ({evaluation_s}). "
        "One row cannot show whether a checkpoint takes that long or something delayed it.",
        "{saved_rows} rows with a checkpoint took {longer_s} longer in all than evaluations without one "
        "({evaluation_s} each). So few rows cannot show whether a checkpoint takes that long or something delayed "
        "them.",
        count="saved_rows",
    ),
    "checkpoint_other_speed": say(
        "Rows with a checkpoint ({saved_rows}) and without ({unsaved_rows}) differ in more than the checkpoint, so "
        "they cannot show how long one takes."
    ),
    "checkpoint_at_least": say(
        "Evaluation and checkpoint together take {spike_s}. The first row evaluates without saving and took less: a "
        "checkpoint takes at least {checkpoint_s}."
    ),
    "checkpoint_bounded": say(
        "Every evaluation row also saves, so the two cannot be timed separately. Together they take {spike_s}; the "
        "evaluation alone is expected to take about {predicted_s}. A checkpoint takes {checkpoint_s} at most."
    ),
    "checkpoint_few_without": say(
        "Too few evaluation rows are without a checkpoint to show what one takes ({unsaved_rows}, against {saved_rows} "
        "with)."
    ),
    "checkpoint_unknown": say(
        "Evaluation and checkpoint together take {spike_s}, less than the {predicted_s} expected for the evaluation "
        "alone: the checkpoint is short, but its time cannot be bounded here."
    )
    | say(
        "Evaluation and checkpoint together take {spike_s}; this log cannot separate them. Pass --config FILE or "
        "--set eval_iters=N to estimate the evaluation."
    ),
    "checkpoint_not_first": say("The first row ({total_s}) contains no checkpoint: none is written before training."),
    "startup": say(
        "Iteration {iteration} took {total_s}: first evaluation {evaluation_s}, compilation and warm-up {compile_s}, "
        "the step itself {step_s}. This happens once per start."
    ),
    "startup_compile": say(
        "Iteration {iteration} took {total_s} instead of {step_s}: compilation and warm-up. This happens once per "
        "start."
    ),
    "startup_of_several": say(
        "The first {iterations} iterations took {total_s} instead of {step_s}: compilation and warm-up. This happens "
        "once per start."
    ),
    "startup_bounded": say(
        "Iteration {iteration} took {total_s}: the first evaluation at most {evaluation_s} (what later ones take "
        "with their checkpoint), so compilation and warm-up at least {compile_s}, and the step itself {step_s}. This "
        "happens once per start."
    ),
    "startup_together": say(
        "Iteration {iteration} took {total_s} instead of {step_s}: the first evaluation and the warm-up (with "
        "compilation, if compile is on), which this log cannot separate. This happens once per start."
    ),
    "startup_unsplit": say(
        "Iteration {iteration} took {total_s} instead of {step_s}: compilation, warm-up and the first evaluation, if "
        "there was one. This happens once per start."
    ),
    "hidden_evaluations": say_n(
        "{hidden} of {count} evaluations falls between two rows (log_interval {log_interval}, eval_interval "
        "{eval_interval}), so no row shows it. The wall clock here includes its {hidden_s}.",
        "{hidden} of {count} evaluations fall between rows (log_interval {log_interval}, eval_interval "
        "{eval_interval}), so no row shows them. The wall clock here includes their {hidden_s}.",
        count="hidden",
    )
    | say("Hidden between rows: {hidden} of {count} evaluations, {hidden_s} in all."),
    "align_log_interval": say(
        "Choose a log_interval (now {log_interval}) that divides eval_interval ({eval_interval}), so the log shows "
        "every evaluation."
    ),
    "after_last_row": say(
        "The log ends with an evaluation after the last row, at iteration {iteration}. The wall clock here includes "
        "its {after_s}, estimated from the others."
    ),
    "gap_between_rows": say_n(
        "The time stamps show {largest_s} before iteration {iteration} that no row accounts for. What happened there "
        "is unknown.",
        "The time stamps show {total_s} in {count} places that no row accounts for, longest before iteration "
        "{iteration} ({largest_s}). What happened there is unknown.",
        count="count",
    ),
    "hidden_unpriced": say(
        "Hidden between rows: {hidden} of {count} evaluations. At most one row shows what such an evaluation costs. "
        "A log_interval that divides eval_interval would show it."
    ),
    "hidden_in_doubt": say(
        "Hidden between rows: {hidden} of {count} evaluations, {low_s} to {high_s} in all, depending on how long a "
        "checkpoint takes."
    ),
    "evaluation_with_samples": say(
        "{trainer}'s clock keeps running during validation, HellaSwag, sampling and saving, which it does not print. "
        "Here, all of that together counts as evaluation."
    ),
    "evaluations_outside_clock": say(
        "This trainer stops its clock for evaluations: they make no row slow. The log shows the time of only some: "
        "{timed_s} for {timed}, nothing for the other {count}."
    )
    | say(
        "This trainer stops its clock for evaluations ({count} here): they make no row slow, and the log does not "
        "show how long they take."
    ),
    "periodic_stalls": say(
        "Every {interval} iterations, a row is delayed by {each_s}, evaluations aside ({rows} rows, {total_s} in all, "
        "{total_share} of the wall clock). Something recurs there: evaluation or sampling that the log does "
        "not show, logging, data shards or another job running alongside."
    ),
    "stalls": say_n(
        "{rows} row was delayed for no reason the log shows: by {largest_s} at iteration {iteration}, {total_share} "
        "of the wall clock. Usual reasons: data loading, the disk, another program running alongside.",
        "{rows} rows were delayed for no reason the log shows: {total_s} in all, {total_share} of the wall clock, "
        "longest at iteration {iteration} ({largest_s}). Usual reasons: data loading, the disk, another program "
        "running alongside.",
        count="rows",
    ),
    "fetch_stalls": say_n(
        "{rows} row was delayed while data was fetched over the network: by {largest_s} at iteration {iteration}, "
        "{total_share} of the wall clock. That is unlikely to be a coincidence: {fetch_share} of all rows contain such "
        "a fetch. Download the data before training, or fetch it further ahead.",
        "{rows} rows were delayed while data was fetched over the network: {total_s} in all, {total_share} of the wall "
        "clock, longest at iteration {iteration} ({largest_s}). That is unlikely to be a coincidence: {fetch_share} of "
        "all rows contain such a fetch. Download the data before training, or fetch it further ahead.",
        count="rows",
    ),
    "long_events": say_n(
        "One evaluation or checkpoint took {largest_s} longer than the others, at iteration {iteration}: something "
        "delayed it, and the wall clock counts the delay as a stall.",
        "{count} evaluations or checkpoints took far longer than the others: {total_s} more in all, longest at "
        "iteration {iteration} ({largest_s}). Something delayed them, and the wall clock counts the delays as stalls.",
        count="count",
    ),
    "uneven_rows": say(
        "{rows} of the {normal_rows} normal rows took longer ({excess_share}), {total_s} in all: too little to list; "
        "the wall clock counts it as stalls."
    ),
    "no_plain_row": say_n(
        "The log has {rows} row, and it contains an evaluation or the start-up: the step time is unknown.",
        "Each of the {rows} rows contains an evaluation or the start-up, so the step time is unknown. A smaller "
        "log_interval would show plain steps.",
        count="rows",
    ),
}
