"""Sentences about changes of the step time; sentences.py has the rules for all findings."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.template import Sentence, say, say_n

PACE: Mapping[str, Sentence] = {
    "level_shift": say(
        "From iteration {iteration} on, a step takes {after_ms} instead of {before_ms} ({change_share}). Usual "
        "reasons: the card's clock changes with its temperature, or another program uses the card. Watch nvidia-smi."
    ),
    "level_shift_scheduled": say(
        "From iteration {iteration} on, a step takes {after_ms} instead of {before_ms} ({change_share}). This "
        "trainer changes what a step does during the run, so the speed may be unchanged."
    ),
    "level_shift_at_power_limit": say(
        "From iteration {iteration} on, a step takes {after_ms} instead of {before_ms} ({change_share}). The card "
        "was at its power limit in {at_limit} of {samples} samples: there, its clock and its speed change with its "
        "temperature."
    ),
    "level_shift_at_nan": say(
        "From iteration {iteration} on, a step takes {after_ms} instead of {before_ms} ({change_share}). The loss "
        "became NaN or infinite at iteration {nan_iteration}, so this says nothing about the card: steps with a "
        "skipped update take less time."
    ),
    "level_shift_at_batch": say(
        "From iteration {iteration} on, a step takes {after_ms} instead of {before_ms} ({change_share}). According "
        "to the printed mfu, it also does {work_ratio}x the work: the batch size changed, not the speed."
    ),
    "level_shift_at_restart": say(
        "From iteration {iteration} on, a step takes {after_ms} instead of {before_ms} ({change_share}). Training "
        "was restarted at iteration {restart_iteration}: possible reasons are other settings, another machine or "
        "another program on the card."
    ),
    "slow_beginning": say(
        "The first {iterations} iterations were {ratio}x slower ({before_ms} per step instead of {after_ms}), which "
        "cost {lost_s}. Usual reasons: warm-up, a cold file cache, another program running alongside."
    ),
    "pace_changes": say(
        "The step time changed {changes} times, between {fastest_ms} and {slowest_ms}. At its fastest throughout, the "
        "run would have been {lost_s} shorter."
    ),
    "cpu_pace": say_n(
        "The step time changed once, between {fastest_ms} and {slowest_ms}. Usual reasons on a CPU: other programs, or "
        "heat.",
        "The step time changed {changes} times, between {fastest_ms} and {slowest_ms}. Usual reasons on a CPU: other "
        "programs, or heat.",
        count="changes",
    ),
    "memory_spill": say(
        "From iteration {iteration} on, a step takes {ratio}x as long ({after_ms} instead of {before_ms}). That is "
        "typical of full GPU memory spilling into main memory: try a smaller batch_size with more "
        "gradient_accumulation_steps."
    ),
    "drift": say(
        "The step time changed gradually over the run: {first_ms} in the first fifth, {last_ms} in the last "
        "({change_share})."
    ),
    "slower_as_scheduled": say(
        "Steps became slower over the run: {first_ms} in the first fifth, {last_ms} in the last ({change_share}). "
        "This trainer changes what a step does during the run, so the speed may be unchanged."
    ),
    "slower_at_the_end": say(
        "Steps became slower over the run: {first_ms} in the first fifth, {last_ms} in the last ({change_share}). "
        "Usual reasons: heat, or another program running alongside."
    ),
    "faster_at_the_end": say(
        "Steps became faster over the run: {first_ms} in the first fifth, {last_ms} in the last ({change_share})."
    ),
    "straggler": say(
        "Rank {rank} is the slowest in {slowest_share} of the steps: its own work takes {lag_share} longer, and the "
        "others wait for it."
    ),
}
