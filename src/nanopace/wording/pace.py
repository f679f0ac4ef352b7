"""What is said where the time of a step changed over the run; sentences.py has the rules for all findings."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.template import Sentence, say, say_n

PACE: Mapping[str, Sentence] = {
    "level_shift": say(
        "From iteration {iteration} on a step takes {after_ms} instead of {before_ms} ({change_share}). A card that "
        "changes its clock with its temperature or another program on it is the usual reason: watch nvidia-smi."
    ),
    "level_shift_scheduled": say(
        "From iteration {iteration} on a step takes {after_ms} instead of {before_ms} ({change_share}). This "
        "trainer changes what a step does as the run goes on, so it need not be another speed."
    ),
    "level_shift_at_power_limit": say(
        "From iteration {iteration} on a step takes {after_ms} instead of {before_ms} ({change_share}). The card was "
        "at its power limit in {at_limit} of {samples} samples: there its clock, and the speed with it, moves with its "
        "temperature."
    ),
    "level_shift_at_nan": say(
        "From iteration {iteration} on a step takes {after_ms} instead of {before_ms} ({change_share}). The loss "
        "became NaN or infinite at iteration {nan_iteration}, so this says nothing about the card: steps whose update "
        "is skipped take less time."
    ),
    "level_shift_at_batch": say(
        "From iteration {iteration} on a step takes {after_ms} instead of {before_ms} ({change_share}). By its printed "
        "mfu it also does {work_ratio} times as much work: another batch size, not another speed."
    ),
    "level_shift_at_restart": say(
        "From iteration {iteration} on a step takes {after_ms} instead of {before_ms} ({change_share}). Training was "
        "restarted at iteration {restart_iteration}: other settings, another machine or another program on the card "
        "may be the reason."
    ),
    "slow_beginning": say(
        "The first {iterations} iterations were {ratio} times slower ({before_ms} instead of {after_ms} a step), which "
        "cost {lost_s}. Usual reasons: warm-up, a cold file cache, another program running alongside."
    ),
    "pace_changes": say(
        "The step time changed {changes} times, between {fastest_ms} and {slowest_ms}. At its fastest throughout, the "
        "run would have been {lost_s} shorter."
    ),
    "cpu_pace": say_n(
        "The time of a step changed {changes} time, between {fastest_ms} and {slowest_ms}: other programs are on this "
        "CPU, too.",
        "The time of a step changed {changes} times, between {fastest_ms} and {slowest_ms}: other programs are on this "
        "CPU, too.",
        count="changes",
    ),
    "memory_spill": say(
        "From iteration {iteration} on a step takes {ratio} times as long ({after_ms} instead of {before_ms}). That is "
        "typical of full GPU memory spilling into main memory: try a smaller batch_size with more "
        "gradient_accumulation_steps."
    ),
    "drift": say(
        "The step time changed gradually over the run: {first_ms} in the first fifth, {last_ms} in the last "
        "({change_share})."
    ),
    "slower_as_scheduled": say(
        "Steps became slower over the run: {first_ms} in the first fifth, {last_ms} in the last ({change_share}). "
        "This trainer changes what a step does as the run goes on, so it need not be another speed."
    ),
    "slower_at_the_end": say(
        "Steps became slower over the run: {first_ms} in the first fifth, {last_ms} in the last ({change_share}). "
        "Usual reasons: heat, or another program running alongside."
    ),
    "faster_at_the_end": say(
        "Steps became faster over the run: {first_ms} in the first fifth, {last_ms} in the last ({change_share})."
    ),
    "straggler": say(
        "Rank {rank} is the slowest in {slowest_share} of the steps; its own work takes {lag_share} longer, and the "
        "others wait for it."
    ),
}
