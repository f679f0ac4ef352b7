"""Find the fastest settings for a config on this machine by trials: tokens per step, and so the loss, stay the same.

First the micro-batch (micro_batch_search.py), then one knob after the other at that micro-batch, each alternating with
the best so far and kept only if it is better by more than the noise; at the end, the given config and the chosen one
alternate. What the trainer itself finds out at every start is only reported: the attention kernel, the batch of
evaluations, and how much of the layers is recomputed (memory=auto: a larger micro-batch that needs it must be faster
with it).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

from nanopace.config import KNOBS, TrainConfig
from nanopace.errors import UsageError
from nanopace.hardware.calibration import Calibration
from nanopace.ledger import RunEvent
from nanopace.literals import Value
from nanopace.tune.divisors import divisors
from nanopace.tune.search.calibrate_machine import calibrate_machine
from nanopace.tune.search.knob_trials import PAIRS, KnobTrial, in_turns, knobs_to_try, rates_of, try_knobs
from nanopace.tune.search.memory_limit import fits_in
from nanopace.tune.search.micro_batch_search import (
    Cost,
    Probe,
    alike,
    candidates,
    cost,
    next_probe,
    pick,
    predicted_knee,
)
from nanopace.tune.search.trial_runner import Changed, TrialRunner, Tried
from nanopace.tune.shapley import Share

_SLOWER = 0.02  # than the given config: if the chosen one loses more than this, it is rejected
# What the machine decides if no config is given; the rest of it is a schedule for two minutes.
_OF_THE_MACHINE = (
    *("dataset", "n_layer", "n_head", "n_embd", "block_size", "vocab_size", "dropout", "learning_rate", "min_lr"),
    *("gradient_accumulation_steps", "batch_size", "dtype"),
)
_OF_THE_TRAINER = ("kernels", "attention", "memory", "fp8", "evaluation")


@dataclass(frozen=True, slots=True)
class Change:
    """A knob of the given config that was changed, and why."""

    knob: str
    before: Value
    after: Value
    reason: str  # micro_batch, tokens_per_step, faster


@dataclass(frozen=True, slots=True)
class Tuned:
    """The result."""

    settings: Mapping[str, Value]  # all that were given, with the chosen values
    changes: tuple[Change, ...]
    gain: Share | None  # of the logarithm of the speed; None if nothing was changed
    tokens_per_second: tuple[float | None, float]  # of the given config and of the chosen one
    sequences: int  # per step
    block_size: int
    cost: Cost | None  # of a micro-batch
    knobs: tuple[KnobTrial, ...]
    trials: tuple[Tried, ...]
    complete: bool  # else the budget ended the search for the micro-batch
    predicted_wall: int | None  # the smallest micro-batch that was not tried, because it is not expected to fit
    found_out: Mapping[str, str]  # by the trainer itself, with the chosen config: attention, memory, ..., and why
    data_share: float | None  # of the steps' time, with the chosen config
    gpu: str | None
    calibration: Calibration | None  # what matrix products reach here
    utilisation: float | None  # of that, by the chosen config


def tune(given: Changed | None, folder: Path, budget_s: float, tell: Callable[[Tried], None] = lambda _: None) -> Tuned:
    """`given`: the knobs of a config; None: what `nanopace train` would train by itself."""
    trials = TrialRunner(given, folder, budget_s, tell)
    event = _first(trials, budget_s)
    config = TrainConfig(**event.config)  # type: ignore[arg-type]
    if given is None:
        given = {name: event.config[name] for name in _OF_THE_MACHINE}
        trials.use_config(given)
    sequences = config.batch_size * config.gradient_accumulation_steps
    search = _search(trials, candidates(sequences, fits_in(event, config)), config.batch_size, sequences)
    count = pick(search.probes)
    if count is None:
        least = min(search.probes)
        raise UsageError("memory ran out with every micro-batch tried, down to {count}", count=least)
    best = _micro_batch(count, sequences, config.batch_size)
    best, knobs = try_knobs(trials, best, knobs_to_try(config, event.gpu is not None))
    begin = len(trials.tried)
    gain = in_turns(trials, {}, best, begin, PAIRS, reserve=0) if best else None
    if gain is not None and not gain.shows:
        gain = in_turns(trials, {}, best, begin, 1, reserve=0)
    if gain is not None and gain.value < math.log(1 - _SLOWER):
        best, gain = {}, None  # other work on the machine misled the search
    before, after = rates_of(trials, {}, best, begin)
    calibration = calibrate_machine(event, config, trials.left_s, trials.folder)
    return Tuned(
        settings={**given, **best},
        changes=tuple(_change(knob, config, value) for knob, value in best.items()),
        gain=gain,
        tokens_per_second=(geometric_mean(before) if before else None, geometric_mean(after)),
        sequences=sequences,
        block_size=config.block_size,
        cost=cost(_all_probes(trials, config.batch_size), sequences),
        knobs=knobs,
        trials=tuple(trials.tried),
        complete=search.complete,
        predicted_wall=next((each for each in divisors(sequences) if each not in search.allowed), None),
        found_out=_found_out(trials.introduced(best)),
        data_share=trials.data_share(best),
        gpu=event.gpu,
        calibration=calibration,
        utilisation=_utilisation(event, calibration, geometric_mean(after)),
    )


def _first(trials: TrialRunner, budget_s: float) -> RunEvent:
    """Run the given config unchanged: what it is, whether it trains at all, and how long a trial takes."""
    pilot = trials.run({})
    if pilot.failure == "time":
        raise UsageError(
            "--budget {budget:g}s: a single trial takes longer than that here; increase it", budget=budget_s
        )
    if pilot.failure == "error":
        raise UsageError("the given config fails to train: {said}", said=pilot.said)
    event = trials.introduced({})
    if event is None:
        raise UsageError("the given config fails to train: {said}", said=pilot.said)
    if pilot.worked and not trials.affords({}):
        enough = 10 * math.ceil((pilot.seconds + 8 * trials.trial_s) / 10)
        raise UsageError(
            "--budget {budget:g}s is too short for two trials: one takes {trial:.1f} s here; use --budget {enough}s",
            budget=budget_s,
            trial=trials.trial_s,
            enough=enough,
        )
    return event


# --- the micro-batch -------------------------------------------------------------------------------------------------


def _micro_batch(count: int, sequences: int, before: int) -> dict[str, Value]:
    return {} if count == before else {"batch_size": count, "gradient_accumulation_steps": sequences // count}


@dataclass(frozen=True, slots=True)
class _Search:
    """All micro-batches tried among those predicted to fit, and whether there was time for all."""

    allowed: Sequence[int]
    probes: Mapping[int, Probe]
    complete: bool


def _search(trials: TrialRunner, allowed: Sequence[int], given: int, sequences: int) -> _Search:
    """Search while enough of the budget is left for a comparison."""
    probes = {given: _probe(trials.tried[0], given)}
    once = {given}
    while (count := _next(allowed, given, probes, once)) is not None:
        changed = _micro_batch(count, sequences, given)
        if not trials.affords(changed, others=2 if len(probes) > 1 else 0):
            return _Search(allowed, probes, False)
        trials.run(changed)
        before, probes[count] = probes.get(count), _probe(trials.tried[-1], count)  # the second of two counts
        once ^= {count}
        if before is not None and alike(before, probes[count]):
            once.clear()  # if the machine repeats its result, there is no need for a third trial
    return _Search(allowed, probes, True)


def _next(allowed: Sequence[int], given: int, probes: Mapping[int, Probe], once: Collection[int]) -> int | None:
    """What the search asks for; else a second trial of the fastest or of the chosen one: a single trial may be lucky,
    and the search would stop next to it."""
    count = next_probe(allowed, given, probes)
    if count is not None:
        return count
    good = {each.sequences: each for each in probes.values() if each.fits}
    if len(good) < 2 or predicted_knee(sorted(good), good) is not None:
        return None  # on a line with all the others, none is lucky
    fastest = min(good.values(), key=lambda probe: probe.ms).sequences
    return next((each for each in (fastest, pick(probes)) if each in once), None)


def _probe(tried: Tried, count: int) -> Probe:
    """A trial as a probe: it did not fit if the trainer had to make it smaller, or if it failed in any other way."""
    outcome = tried.outcome
    return Probe(count, outcome.step_ms if outcome.worked and outcome.micro_batch is None else ())


def _all_probes(trials: TrialRunner, given: int) -> dict[int, Probe]:
    """The steps of all trials of a micro-batch together, including those at the end."""
    found: dict[int, Probe] = {}
    for tried in trials.tried:
        if set(tried.changed) <= {"batch_size", "gradient_accumulation_steps"}:
            count = int(tried.changed.get("batch_size", given))
            before = found[count].step_ms if count in found else ()
            found[count] = Probe(count, (*before, *_probe(tried, count).step_ms))
    return found


# --- what came of it -------------------------------------------------------------------------------------------------


def _change(knob: str, config: TrainConfig, value: Value) -> Change:
    reasons = {"batch_size": "micro_batch", "gradient_accumulation_steps": "tokens_per_step"}
    before = getattr(config, knob, KNOBS[knob].default)
    return Change(knob, before, value, reasons.get(knob, "faster"))


def _found_out(event: RunEvent | None) -> dict[str, str]:
    return {} if event is None else {name: why for name, why in event.choices.items() if name in _OF_THE_TRAINER}


def _utilisation(event: RunEvent, calibration: Calibration | None, rate: float) -> float | None:
    if calibration is None or event.flops_per_token is None:
        return None
    return event.flops_per_token * rate / 1e12 / calibration.model_tflops
