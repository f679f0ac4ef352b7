"""What to train on a card, and how: one card, one model, one budget of tokens in; settings with their reasons out.

Everything is arithmetic on hardware/: nothing is measured, no card is needed. What cannot be told is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nanopace.errors import UsageError
from nanopace.hardware.cards import Card
from nanopace.hardware.memory import GIB, fused_peak_bytes, ladder, peak_bytes
from nanopace.hardware.scaling_law import expected_loss, perplexity
from nanopace.hardware.speed import Range, card_class, own_kernels, pace
from nanopace.record import Record
from nanopace.tune.fitting import MicroBatch, Rung, largest_released, pick_micro_batch, rungs, sequences_per_step
from nanopace.tune.knobs import Choice, Frame, choices
from nanopace.tune.models import NAMED, Model
from nanopace.tune.several import SEVERAL, Together, link_of, together

JSON_VERSION = 1
STEP_TOKENS = 524_288
TOKENS_PER_PARAMETER = 20  # Hoffmann et al. 2022
TWO_WEEKS_S = 14 * 86400.0
# Training tokens with GPT-2's tokenizer: nanoGPT's README, and the name of the sample.
CORPUS_TOKENS: Mapping[str, int] = {
    "fineweb-edu": 10_000_000_000,
    "openwebtext": 9_035_582_198,
    "shakespeare": 301_966,
    "shakespeare_char": 1_003_854,
}


class Recommendation(Record):
    """One card and one model. Rates and times are of training alone: evaluation and checkpoints stay below 1%."""

    version: int
    card: str
    memory_gb: float
    peak_tflops: float | None
    card_class: str
    measured: bool  # whether cards of this class were
    model: Model
    parameters: int
    dataset: str
    epochs: float | None
    tokens: int
    tokens_per_step: int
    max_iters: int
    rungs: tuple[Rung, ...]
    batch_size: int
    accumulation: int
    ladder: tuple[str, ...]
    memory_bytes: int
    nanogpt_fits: bool  # the same micro-batch
    tokens_per_s: Range | None
    nanogpt_tokens_per_s: Range | None
    step_s: Range | None
    seconds: Range | None
    kwh: Range | None
    together: tuple[Together, ...]
    loss: Range
    perplexity: Range
    evaluation_share: float  # of the time, with nanopace
    nanogpt_evaluation_share: float  # both splits, and the checkpoint keeps it waiting
    knobs: tuple[Choice, ...]


def recommend(
    card: Card,
    model: Model,
    *,
    tokens: int | None = None,
    step_tokens: int = STEP_TOKENS,
    dataset: str = "fineweb-edu",
) -> Recommendation:
    """The settings; UsageError where the model fits in no way, or the budget is less than one step."""
    budget = tokens if tokens is not None else TOKENS_PER_PARAMETER * model.parameters
    if step_tokens < model.block_size:
        raise UsageError(
            "--batch {tokens}: less than one sequence of {block_size} tokens; give more",
            tokens=f"{step_tokens:,}",
            block_size=model.block_size,
        )
    sequences = sequences_per_step(step_tokens, model.block_size)
    found_rungs = rungs(card, model, sequences)
    if not any(rung.micro_batch for rung in found_rungs):
        raise does_not_fit(card, model)
    micro = pick_micro_batch(card, model, sequences)
    accumulation = sequences // micro.sequences
    per_step = sequences * model.block_size
    if budget < per_step:
        raise UsageError(
            "--tokens {tokens}: less than one step of {step}; give more, or a smaller --batch",
            tokens=f"{budget:,}",
            step=f"{per_step:,}",
        )
    max_iters = max(1, round(budget / per_step))
    trained = max_iters * per_step
    epochs = trained / CORPUS_TOKENS[dataset] if dataset in CORPUS_TOKENS else None
    speed = pace(card, *model.size, micro.sequences, accumulation, steps=micro.steps)
    most_in_nanogpt = found_rungs[-1].micro_batch
    in_nanogpt = most_in_nanogpt >= micro.sequences
    foreign = pace(card, *model.size, micro.sequences, accumulation, trainer="nanogpt") if in_nanogpt else None
    loss = expected_loss(model.parameters, trained)
    seconds = None if speed is None else speed.time_of(trained)
    frame = Frame(
        card=card,
        model=model,
        micro=micro,
        accumulation=accumulation,
        tokens_per_step=per_step,
        max_iters=max_iters,
        chinchilla=tokens is None,
        dataset=dataset,
        epochs=epochs,
        step_s=None if speed is None else per_step / speed.expected,
    )
    chosen = choices(frame)
    return Recommendation(
        version=JSON_VERSION,
        card=card.name,
        memory_gb=card.memory_gb,
        peak_tflops=card.bf16_tflops,
        card_class=card_class(card).name,
        measured=card_class(card).measured,
        model=model,
        parameters=model.parameters,
        dataset=dataset,
        epochs=epochs,
        tokens=trained,
        tokens_per_step=per_step,
        max_iters=max_iters,
        rungs=found_rungs,
        batch_size=micro.sequences,
        accumulation=accumulation,
        ladder=micro.steps,
        memory_bytes=_memory(card, model, micro),
        nanogpt_fits=in_nanogpt,
        tokens_per_s=speed,
        nanogpt_tokens_per_s=foreign,
        step_s=None if speed is None else speed.time_of(per_step),
        seconds=seconds,
        kwh=None if seconds is None or card.tdp_w is None else seconds.times(card.tdp_w / 3.6e6),
        together=(
            Together(1, micro.sequences, accumulation, None, speed, seconds),
            *(
                _together(card, model, count, sequences, min(most_in_nanogpt, micro.sequences), trained)
                for count in SEVERAL
            ),
        ),
        loss=loss,
        perplexity=perplexity(loss),
        evaluation_share=chosen.evaluation_share,
        nanogpt_evaluation_share=chosen.nanogpt_evaluation_share,
        knobs=chosen.knobs,
    )


def best_model(card: Card, *, tokens: int | None = None) -> Model:
    """The largest of the named ones that fits and is trained within two weeks; else the smallest that fits."""
    fitting = [model for model in NAMED.values() if fits(card, model)]
    if not fitting:
        raise does_not_fit(card, next(iter(NAMED.values())))
    timed = [(model, seconds_to(card, model, tokens)) for model in fitting]
    soon = [model for model, seconds in timed if seconds is not None and seconds.expected <= TWO_WEEKS_S]
    return soon[-1] if soon else fitting[0]


def seconds_to(card: Card, model: Model, tokens: int | None = None) -> Range | None:
    """To the budget, at the micro-batch that would be recommended."""
    sequences = sequences_per_step(STEP_TOKENS, model.block_size)
    micro = pick_micro_batch(card, model, sequences)
    speed = pace(card, *model.size, micro.sequences, sequences // micro.sequences, steps=micro.steps)
    return None if speed is None else speed.time_of(tokens or TOKENS_PER_PARAMETER * model.parameters)


def fits(card: Card, model: Model, step_tokens: int = STEP_TOKENS) -> bool:
    sequences = sequences_per_step(step_tokens, model.block_size)
    return any(rung.micro_batch for rung in rungs(card, model, sequences))


def does_not_fit(card: Card, model: Model) -> UsageError:
    """Says what would: steps of one micro-batch, a smaller model, or how much memory."""
    most = largest_released(card, model)
    least = _least_bytes(card, model)
    smaller = [each for each in NAMED.values() if each.parameters < model.parameters and fits(card, each)]
    values = {
        "model": model.name,
        "card": card.name,
        "memory": f"{card.memory_gb:g}",
        "needed": f"{least / GIB:.1f}",
        "room": f"{least / GIB / 0.9:.0f}",
    }
    if most:
        return UsageError(
            "{model} does not fit on {card}: one sequence takes {needed} GiB where gradients are kept, and there are "
            "{memory}; take --batch {tokens} or less, so that a step is one micro-batch, or a card with {room} GB and "
            "more",
            tokens=most * model.block_size,
            **values,
        )
    if smaller:
        return UsageError(
            "{model} does not fit on {card}: one sequence takes {needed} GiB where gradients are kept, and there are "
            "{memory}; take --model {smaller}, or a card with {room} GB and more",
            smaller=smaller[-1].name,
            **values,
        )
    return UsageError(
        "{model} does not fit on {card}: one sequence takes {needed} GiB where gradients are kept, and there are "
        "{memory}; take fewer layers, a smaller block_size, or a card with {room} GB and more",
        **values,
    )


def _least_bytes(card: Card, model: Model) -> int:
    """Of one sequence, with gradients."""
    if own_kernels(card):
        return fused_peak_bytes(*model.size, 1, ladder("gpt2"))
    return peak_bytes(*model.size, 1)


def _memory(card: Card, model: Model, micro: MicroBatch) -> int:
    if own_kernels(card):
        return fused_peak_bytes(*model.size, micro.sequences, micro.steps)
    return peak_bytes(*model.size, micro.sequences)


def _together(card: Card, model: Model, count: int, sequences: int, most: int, tokens: int) -> Together:
    """Several cards with what torch.compile makes of it, since our kernels train on one."""
    possible = [each for each in _divisors(sequences) if each <= most and sequences // each % count == 0]
    if not possible:
        return Together(count, 0, 0, link_of(card), None, None)
    batch_size = possible[-1]
    one = pace(card, *model.size, batch_size, max(1, sequences // batch_size // count), trainer="nanogpt")
    if one is None:
        return Together(count, batch_size, sequences // batch_size, link_of(card), None, None)
    rate = together(one, count, sequences * model.block_size, model.parameters, link_of(card))
    return Together(count, batch_size, sequences // batch_size, link_of(card), rate, rate.time_of(tokens))


def _divisors(number: int) -> Sequence[int]:
    return [each for each in range(1, number + 1) if number % each == 0]
