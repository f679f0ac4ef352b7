"""What each finding about two runs says; sentences.py has the others, and the rules for all of them."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.template import Sentence, say

COMPARISONS: Mapping[str, Sentence] = {
    "compare_speed": say(
        "{faster} is faster: {faster_tokens_per_s} tokens/s against {slower_tokens_per_s} of {slower}, which is "
        "{slower_share} slower."
    ),
    "compare_speed_equal": say("Both are equally fast: {tokens_per_s} tokens/s."),
    "compare_speed_unknown": say(
        "Which one is faster per token cannot be told; unknown: {missing}. Pass --config A=FILE or --set A.NAME=VALUE."
    ),
    "compare_time_per_iteration": say(
        "An iteration of {faster} takes {faster_ms}, one of {slower} {slower_ms}; this says nothing about tokens."
    ),
    "compare_why": say(
        "Where the change in tokens/s comes from: the arithmetic that a token needs {flops_per_token_share}, the use "
        "of the card {utilisation_share}, the card itself {peak_share}."
    ),
    "compare_why_unknown_peak": say(
        "Where the change in tokens/s comes from: the arithmetic that a token needs {flops_per_token_share}, the card "
        "and its use {utilisation_share}. These two cannot be told apart without --gpu NAME."
    ),
    "compare_loss_tokens": say(
        "At equal tokens ({tokens}) {better} has the lower validation loss: {better_loss} against {worse_loss} of "
        "{worse}."
    ),
    "compare_loss_iterations": say(
        "At iteration {iteration} {better} has the lower validation loss: {better_loss} against {worse_loss} of "
        "{worse}."
    ),
    "compare_crossover": say(
        "At equal time {early} leads at first; after {crossover_s} {late} overtakes it and stays ahead."
    ),
    "compare_leads_time": say(
        "At equal time {leader} stays ahead: {leader_loss} against {follower_loss} of {follower} after {at_s}."
    ),
    "compare_loss_equal": say("They learn equally well: {better_loss} against {worse_loss} is within the noise."),
    "compare_other_data": say(
        "The losses cannot be compared: they are on different data ({a_dataset} and {b_dataset})."
    ),
    "compare_loss_unknown": say("The losses cannot be compared: no validation losses for the same tokens or time."),
    "compare_other_tokenizer": say(
        "The losses cannot be compared: they are per token, and the tokenizers differ. Bits per byte could be."
    ),
    "compare_other_vocabulary": say(
        "The losses cannot be compared: they are per token, and the vocabularies differ ({a_vocabulary} and "
        "{b_vocabulary} entries). Bits per byte could be."
    ),
    "compare_other_corpus": say(
        "The losses cannot be compared: the data of both has the same name, but it is not the same."
    ),
    "compare_sooner": say(
        "{sooner} reaches a validation loss of {target_loss} in {sooner_s} instead of {later_s}: {sooner_ratio} times "
        "sooner than {later}, with {sooner_tokens} instead of {later_tokens} tokens."
    ),
    "compare_sooner_iterations": say(
        "{sooner} reaches a validation loss of {target_loss} in {sooner_s} instead of {later_s}: {sooner_ratio} times "
        "sooner than {later}, with {sooner_iterations} instead of {later_iterations} iterations."
    ),
    "compare_arrival_equal": say(
        "Which of them is sooner at a validation loss of {target_loss} cannot be told: {sooner} is there in "
        "{sooner_s}, {later} in {later_s}, and that is within the noise of the losses (±{loss_error})."
    ),
    "compare_sooner_bits": say(
        "In bits per byte {sooner} reaches {target_loss} in {sooner_s} instead of {later_s}: {sooner_ratio} times "
        "sooner than {later}."
    ),
    "compare_arrival_equal_bits": say(
        "Which of them is sooner at {target_loss} bits per byte cannot be told: {sooner} is there in {sooner_s}, "
        "{later} in {later_s}, and that is within the noise (±{loss_error})."
    ),
    "compare_clock_incomplete": say(
        "The log of {run} does not tell what all of its evaluations and checkpoints cost: its time is longer than this."
    ),
    "compare_late_start": say(
        "The log of {run} begins at iteration {iteration}: how long it took to get there is unknown, and so is its "
        "time to a loss."
    ),
    "compare_one_knob": say("Only {knob} differs among the known settings, so the difference is its doing."),
    "compare_speed_knob": say("Of what changed only {knob} can change the speed, so that is its doing."),
    "compare_several_knobs": say(
        "{count} settings that bear on the speed changed at once ({knobs}). Which of them changed the use of the card "
        "cannot be told from these runs."
    ),
    "compare_same_settings": say("All known settings are the same; the difference lies in what the logs do not name."),
    "compare_settings_unknown": say(
        "Settings that are not known in both runs: {missing}. Pass --config A=FILE --config B=FILE."
    ),
}
