"""Sentences for each check of `nanopace gate`, for the codes of diagnosis/compare/gate.py."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.template import Sentence, label, say

# What {compared} stands for in the sentences about `--slower`.
COMPARED = say(
    "{new_tokens_per_s} tokens/s against {base_tokens_per_s}, {change} per token (99% interval {low} to {high}), "
    "{new_rows} and {base_rows} rows"
) | say("{new_ms} per step against {base_ms}, {change} (99% interval {low} to {high}), {new_rows} and {base_rows} rows")

GATES: Mapping[str, Sentence] = {
    "slower": say("slower: {compared}."),
    "not_slower": say("not slower by {limit}: {compared}."),
    "slower_unclear": say("cannot tell: {compared}; log about {rows_more} more rows of {run}.")
    | say("cannot tell: {compared}; log about {rows_more} more rows of each run."),
    "slower_unclear_wanders": say(
        "cannot tell: {compared}; the difference drifts between {lowest} and {highest} over the runs: log about "
        "{rows_more} more rows of {run}."
    )
    | say(
        "cannot tell: {compared}; the difference drifts between {lowest} and {highest} over the runs: log about "
        "{rows_more} more rows of each run."
    ),
    "slower_unclear_unsteady": say(
        "cannot tell: {compared}; the difference changes over the runs, between {lowest} and {highest}: nanopace "
        "explain shows where."
    ),
    "slower_unclear_digits": say(
        "cannot tell: {compared}; the logs print too few digits, so more rows do not help: print more digits, or "
        "allow more than {limit}."
    ),
    "slower_unclear_limit": say(
        "cannot tell: {compared}; two runs of the same code may differ this much, so more rows do not help: allow "
        "{least_limit} or more."
    ),
    "few_rows": say("cannot tell: {run} has too few plain steps ({rows}; {needed} are needed)."),
    "few_rows_in_common": say("cannot tell: fewer than {needed} iterations are logged as plain steps in both runs."),
    "no_plain_row": say("cannot tell: no row of {run} times a plain step, so its step time is unknown."),
    "untimed": say("cannot tell: the log of {run} has no step times."),
    "tokens_of_one_unknown": say(
        "cannot tell: the tokens per iteration of {run} are unknown ({missing}); pass --config FILE or --set "
        "NAME=VALUE."
    ),
    "batches_differ": say(
        "cannot tell: {knob} is {new_value} in NEW and {base_value} in BASE, and the tokens per iteration are "
        "unknown ({missing}); pass --config FILE or --set NAME=VALUE."
    ),
    "step_too_long": say(
        "step too slow: {ratio}x the step of BASE (99% interval {low} to {high}); at most {limit} is allowed."
    ),
    "step_short_enough": say(
        "step fast enough: {ratio}x the step of BASE (99% interval {low} to {high}); {limit} is allowed."
    ),
    "step_unclear": say(
        "cannot tell: a step takes {ratio}x as long as in BASE (99% interval {low} to {high}), and {limit} is "
        "allowed; log about {rows_more} more rows of {run}."
    )
    | say(
        "cannot tell: a step takes {ratio}x as long as in BASE (99% interval {low} to {high}), and {limit} is "
        "allowed; log about {rows_more} more rows of each run."
    )
    | say(
        "cannot tell: a step takes {ratio}x as long as in BASE (99% interval {low} to {high}), and {limit} is "
        "allowed; more rows do not help."
    ),
    "mfu_too_low": say("mfu too low: {mfu} of the {card_name}; at least {limit} is required."),
    "mfu_high_enough": say("mfu high enough: {mfu} of the {card_name}; at least {limit} is required."),
    "mfu_unclear": say("cannot tell: the mfu is unknown."),
    "overhead_too_high": say(
        "overhead too high: evaluations and checkpoints take {overhead} of the time; at most {limit} is allowed."
    ),
    "overhead_low_enough": say(
        "overhead low enough: evaluations and checkpoints take {overhead} of the time; {limit} is allowed."
    ),
    "overhead_unclear": say("cannot tell: the cost of evaluations and checkpoints is unknown."),
}

BY_ITERATION = label("Iterations are compared: their tokens are unknown and assumed to be equal.")
