"""Sentences about restarts, sleep, full memory and how a run ended; sentences.py has the rules for all findings."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.template import Sentence, say, say_n

INCIDENTS: Mapping[str, Sentence] = {
    "restarts": say_n(
        "Training was restarted once; repeated iterations: {lost_iterations}. Including the new start-up, this cost "
        "{lost_s}.",
        "Training was restarted {count} times; repeated iterations: {lost_iterations}. Including the new start-ups, "
        "this cost {lost_s}.",
        count="count",
    )
    | say_n(
        "Training was restarted once, and no iteration was repeated. How long the new start-up took is unknown.",
        "Training was restarted {count} times, and no iteration was repeated. How long the new start-ups took is "
        "unknown.",
        count="count",
    ),
    "restarts_untimed": say_n(
        "The run was restarted once; repeated iterations: {lost_iterations}.",
        "The run was restarted {count} times; repeated iterations: {lost_iterations}.",
        count="count",
    )
    | say_n(
        "The run was restarted once, and no iteration was repeated.",
        "The run was restarted {count} times, and no iteration was repeated.",
        count="count",
    ),
    "suspended": say_n(
        "The run was suspended once, for {suspended_s}: the machine slept, or someone pressed Ctrl-Z. This is not "
        "slow training.",
        "The run was suspended {count} times, for {suspended_s} in all: the machine slept, or someone pressed "
        "Ctrl-Z. This is not slow training.",
        count="count",
    ),
    "data_stalls": say_n(
        "Training waited for data once: {largest_s} at iteration {iteration}, {total_share} of the wall clock. Usual "
        "reasons: a slow or busy disk, a network drive.",
        "Training waited for data {count} times: {total_s} in all, {total_share} of the wall clock, longest at "
        "iteration {iteration} ({largest_s}). Usual reasons: a slow or busy disk, a network drive.",
        count="count",
    ),
    "rollbacks": say_n(
        "The loss became NaN or infinite, so training rolled back from iteration {failed_at} to {iteration} and "
        "continued on other data. Repeated iterations: {lost_iterations}; this cost {lost_s}.",
        "The loss became NaN or infinite, so training rolled back {count} times, last from iteration {failed_at} to "
        "{iteration}, and continued on other data. Repeated iterations: {lost_iterations}; this cost {lost_s}.",
        count="count",
    ),
    "micro_batch_reduced": say(
        "Memory ran out at iteration {iteration}: since then, a micro-batch has {to_batch} sequences instead of "
        "{from_batch}, with {to_accumulation} per step. The tokens per step are unchanged, and no step was lost."
    )
    | say(
        "Memory ran out at iteration {iteration}: since then, a micro-batch has {to_batch} sequences, with "
        "{to_accumulation} per step. The tokens per step are unchanged, and no step was lost."
    ),
    "micro_batch_reduced_at_start": say(
        "Memory ran out at the start: a micro-batch has {to_batch} sequences instead of {from_batch}, with "
        "{to_accumulation} per step. The tokens per step are unchanged."
    )
    | say(
        "Memory ran out at the start: a micro-batch has {to_batch} sequences, with {to_accumulation} per step. The "
        "tokens per step are unchanged."
    ),
    "micro_batch_reduced_in_evaluation": say(
        "Memory ran out during the evaluation at iteration {iteration}: since then, evaluations process {to_batch} "
        "sequences at a time instead of {from_batch}. Their results are the same."
    )
    | say(
        "Memory ran out during the evaluation at iteration {iteration}: since then, evaluations process {to_batch} "
        "sequences at a time. Their results are the same."
    ),
    "ended_diverged": say(
        "Training stopped after iteration {last_iteration}: the loss kept becoming NaN or infinite, even on other "
        "data. The run directory holds the evidence (evidence-step-N) and the last good checkpoint."
    ),
    "ended_corrupted": say(
        "Training stopped after iteration {last_iteration} because of silent data corruption: weights or averages had "
        "changed between two updates, or gradients computed twice were not the same. Test the machine's memory; the "
        "run directory holds the evidence (evidence-step-N) and the last good checkpoint."
    ),
    "ended_out_of_memory": say(
        "The run ran out of memory after iteration {last_iteration}. If that was in a training step, a smaller "
        "batch_size with more gradient_accumulation_steps needs less memory for the same tokens per iteration."
    ),
    "ended_error": say("The run ended with an error after iteration {last_iteration}; see the end of the log."),
    "ended_interrupted": say("The run was interrupted after iteration {last_iteration}."),
}
