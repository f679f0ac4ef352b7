"""Sentences for findings about two runs; sentences.py has the rules for all findings."""

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
        "It is unclear which is faster: {faster} runs at {faster_tokens_per_s} tokens/s and {slower} at "
        "{slower_tokens_per_s}, but step times vary too much to separate them."
    ),
    "compare_speed_unknown": say(
        "It is unclear which is faster per token; unknown: {missing}. Pass --config A=FILE or --set A.NAME=VALUE."
    )
    | say("It is unclear which is faster per token: at least one log does not show how many tokens a step has."),
    "compare_step_unknown": say(
        "It is unclear which is faster: no row of {run} times a plain step, so its step time is unknown."
    ),
    "compare_untimed": say("It is unclear which is faster: the log of {run} has no step times."),
    "compare_both_untimed": say("It is unclear which is faster: neither log has step times."),
    "compare_time_per_iteration": say(
        "An iteration takes {faster_ms} in {faster} and {slower_ms} in {slower}; that says nothing about tokens."
    ),
    "compare_why": say(
        "What changed tokens/s: FLOPs per token {flops_per_token_share}, number of GPUs {gpu_count_share}, card "
        "utilisation {utilisation_share}, the card itself {peak_share}."
    )
    | say(
        "What changed tokens/s: FLOPs per token {flops_per_token_share}, card utilisation {utilisation_share}, the "
        "card itself {peak_share}."
    ),
    "compare_why_unknown_peak": say(
        "What changed tokens/s: FLOPs per token {flops_per_token_share}, number of GPUs {gpu_count_share}, the card "
        "and its utilisation {utilisation_share}; --gpu NAME separates these two."
    )
    | say(
        "What changed tokens/s: FLOPs per token {flops_per_token_share}, the card and its utilisation "
        "{utilisation_share}; --gpu NAME separates these two."
    ),
    "compare_overall": say(
        "{faster} has faster steps, but {slower} gets more done over the whole run: {slower_overall_tokens_per_s} "
        "against {faster_overall_tokens_per_s} tokens per second of wall clock."
    ),
    "compare_stretch": say(
        "Iterations {first_iteration} to {last_iteration} of {run} took {ratio}x as long as its normal step."
    ),
    "compare_time_share": say("{run} spent {time_share} of its time here: {phase}."),
    # --- loss
    "compare_data_unknown": say(
        "So {target_metric} are compared instead. That is fair only if both runs are evaluated on the same text, which "
        "the logs do not show."
    )
    | say("The losses are comparable only if both runs train on the same data, which the logs do not show."),
    "compare_loss_tokens": say(
        "At equal tokens ({tokens}), {better} has the lower best validation loss: {better_loss} against {worse_loss} "
        "for {worse}."
    ),
    "compare_loss_iterations": say(
        "At iteration {iteration}, {better} has the lower best validation loss: {better_loss} against {worse_loss} "
        "for {worse}."
    ),
    "compare_crossover": say(
        "At equal time, {early} leads at first; after {crossover_s}, {late} overtakes it and stays ahead."
    ),
    "compare_crossover_best": say(
        "At equal time, {early} leads at first; from {crossover_s} on, {late} has the lower best validation loss."
    ),
    "compare_leads_time": say(
        "At equal time, {leader} is ahead: best validation loss {leader_loss} against {follower_loss} for {follower} "
        "after {at_s}."
    ),
    "compare_diverged": say("The loss of {run} is NaN or infinite from iteration {iteration} on."),
    "compare_risen": say(
        "The validation loss of {run} was best at iteration {best_val_iteration} ({best_val}) and has since risen to "
        "{last_val}."
    ),
    "compare_loss_equal": say(
        "Neither learns clearly better: the difference between {better_loss} and {worse_loss} is within the noise."
    )
    | say("Neither learns clearly better: the best validation loss of both is {better_loss}."),
    "compare_loss_uncertain": say(
        "It is unclear which learns better: {better_loss} against {worse_loss}, but the log of {run} starts at "
        "iteration {iteration}, so its best loss before that is unknown."
    )
    | say(
        "It is unclear which learns better: {better_loss} against {worse_loss}, with too few evaluations to estimate "
        "the noise."
    ),
    "compare_loss_unknown": say(
        "There are no validation losses at the same tokens or time. The median training loss of iterations "
        "{first_iteration} to {last_iteration} is about {run_loss} in {run} and {other_loss} in {other}."
    )
    | say("The losses cannot be compared: there are no validation losses at the same tokens or time."),
    "compare_other_metric": say(
        "The losses cannot be compared: they are in different units ({a_metric} and {b_metric})."
    ),
    "compare_other_data": say(
        "The losses cannot be compared: they come from different data ({a_dataset} and {b_dataset})."
    ),
    "compare_other_tokenizer": say(
        "The losses cannot be compared: they are per token, and the tokenizers differ. Bits per byte would be "
        "comparable."
    ),
    "compare_other_vocabulary": say(
        "The losses cannot be compared: they are per token, and the vocabularies differ ({a_vocabulary} and "
        "{b_vocabulary} entries). Bits per byte would be comparable."
    ),
    "compare_vocabulary_inferred": say(
        "The losses cannot be compared: they are per token, and judging by the losses before training, the "
        "vocabularies differ (about {a_vocabulary} and {b_vocabulary} entries)."
    ),
    "compare_other_token_length": say(
        "The losses cannot be compared: they are per token, and judging by the bits per byte next to them, a token is "
        "{a_token_bytes} bytes of text in one log and {b_token_bytes} in the other."
    ),
    "compare_other_corpus": say(
        "The losses cannot be compared: the data has the same name in both runs but is not the same."
    ),
    # --- time to a loss
    "compare_sooner": say(
        "{sooner} reaches a validation loss of {target_loss} in {sooner_s}, {sooner_ratio}x faster than {later} "
        "({later_s}), with {sooner_tokens} instead of {later_tokens} tokens."
    )
    | say(
        "{sooner} reaches a validation loss of {target_loss} in {sooner_s}, {sooner_ratio}x faster than {later} "
        "({later_s}), with about the same number of tokens."
    ),
    "compare_sooner_iterations": say(
        "{sooner} reaches a validation loss of {target_loss} in {sooner_s}, {sooner_ratio}x faster than {later} "
        "({later_s}), with {sooner_iterations} instead of {later_iterations} iterations."
    )
    | say(
        "{sooner} reaches a validation loss of {target_loss} in {sooner_s}, {sooner_ratio}x faster than {later} "
        "({later_s}), with the same number of iterations."
    ),
    "compare_arrival_same": say(
        "Both reach {target_loss} {target_metric} in about the same time: {sooner} in {sooner_s}, {later} in {later_s}."
    )
    | say("Both reach {target_loss} in about the same time: {sooner} in {sooner_s}, {later} in {later_s}."),
    "compare_arrival_uncertain": say(
        "It is unclear which reaches {target_loss} {target_metric} first: {sooner} takes {sooner_s} and {later} at "
        "most {at_most_s}, since its first evaluation is already that low."
    )
    | say(
        "It is unclear which reaches {target_loss} first: {sooner} takes {sooner_s} and {later} at most {at_most_s}, "
        "since its first evaluation is already that low."
    )
    | say(
        "It is unclear which reaches {target_loss} {target_metric} first: {sooner} takes {sooner_s} and {later} "
        "{later_s}, with too few evaluations to estimate the noise."
    )
    | say(
        "It is unclear which reaches {target_loss} first: {sooner} takes {sooner_s} and {later} {later_s}, with too "
        "few evaluations to estimate the noise."
    ),
    "compare_arrival_equal": say(
        "It is unclear which reaches a validation loss of {target_loss} first: {sooner} takes {sooner_s} and {later} "
        "{later_s}, a difference within the noise of the losses (±{loss_error})."
    ),
    "compare_sooner_bits": say(
        "In bits per byte, {sooner} reaches {target_loss} in {sooner_s}, {sooner_ratio}x faster than {later} "
        "({later_s})."
    ),
    "compare_arrival_equal_bits": say(
        "It is unclear which reaches {target_loss} bits per byte first: {sooner} takes {sooner_s} and {later} "
        "{later_s}, a difference within the noise (±{loss_error})."
    ),
    "compare_end_lower": say(
        "{run} should end below {other}: by iteration {iteration}, a validation loss of about {loss} (80% interval "
        "{low} to {high}) against {other_loss}."
    ),
    "compare_end_higher": say(
        "{run} should end above {other}: by iteration {iteration}, a validation loss of about {loss} (80% interval "
        "{low} to {high}) against {other_loss}."
    ),
    "compare_end_open": say(
        "It is open which will end lower: by iteration {iteration}, {run} should have a validation loss of about "
        "{loss} (80% interval {low} to {high}); {other} has {other_loss}."
    ),
    "compare_clock_incomplete": say(
        "The log of {run} does not show the cost of all its evaluations and checkpoints: its real time is longer "
        "than this."
    ),
    "compare_late_start": say(
        "The log of {run} starts at iteration {iteration}. How long it took to get there is unknown, so nothing is "
        "compared at equal time."
    ),
    "compare_clock_unknown": say(
        "No row of {run} times a plain step. How long the iterations between its rows took is unknown, so nothing is "
        "compared at equal time."
    ),
    # --- settings
    "compare_one_knob": say(
        "{knob} is the only setting affecting speed or loss that differs: on the same machine, it causes the "
        "difference."
    ),
    "compare_speed_knob": say(
        "Of the settings that changed, only {knob} can affect the speed: on the same machine, it causes the difference."
    ),
    "compare_known_differ": say("Of the known settings that affect speed or loss, only {knob} differs."),
    "compare_several_knobs": say(
        "{count} settings that affect speed changed at once ({knobs}). These runs cannot show which of them changed "
        "the card's utilisation."
    ),
    "compare_same_settings": say(
        "All settings read from the two runs that affect speed or loss are the same; any difference has another cause."
    ),
    "compare_settings_unknown": say(
        "Settings not known for both runs: {missing}. Pass --config A=FILE --config B=FILE."
    )
    | say("Not every setting that affects speed or loss is in the logs."),
}
