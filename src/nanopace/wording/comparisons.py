"""What each finding about two runs says; sentences.py has the others, and the rules for all of them."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.template import Sentence, say

COMPARISONS: Mapping[str, Sentence] = {
    # --- speed
    "compare_speed": say(
        "{slower} is {slower_share} slower than {faster}: {slower_tokens_per_s} against {faster_tokens_per_s} tokens/s."
    ),
    "compare_speed_equal": say("Both are equally fast: {tokens_per_s} tokens/s."),
    "compare_speed_unclear": say(
        "Which one is faster cannot be told: {faster} does {faster_tokens_per_s} tokens/s, {slower} "
        "{slower_tokens_per_s}, and the steps scatter too much for that difference."
    ),
    "compare_speed_unknown": say(
        "Which one is faster per token cannot be told; unknown: {missing}. Pass --config A=FILE or --set A.NAME=VALUE."
    ),
    "compare_step_unknown": say(
        "Which one is faster cannot be told: no row of {run} is a plain step, so its step time is unknown."
    ),
    "compare_untimed": say("Which one is faster cannot be told: the log of {run} prints no step times."),
    "compare_both_untimed": say("Which one is faster cannot be told: neither log prints step times."),
    "compare_time_per_iteration": say(
        "An iteration of {faster} takes {faster_ms}, one of {slower} {slower_ms}; this says nothing about tokens."
    ),
    "compare_why": say(
        "Where the change in tokens/s comes from: FLOPs per token {flops_per_token_share}, number of GPUs "
        "{gpu_count_share}, use of the card {utilisation_share}, the card itself {peak_share}."
    )
    | say(
        "Where the change in tokens/s comes from: FLOPs per token {flops_per_token_share}, use of the card "
        "{utilisation_share}, the card itself {peak_share}."
    ),
    "compare_why_unknown_peak": say(
        "Where the change in tokens/s comes from: FLOPs per token {flops_per_token_share}, number of GPUs "
        "{gpu_count_share}, the card and its use {utilisation_share}; --gpu NAME would tell these two apart."
    )
    | say(
        "Where the change in tokens/s comes from: FLOPs per token {flops_per_token_share}, the card and its use "
        "{utilisation_share}; --gpu NAME would tell these two apart."
    ),
    "compare_overall": say(
        "{faster} has the faster steps, but over the whole run {slower} gets more done: {slower_overall_tokens_per_s} "
        "against {faster_overall_tokens_per_s} tokens per second of wall clock."
    ),
    "compare_stretch": say(
        "Iterations {first_iteration} to {last_iteration} of {run} took {ratio}x as long as its normal step."
    ),
    "compare_time_share": say("{time_share} of the time of {run} goes here: {phase}."),
    # --- loss
    "compare_data_unknown": say(
        "The losses compare only if both runs train on the same data, which the logs do not say."
    ),
    "compare_loss_tokens": say(
        "At equal tokens ({tokens}) {better} has the lower best validation loss: {better_loss} against {worse_loss} of "
        "{worse}."
    ),
    "compare_loss_iterations": say(
        "At iteration {iteration} {better} has the lower best validation loss: {better_loss} against {worse_loss} of "
        "{worse}."
    ),
    "compare_crossover": say(
        "At equal time {early} leads at first; after {crossover_s} {late} overtakes it and stays ahead."
    ),
    "compare_crossover_best": say(
        "At equal time {early} leads at first; from {crossover_s} on {late} has had the lower best validation loss."
    ),
    "compare_leads_time": say(
        "At equal time {leader} is ahead: a best validation loss of {leader_loss} against {follower_loss} of "
        "{follower} after {at_s}."
    ),
    "compare_risen": say(
        "The validation loss of {run} was best at iteration {best_val_iteration} ({best_val}) and has risen to "
        "{last_val} since."
    ),
    "compare_loss_equal": say("They learn equally well: {better_loss} against {worse_loss} is within the noise."),
    "compare_loss_uncertain": say(
        "Which one learns better cannot be told: {better_loss} against {worse_loss}, and too few evaluations to know "
        "their noise."
    ),
    "compare_loss_unknown": say("The losses cannot be compared: no validation losses for the same tokens or time."),
    "compare_other_metric": say(
        "The losses cannot be compared: they are in different units ({a_metric} and {b_metric})."
    ),
    "compare_other_data": say(
        "The losses cannot be compared: they are on different data ({a_dataset} and {b_dataset})."
    ),
    "compare_other_tokenizer": say(
        "The losses cannot be compared: they are per token, and the tokenizers differ. Bits per byte could be."
    ),
    "compare_other_vocabulary": say(
        "The losses cannot be compared: they are per token, and the vocabularies differ ({a_vocabulary} and "
        "{b_vocabulary} entries). Bits per byte could be."
    ),
    "compare_vocabulary_inferred": say(
        "The losses cannot be compared: they are per token, and by the losses before training the vocabularies differ "
        "(about {a_vocabulary} and {b_vocabulary} entries)."
    ),
    "compare_other_corpus": say(
        "The losses cannot be compared: the data of both has the same name, but it is not the same."
    ),
    # --- time to a loss
    "compare_sooner": say(
        "{sooner} reaches a validation loss of {target_loss} in {sooner_s}, {sooner_ratio}x faster than {later} "
        "({later_s}), with {sooner_tokens} instead of {later_tokens} tokens."
    )
    | say(
        "{sooner} reaches a validation loss of {target_loss} in {sooner_s}, {sooner_ratio}x faster than {later} "
        "({later_s}), with about as many tokens."
    ),
    "compare_sooner_iterations": say(
        "{sooner} reaches a validation loss of {target_loss} in {sooner_s}, {sooner_ratio}x faster than {later} "
        "({later_s}), with {sooner_iterations} instead of {later_iterations} iterations."
    )
    | say(
        "{sooner} reaches a validation loss of {target_loss} in {sooner_s}, {sooner_ratio}x faster than {later} "
        "({later_s}), with as many iterations."
    ),
    "compare_arrival_same": say(
        "Both reach {target_loss} in about the same time: {sooner} in {sooner_s}, {later} in {later_s}."
    ),
    "compare_arrival_uncertain": say(
        "Which one reaches {target_loss} first cannot be told: {sooner} needs {sooner_s}, {later} {later_s}, and there "
        "are too few evaluations to know their noise."
    ),
    "compare_arrival_equal": say(
        "Which one reaches a validation loss of {target_loss} first cannot be told: {sooner} needs {sooner_s}, {later} "
        "{later_s}, and that is within the noise of the losses (±{loss_error})."
    ),
    "compare_sooner_bits": say(
        "In bits per byte {sooner} reaches {target_loss} in {sooner_s}, {sooner_ratio}x faster than {later} "
        "({later_s})."
    ),
    "compare_arrival_equal_bits": say(
        "Which one reaches {target_loss} bits per byte first cannot be told: {sooner} needs {sooner_s}, {later} "
        "{later_s}, and that is within the noise (±{loss_error})."
    ),
    "compare_clock_incomplete": say(
        "The log of {run} does not tell what all of its evaluations and checkpoints cost: its time is longer than this."
    ),
    "compare_late_start": say(
        "The log of {run} begins at iteration {iteration}: how long it took to get there is unknown, so nothing is "
        "compared at equal time."
    ),
    "compare_clock_unknown": say(
        "No row of {run} is a plain step: how long the iterations between its rows took is unknown, so nothing is "
        "compared at equal time."
    ),
    # --- settings
    "compare_one_knob": say(
        "Only {knob} differs among the settings that bear on speed or loss: on the same machine, the difference is its "
        "doing."
    ),
    "compare_speed_knob": say(
        "Of what changed only {knob} can change the speed: on the same machine, that is its doing."
    ),
    "compare_known_differ": say("Among the known settings that bear on speed or loss, only {knob} differs."),
    "compare_several_knobs": say(
        "{count} settings that bear on the speed changed at once ({knobs}). Which of them changed the use of the card "
        "cannot be told from these runs."
    ),
    "compare_same_settings": say(
        "All known settings that bear on speed or loss are the same; the difference lies in what the logs do not name."
    ),
    "compare_settings_unknown": say(
        "Settings that are not known in both runs: {missing}. Pass --config A=FILE --config B=FILE."
    ),
}
