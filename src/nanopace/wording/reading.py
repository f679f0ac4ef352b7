"""Sentences about how the log was read; sentences.py has the rules for all findings."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.template import Sentence, say, say_n

READING: Mapping[str, Sentence] = {
    "many_runs": say("This file contains {runs} runs; only the first and the last ones are read."),
    "other_ranks": say_n(
        "{ranks} ranks write to this log. Rank {rank} is explained; {rows} row of the others is left out.",
        "{ranks} ranks write to this log. Rank {rank} is explained; {rows} rows of the others are left out.",
        count="rows",
    ),
    "interleaved_processes": say_n(
        "Several processes wrote to this log at the same time, and their rows are mixed. One process is explained; "
        "{rows} row of the others is left out.",
        "Several processes wrote to this log at the same time, and their rows are mixed. One process is explained; "
        "{rows} rows of the others are left out.",
        count="rows",
    ),
    "quoted_log": say("{log_lines} of {lines} lines are a training log; the rest is surrounding text.")
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
        "This log has no step times, so only its loss can be explained. The run took {total_s}: {mean_step_s} per "
        "step on average, including everything but evaluations."
    )
    | say("This log has no step times, so only its loss can be explained. The run took {total_s}.")
    | say("This log has no step times, so only its loss can be explained."),
    "seconds_as_ms": say(
        "The log calls its times milliseconds, but they are seconds: at the printed tokens per second, {batch} tokens "
        "take {step_s}, not {printed_ms}."
    ),
    "rows_cover_several": say(
        "Each row's time covers {iterations} iterations here, not one: {shown_by}. All times below are per iteration."
    )
    | say(
        "Each row's time covers all iterations since the previous row: {shown_by}. All times below are per iteration."
    ),
    "clock_set_to_zero": say(
        "The trainer reset its clock after iteration {iteration}: its final time leaves out the {left_out_s} before "
        "that, which are counted here."
    ),
    "rows_ahead_of_gpu": say(
        "Row times do not wait for the GPU, but evaluations do, for {wait_ms} on average. That wait is added back to "
        "the rows that lack it, so single rows are estimates and their sums are exact."
    ),
    "batch_scheduled": say(
        "According to the code in the log, the batch varies from {smallest} to {largest} tokens during the run: "
        "steps with a larger batch take longer, and tokens per second are not computed."
    ),
    "layers_repeated": say(
        "According to the log, some layers are computed several times from iteration {iteration} on: a step takes "
        "longer."
    ),
    "attention_scheduled": say(
        "According to the code in the log, the attention window changes during the run: a step takes longer where it "
        "is wider."
    ),
    "counts_from_one": say(
        "{trainer} counts steps from 1. Iterations here count from 0, so its step 1 is iteration 0."
    ),
    "rate_per_gpu": say("The printed tokens per second ({per_gpu}) are for one GPU; all {gpus} together reach {total}.")
    | say("The printed tokens per second ({per_gpu}) are for one GPU, and the log does not show how many there were."),
    "rate_wrong": say(
        "The printed “Tok/sec” ({printed}) is wrong: this trainer divides by a time stamp. {tokens} tokens in "
        "{training_s} are {rate} per second."
    ),
    "iterations_are_micro_batches": say(
        "This log counts micro-batches: {per_step} of them make one weight update. Below, a step is one micro-batch."
    ),
    "bar_hides_time": say(
        "The progress bar shows {bar_s} per step, but advanced only one step every {gap_s}. Most of the run goes to "
        "something that this log does not time, such as another evaluation, samples or checkpoints, so no step time is "
        "given."
    ),
    "whole_seconds": say(
        "This log's clock shows whole seconds: a single row is accurate to about a second, and rows it cannot "
        "separate get their mean."
    ),
    "rate_with_evaluations": say(
        "The {printed} steps per second printed at the end count evaluation as training: {evaluation_s} of {runtime_s}."
    ),
    "tracked_series": say("The training loss is the series “{train}”, the validation loss “{validation}”.")
    | say("The training loss is the series “{train}”; no series is certain to be the validation loss."),
    "conflict": say("{knob} is given as {used} and as {other}; {used} is used here."),
    "untimed_sft": say_n(
        "The log continues with one row of fine-tuning (SFT) that has no time and is not included here.",
        "The log continues with {rows} rows of fine-tuning (SFT) that have no time and are not included here.",
        count="rows",
    ),
    "untimed_rl": say_n(
        "The log continues with one row of reinforcement learning that has no time and is not included here.",
        "The log continues with {rows} rows of reinforcement learning that have no time and are not included here.",
        count="rows",
    ),
}
