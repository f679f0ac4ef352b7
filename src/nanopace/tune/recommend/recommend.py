"""What to train on a card, and how: takes a card, a model and a token budget, returns settings with their reasons.

Everything is calculated from hardware/: nothing is measured, and no card is needed. Unknowns are None.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nanopace.errors import UsageError
from nanopace.hardware.card_classes import card_class
from nanopace.hardware.cards import Card
from nanopace.hardware.memory import GIB, host_bytes
from nanopace.hardware.scaling_law import expected_loss, perplexity, where_it_ends, worth_in_passes
from nanopace.hardware.speed import Range, pace, training_peak
from nanopace.memory_ladder import useful_steps
from nanopace.tune.divisors import divisors
from nanopace.tune.recommend.budget import STEP_TOKENS, budget_of, enough_of, is_short, regularised
from nanopace.tune.recommend.choices import Choice, Frame, choices
from nanopace.tune.recommend.datasets import KNOWN, Dataset
from nanopace.tune.recommend.micro_batch import (
    Rung,
    host_micro_batch,
    host_rung,
    memory_of,
    pick_micro_batch,
    rungs,
    sequences_per_step,
    trainer_of,
)
from nanopace.tune.recommend.models import NAMED, SMALL, Model, in_vocabulary
from nanopace.tune.recommend.several_cards import SEVERAL, Together, link_of, together
from nanopace.tune.recommend.with_fast import fast_seconds

JSON_VERSION = 1
TWO_WEEKS_S = 14 * 86400.0
DEFAULT_DATASET = KNOWN["fineweb-edu"]


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One card and one model. Speeds and times are for training alone: see `evaluation_share`."""

    version: int
    card: str
    memory_gb: float
    peak_tflops: float | None  # dense, in the number format below
    precision: str | None  # bf16, or fp16 or fp32 on a card without it; None if the peak is unknown
    card_class: str
    measured: bool  # whether cards of this class were measured
    model: Model
    parameters: int
    dataset: str
    dataset_tokens: int | None  # for training; None if unknown, like the next four
    epochs: float | None
    effective_tokens: int | None  # fresh ones that would teach as much
    enough_tokens: int | None  # beyond this, returns diminish extremely fast
    enough_iters: int | None
    tokens: int
    tokens_per_step: int
    max_iters: int
    rungs: tuple[Rung, ...]
    batch_size: int
    accumulation: int
    ladder: tuple[str, ...]
    memory_bytes: int
    host_bytes: int  # of the host's memory; 0 unless the model fits only with it
    nanogpt_fits: bool  # with the same micro-batch
    tokens_per_s: Range | None
    nanogpt_tokens_per_s: Range | None
    nanogpt_early_tokens_per_s: Range | None  # as in logs up to May 2024
    step_s: Range | None
    seconds: Range | None
    fast_seconds: Range | None  # to the same loss with recipe=fast; None unless something comparable was measured
    kwh: Range | None
    together: tuple[Together, ...]
    loss: Range | None
    perplexity: Range | None
    loss_unknown: str | None  # which limit of the scaling laws is exceeded, if no loss is given
    evaluation_share: float  # of the time, with nanopace
    nanogpt_evaluation_share: float  # both splits, and training waits for the checkpoint
    knobs: tuple[Choice, ...]


def recommend(
    card: Card,
    model: Model,
    *,
    tokens: int | None = None,
    step_tokens: int | None = None,
    dataset: Dataset = DEFAULT_DATASET,
) -> Recommendation:
    """Recommend settings; UsageError if the model does not fit in any way, or the budget is less than one step."""
    budget = budget_of(model, dataset, tokens, step_tokens)
    sequences, trained = budget.sequences, budget.tokens
    enough = enough_of(model, dataset, step_tokens)
    with_dropout = regularised(model, dataset, trained)
    model = with_dropout if fits(card, with_dropout, budget.per_step) else model
    found_rungs = rungs(card, model, sequences)
    if any(rung.micro_batch for rung in found_rungs):
        micro = pick_micro_batch(card, model, sequences)
    else:
        with_host = host_micro_batch(card, model, sequences)
        if with_host is None:
            raise does_not_fit(card, model)
        micro = with_host
        found_rungs = (*found_rungs[:-1], host_rung(card, model, micro.steps), found_rungs[-1])
    accumulation = sequences // micro.sequences
    epochs = None if dataset.tokens is None else trained / dataset.tokens
    trainer = trainer_of(card, model)
    speed = pace(card, model.size, micro.sequences, accumulation, trainer=trainer, steps=micro.steps)
    most_in_nanogpt = found_rungs[-1].micro_batch
    in_nanogpt = most_in_nanogpt >= micro.sequences
    foreign = pace(card, model.size, micro.sequences, accumulation, trainer="nanogpt") if in_nanogpt else None
    old = pace(card, model.size, micro.sequences, accumulation, trainer="nanogpt_early") if in_nanogpt else None
    law = (model.parameters, trained, min(dataset.tokens or trained, trained), dataset.vocab_size or model.vocab_size)
    loss = expected_loss(*law)
    seconds = None if speed is None else speed.time_of(trained)
    with_fast = fast_seconds(card, model, micro.sequences, trained, speed, foreign)
    frame = Frame(
        card=card,
        model=model,
        micro=micro,
        accumulation=accumulation,
        budget=budget,
        dataset=dataset,
        epochs=epochs,
        step_s=None if speed is None else budget.per_step / speed.expected,
        fast_s=None if with_fast is None else with_fast.expected,
    )
    knobs, (own_share, nanogpt_share) = choices(frame)
    peak = training_peak(card)
    return Recommendation(
        version=JSON_VERSION,
        card=card.name,
        memory_gb=card.memory_gb,
        peak_tflops=None if peak is None else peak.tflops,
        precision=None if peak is None else peak.precision,
        card_class=card_class(card).name,
        measured=card_class(card).measured,
        model=model,
        parameters=model.parameters,
        dataset=dataset.name,
        dataset_tokens=dataset.tokens,
        epochs=epochs,
        effective_tokens=None
        if epochs is None or dataset.tokens is None
        else round(dataset.tokens * worth_in_passes(epochs)),
        enough_tokens=None if enough is None else enough.tokens,
        enough_iters=None if enough is None else enough.max_iters,
        tokens=trained,
        tokens_per_step=budget.per_step,
        max_iters=budget.max_iters,
        rungs=found_rungs,
        batch_size=micro.sequences,
        accumulation=accumulation,
        ladder=micro.steps,
        memory_bytes=memory_of(card, model, micro.sequences, micro.steps),
        host_bytes=host_bytes(model.size, micro.sequences, micro.steps),
        nanogpt_fits=in_nanogpt,
        tokens_per_s=speed,
        nanogpt_tokens_per_s=foreign,
        nanogpt_early_tokens_per_s=old,
        step_s=None if speed is None else speed.time_of(budget.per_step),
        seconds=seconds,
        fast_seconds=with_fast,
        kwh=None if seconds is None or card.tdp_w is None else seconds.times(card.tdp_w / 3.6e6),
        together=(
            Together(1, micro.sequences, accumulation, None, speed, seconds),
            *_several(card, model, sequences, min(most_in_nanogpt, micro.sequences), trained),
        ),
        loss=loss,
        perplexity=None if loss is None else perplexity(loss),
        loss_unknown=where_it_ends(*law),
        evaluation_share=own_share,
        nanogpt_evaluation_share=nanogpt_share,
        knobs=knobs,
    )


