"""What is said of slow rows and what their time contains; sentences.py has the rules for all findings."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.template import Sentence, say, say_n

SLOW_ROWS: Mapping[str, Sentence] = {
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
    "no_plain_row": say_n(
        "The log has {rows} row, and it contains an evaluation or the start-up: how long a step takes is unknown.",
        "Each of the {rows} rows contains an evaluation or the start-up, so how long a step takes is unknown. A "
        "smaller log_interval would show plain steps.",
        count="rows",
    ),
}
