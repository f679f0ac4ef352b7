"""What is said of how the log was read; sentences.py has the rules for all findings."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.template import Sentence, say, say_n

READING: Mapping[str, Sentence] = {
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
}
