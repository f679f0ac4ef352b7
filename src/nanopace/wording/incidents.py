"""What is said of restarts, sleep, full memory and how a run ended; sentences.py has the rules for all findings."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.template import Sentence, say, say_n

INCIDENTS: Mapping[str, Sentence] = {
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
}
