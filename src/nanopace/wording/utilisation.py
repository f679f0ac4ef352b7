"""Sentences about the card; sentences.py has the rules for all findings."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.template import Sentence, say

UTILISATION: Mapping[str, Sentence] = {
    "mfu_smoothed": say(
        "The printed mfu ends at {printed_last}, but the card did not slow down: the trainer smooths the figure over "
        "slow rows, such as those with evaluations. For a normal step, it is {steady_printed} throughout."
    ),
    "mfu_smoothed_and_slower": say(
        "The printed mfu ends at {printed_last} for two reasons: the trainer smooths it over slow rows, such as "
        "those with evaluations, and the steps themselves went from {first_ms} to {last_ms} ({change_share}). For a "
        "normal step, it is {steady_printed}."
    ),
    "mfu_smoothed_only": say(
        "The printed mfu ends at {printed_last} because the trainer smooths it over slow rows, such as those with "
        "evaluations. For a normal step, it is {steady_printed}."
    ),
    "mfu_disagrees": say(
        "The printed mfu comes to {steady_printed} for a normal step, but the settings known here give {computed_mfu}: "
        "one of them or the number of GPUs is wrong, or the trainer counts its FLOPs differently."
    ),
    "mfu_other_card": say(
        "The printed {steady_printed} is relative to {printed_peak_tflops}, the peak the trainer assumes for any "
        "card. Relative to the {card_name} ({card_tflops}), it is {card}."
    ),
    "gpus_unknown": say(
        "The log does not show how many GPUs trained together, and the TFLOP/s here are for all of them. Pass --gpu "
        "with their number, such as --gpu '8x H100'."
    ),
    "mfu_causal": say(
        "{trainer} counts half of attention's FLOPs in its mfu, since attention is causal. nanoGPT counts all of "
        "them, and so do the figures here unless stated otherwise."
    ),
    "mfu_card_unknown": say(
        "The card is unknown. The printed {steady_printed} is relative to {printed_peak_tflops}, the peak the "
        "trainer assumes for any card; this one reached {achieved_tflops}. Pass --gpu NAME to see its own share."
    ),
    "ran_on_cpu": say("The run used a CPU. The mfu measures how well a GPU is used, so there is none."),
    "mfu_unknown": say(
        "The card's utilisation cannot be computed; unknown: {missing}. Pass --config FILE or --set NAME=VALUE."
    ),
    "mfu_over_100": say(
        "An mfu of {steady_printed} is possible: the trainer divides by {printed_peak_tflops} whatever the card, and "
        "this one reached {achieved_tflops}."
    ),
    "mfu_zero": say(
        "The printed mfu is 0 in every row: the trainer has no peak for this card, or the figure is too small for "
        "two decimals. The card reached {achieved_tflops}."
    )
    | say(
        "The printed mfu is 0 in every row: the trainer has no peak for this card, or the figure is too small for "
        "two decimals."
    ),
    "card_without_peak": say("The peak of the {card_name} is not in our table, so its utilisation is unknown."),
    "card_variants": say(
        "It depends on the {card_name} variant: {card_low} of the {fast_card_name} ({fast_tflops}), {card_high} of "
        "the {slow_card_name} ({slow_tflops}). Pass --gpu with the full name."
    ),
    "dtype_float32": say(
        "The share is relative to {card_tflops}, the card's dense {card_precision} peak, which a float32 run cannot "
        "reach."
    ),
    "card_above_peak": say(
        "{card} of the {card_name}'s rated {card_tflops}: more than such a card should reach. Check the card name, "
        "the number of GPUs and the model settings."
    ),
    "utilisation_measured": say(
        "{measured_share} of the {measured_tflops} that large matrix products reach on the {card_name}, as measured "
        "by nanopace tune."
    ),
    "utilisation_near_limit": say(
        "{card} of what the {card_name} can do: close to the card's limit; no batch setting can give much more."
    ),
    "utilisation_good": say(
        "{card} of what the {card_name} can do: well used. A better micro-batch may still help a little."
    ),
    "utilisation_power_limited": say(
        "{card} of what the {card_name} can do, but it is not idle: it was at its power limit in {at_limit} of "
        "{samples} samples ({limited_watts} at {limited_mhz}). More speed takes fewer joules per token, or a higher "
        "limit where the card allows one (nvidia-smi -pl)."
    )
    | say(
        "{card} of what the {card_name} can do, but it is not idle: it was at its power limit in {at_limit} of "
        "{samples} samples (at {limited_mhz}). More speed takes fewer joules per token, or a higher limit where the "
        "card allows one (nvidia-smi -pl)."
    )
    | say(
        "{card} of what the {card_name} can do, but it is not idle: it was at its power limit in {at_limit} of "
        "{samples} samples. More speed takes fewer joules per token, or a higher limit where the card allows one "
        "(nvidia-smi -pl)."
    ),
    "utilisation_half_idle": say(
        "{card} of what the {card_name} can do: more than half the card is idle. Try compile and a larger "
        "batch_size, and check data loading."
    ),
    "utilisation_mostly_idle": say(
        "{card} of what the {card_name} can do: most of the card is idle. Usual reasons: a small model or batch_size, "
        "compile off, dtype float32, slow data loading."
    ),
    "throttled_heat": say(
        "The card was too hot: it throttled its clocks in {throttled_share} of the samples, at up to "
        "{highest_celsius}. Better cooling makes this run faster."
    )
    | say(
        "The card was too hot: it throttled its clocks in {throttled_share} of the samples. Better cooling makes "
        "this run faster."
    ),
    "throttled_hardware": say(
        "The card's hardware throttled its clocks in {throttled_share} of the samples, and not because of heat. "
        "Usual reasons: the power supply or one of its cables."
    ),
    "throttled_power": say(
        "The card was at its power limit in {throttled_share} of the samples ({median_watts} at {median_mhz}). Most "
        "cards are built to run that way; a higher limit (nvidia-smi -pl) gains little speed for much energy."
    )
    | say(
        "The card was at its power limit in {throttled_share} of the samples. Most cards are built to run that way; "
        "a higher limit (nvidia-smi -pl) gains little speed for much energy."
    ),
    "energy": say("The card used {energy_kwh} for this run, {mean_watts} on average.")
    | say("The card used {energy_kwh} for this run."),
    "tokens_unknown": say("Tokens per second are unknown; missing: {missing}. Pass --config FILE or --set NAME=VALUE."),
    "rate_smoothed": say(
        "The tok/s printed by {trainer} is a moving average and far too low for a while after a resume. The speed "
        "here comes from the time of each step."
    ),
    "printed_rate_wrong": say(
        "The printed tok/sec counts {printed_batch} tokens per step, but the batch is {batch}; the speed here comes "
        "from the batch and dt. Until 26 October 2025, nanochat left the accumulation out of its tok/sec."
    ),
}

# Used instead of "mfu_unknown" if the card is missing, because no config file names it.
CARD_UNKNOWN = say(
    "The card's utilisation cannot be computed without {knobs} and the card. Pass --config FILE or --set NAME=VALUE, "
    "and {flag}."
) | say("The card's utilisation cannot be computed: the card is unknown. Pass {flag}.")