def considered(dataset: Dataset) -> list[Model]:
    """The models to choose from if none was requested."""
    named = [in_vocabulary(model, dataset.vocab_size) for model in NAMED.values()]
    return [in_vocabulary(SMALL, dataset.vocab_size), *named] if is_short(dataset, named[0]) else named


def best_model(card: Card, dataset: Dataset = DEFAULT_DATASET, *, tokens: int | None = None) -> Model:
    """The largest that fits, has enough text and trains within two weeks; else the smallest that fits."""
    models = considered(dataset)
    fitting = [model for model in models if fits(card, model)]
    if not fitting:
        raise does_not_fit(card, models[0])
    fed = [model for model in fitting if not is_short(dataset, model)] or fitting[:1]
    timed = [(model, seconds_to(card, model, dataset, tokens)) for model in fed]
    soon = [model for model, seconds in timed if seconds is not None and seconds.expected <= TWO_WEEKS_S]
    return soon[-1] if soon else fed[0]


def seconds_to(card: Card, model: Model, dataset: Dataset, tokens: int | None = None) -> Range | None:
    """The time to train the budget at the recommended micro-batch."""
    budget = budget_of(model, dataset, tokens)
    micro = pick_micro_batch(card, model, budget.sequences)
    count, trainer = budget.sequences // micro.sequences, trainer_of(card, model)
    speed = pace(card, model.size, micro.sequences, count, trainer=trainer, steps=micro.steps)
    return None if speed is None else speed.time_of(budget.tokens)


def fits(card: Card, model: Model, step_tokens: int = STEP_TOKENS) -> bool:
    sequences = sequences_per_step(step_tokens, model.block_size)
    return any(rung.micro_batch for rung in rungs(card, model, sequences))


def does_not_fit(card: Card, model: Model) -> UsageError:
    """An error that names what would fit: a smaller model, or how much memory."""
    least = memory_of(card, model, 1, useful_steps("gpt2"))
    smaller = [each for each in NAMED.values() if each.parameters < model.parameters and fits(card, each)]
    values = {
        "model": model.name,
        "card": card.name,
        "memory": card.memory_gb,
        "needed": least / GIB,
        "room": least / GIB / 0.9,
    }
    if smaller:
        return UsageError(
            "{model} does not fit on {card}: one sequence needs {needed:,.1f} GiB if gradients are kept, but there are "
            "only {memory:,g}; use --model {smaller}, or a card with {room:,.0f} GB or more",
            smaller=smaller[-1].name,
            **values,
        )
    return UsageError(
        "{model} does not fit on {card}: one sequence needs {needed:,.1f} GiB if gradients are kept, but there are "
        "only {memory:,g}; use fewer layers, a smaller block_size, or a card with {room:,.0f} GB or more",
        **values,
    )


def _several(card: Card, model: Model, sequences: int, most: int, tokens: int) -> Iterator[Together]:
    """Several cards, at the speed of torch.compile, because our kernels only train on one card."""
    link = link_of(card)
    for count in SEVERAL:
        possible = [each for each in divisors(sequences) if each <= most and sequences // each % count == 0]
        if not possible or link is None:
            continue
        batch_size = possible[-1]
        one = pace(card, model.size, batch_size, max(1, sequences // batch_size // count), trainer="nanogpt")
        if one is not None:
            rate = together(one, count, sequences * model.block_size, model.parameters, link)
            yield Together(count, batch_size, sequences // batch_size, link, rate, rate.time_of(tokens))
