"""What `nanopace gate` says of each check; for the codes of diagnosis/compare/gate.py."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.template import Sentence, say

# What the sentences about `--slower` call {compared}.
COMPARED = say(
    "{new_tokens_per_s} tokens/s against {base_tokens_per_s}, {change} per token (99% interval {low} to {high}), "
    "{new_rows} and {base_rows} rows"
) | say("{new_ms} a step against {base_ms}, {change} (99% interval {low} to {high}), {new_rows} and {base_rows} rows")

GATES: Mapping[str, Sentence] = {
    "slower": say("slower: {compared}."),
    "not_slower": say("not slower by {limit}: {compared}."),
    "slower_unclear": say("cannot tell: {compared}; log about {rows_more} more rows of {run}.")
    | say("cannot tell: {compared}; log about {rows_more} more rows of each run."),
    "slower_unclear_wanders": say(
        "cannot tell: {compared}; the difference wanders between {lowest} and {highest} in the course of the runs: log "
        "about {rows_more} more rows of {run}."
    )
    | say(
        "cannot tell: {compared}; the difference wanders between {lowest} and {highest} in the course of the runs: log "
        "about {rows_more} more rows of each run."
    ),
    "slower_unclear_unsteady": say(
        "cannot tell: {compared}; the difference changes in the course of the runs, between {lowest} and {highest}: "
        "nanopace explain shows where."
    ),
    "slower_unclear_digits": say(
        "cannot tell: {compared}; the logs print too few digits, and more rows are no help: print them, or allow more "
        "than {limit}."
    ),
    "slower_unclear_limit": say(
        "cannot tell: {compared}; two runs of the same code may differ by as much, and more rows are no help: allow "
        "{least_limit} or more."
    ),
    "few_rows": say("cannot tell: {run} has too few plain steps: {rows}, where {needed} are needed."),
    "few_rows_in_common": say(
        "cannot tell: of the same iterations there are fewer than {needed} rows of both runs that are plain steps."
    ),
    "no_plain_row": say("cannot tell: no row of {run} is a plain step, so its step time is unknown."),
    "untimed": say("cannot tell: the log of {run} has no step times."),
    "tokens_of_one_unknown": say(
        "cannot tell: the tokens of an iteration of {run} are unknown ({missing}); pass --config FILE or "
        "--set NAME=VALUE."
    ),
    "batches_differ": say(
        "cannot tell: {knob} is {new_value} in NEW and {base_value} in BASE, and the tokens of an iteration are "
        "unknown ({missing}); pass --config FILE or --set NAME=VALUE."
    ),
    "step_too_long": say(
        "step too long: {ratio} times that of BASE (99% interval {low} to {high}), and at most {limit} is allowed."
    ),
    "step_short_enough": say(
        "step short enough: {ratio} times that of BASE (99% interval {low} to {high}), and {limit} is allowed."
    ),
    "step_unclear": say(
        "cannot tell: a step takes {ratio} times that of BASE (99% interval {low} to {high}), and {limit} is allowed; "
        "log about {rows_more} more rows of {run}."
    )
    | say(
        "cannot tell: a step takes {ratio} times that of BASE (99% interval {low} to {high}), and {limit} is allowed; "
        "log about {rows_more} more rows of each run."
    )
    | say(
        "cannot tell: a step takes {ratio} times that of BASE (99% interval {low} to {high}), and {limit} is allowed; "
        "more rows are no help."
    ),
    "mfu_too_low": say("mfu too low: {mfu} of the {card_name}, and at least {limit} is asked for."),
    "mfu_high_enough": say("mfu high enough: {mfu} of the {card_name}, and at least {limit} is asked for."),
    "mfu_unclear": say("cannot tell: the mfu is unknown."),
    "overhead_too_high": say(
        "overhead too high: evaluations and checkpoints take {overhead} of the time, and at most {limit} is allowed."
    ),
    "overhead_low_enough": say(
        "overhead low enough: evaluations and checkpoints take {overhead} of the time, and {limit} is allowed."
    ),
    "overhead_unclear": say("cannot tell: what the evaluations and checkpoints cost is unknown."),
}

BY_ITERATION = say("Iterations are compared: how many tokens they have is unknown, and taken to be the same.")
