"""Advice: what to change and how much time it would have saved in this run, or that nothing is worth changing.

Each saving assumes that no other advice is followed: for example, the number of evaluations left out times the cost of
one. Where the log allows no estimate (a larger micro-batch, compile), the advice has no figure. Evaluating more often
never saves time, so it is never advised.
"""

from __future__ import annotations

import math

from nanopace.diagnosis.result import Diagnosis, Finding, Number, Step
from nanopace.diagnosis.time.faults import FEW_SKIPPED, training_batch, waited_for_data_s
from nanopace.diagnosis.time.time_findings import stalls_in_doubt_s
from nanopace.errors import CardError
from nanopace.run import Run

_WORTH_TUNING = 0.015  # of overhead: from here on, change the evaluations
_ENOUGH = 0.01  # of overhead: no need to go below this
_FEWEST_EVALUATIONS = 10  # fewer would not show the loss curve
_LARGEST_RAISE = 10  # times the interval
_FEWER_BATCHES = 4  # eval_iters over this: half the precision for three quarters of the cost
_FEWEST_ITERS = 20  # with fewer, the loss is too noisy
_REAL_PART = 0.05  # of the wall clock: worth advice even if a checkpoint of unknown cost is included
_SEVERAL = 2  # evaluations: a single one is not worth advice
_CHECKPOINT_SHARE = 0.003
_FEWER_SAVES = 4
_FEWEST_SAVES = 5
_STALL_SHARE = 0.01
_FEW_STALLS, _FEW_STALLS_S = 3, 1.0  # fewer and shorter ones may not recur, and do not pay for the search
_IDLE_CARD = 0.45  # mfu below which a larger micro-batch can help
_WORTH_COMPILING_S = 600.0  # of training: compiling takes about a minute
_GIB_OF_A_PARAMETER = 16 / (1 << 30)  # itself, its gradient and Adam's two
_LARGEST_BATCH_RAISE = 4  # beyond this, more memory and hardly more speed
# A card that slows down causes no overhead, but the run could be faster.
_SLOWED = 1.05  # the last fifth of the run against the first
_FEW_ROWS = 15  # too few to tell whether the steps became slower
_TROUBLE = frozenset({"memory_spill", "level_shift", "throttled_heat", "throttled_hardware"})


def advise(run: Run, diagnosis: Diagnosis) -> list[Finding]:
    """Return advice, largest saving first, advice without a figure last. If the loss diverged or the log has no times,
    none of it is about speed."""
    diverged = any(finding.code == "loss_diverged" for finding in diagnosis.findings)
    if diverged or not diagnosis.timed:
        of_loss = (_leave_float16(run) if diverged else None, _calm_the_loss(run, diagnosis))
        return [each for each in of_loss if each is not None]
    found = [
        _raise_eval_interval(diagnosis),
        _lower_eval_iters(run, diagnosis),
        _save_less_often(diagnosis),
        _find_the_stall(diagnosis),
        _use_float16(run, diagnosis),
        _calm_the_loss(run, diagnosis),
        _find_the_straggler(diagnosis),
        _smaller_micro_batch(diagnosis),
        _turn_on_compile(run, diagnosis),
        _larger_micro_batch(run, diagnosis),
    ]
    advice = [each for each in found if each is not None]
    advice.sort(key=lambda each: -math.inf if each.saves_s is None else each.saves_s, reverse=True)
    if not advice and _nothing_to_gain(diagnosis):
        advice.append(Finding("nothing_to_change", {"overhead_share": diagnosis.wall.overhead_share}, advice=True))
    return advice


def _saving(diagnosis: Diagnosis, code: str, seconds: float, **numbers: Number) -> Finding:
    return Finding(code, numbers, saves_s=seconds, saves_share=seconds / diagnosis.wall.awake_s, advice=True)


def _nothing_to_gain(diagnosis: Diagnosis) -> bool:
    """Whether too little could be saved, as far as the log shows."""
    wall, mfu = diagnosis.wall, diagnosis.mfu
    card = mfu.card_high if mfu.card is None else mfu.card
    overhead = _overhead(diagnosis)
    if overhead is None or wall.awake_s <= 0 or (card is not None and card < _IDLE_CARD):
        return False
    codes = {finding.code for finding in diagnosis.findings}
    if codes & _TROUBLE or diagnosis.step.normal_rows < _FEW_ROWS or _slowed(diagnosis.step):
        return False
    return overhead + ((wall.stall_s or 0.0) + _late_start_s(diagnosis)) / wall.awake_s < _WORTH_TUNING


def _late_start_s(diagnosis: Diagnosis) -> float:
    """The time of slow rows right after a start, which may have been delayed rather than still compiling."""
    warm_up = [row for row in diagnosis.slow_rows if {"compile", "restart"} & {*row.causes}]
    late = [row for row in warm_up if row is not diagnosis.slow_rows[0] and "evaluation" not in row.causes]
    return sum(row.count * row.excess_ms for row in late) / 1000


def _slowed(step: Step) -> bool:
    """Whether the last steps were slower than the first, for whatever reason."""
    first_ms, last_ms = step.first_fifth_ms, step.last_fifth_ms
    return bool(first_ms and last_ms and last_ms > _SLOWED * first_ms)


# --- evaluations and checkpoints -------------------------------------------------------------------------------------


def _overhead(diagnosis: Diagnosis) -> float | None:
    """The overhead as a share of the time without start-up and stalls: a stall does not make evaluations cheaper."""
    wall, undisturbed_s = diagnosis.wall, _undisturbed_s(diagnosis)
    return (
        wall.overhead_share * wall.awake_s / undisturbed_s
        if wall.overhead_share and undisturbed_s > 0
        else wall.overhead_share
    )


def _undisturbed_s(diagnosis: Diagnosis) -> float:
    wall = diagnosis.wall
    return wall.awake_s - (wall.stall_s or 0.0) - (wall.startup_s or 0.0)


def _overhead_matters(diagnosis: Diagnosis) -> bool:
    several = diagnosis.evaluations.count >= _SEVERAL and diagnosis.wall.awake_s > 0
    return several and (_overhead(diagnosis) or 0.0) >= _WORTH_TUNING


def _raise_eval_interval(diagnosis: Diagnosis) -> Finding | None:
    """Advise the smallest round interval that brings the overhead to 1%, as long as enough evaluations remain."""
    interval, count, overhead = diagnosis.evaluations.interval, diagnosis.evaluations.count, _overhead(diagnosis)
    if not _overhead_matters(diagnosis) or not interval or overhead is None:
        return None
    done = diagnosis.source.last_iteration - diagnosis.source.first_iteration
    planned = max(done, diagnosis.ahead.max_iters or 0)
    largest = min(planned // _FEWEST_EVALUATIONS, interval * _LARGEST_RAISE)
    rounds = [number for number in _round_numbers(largest) if number > interval]
    if not rounds:
        return None
    wanted = interval * overhead / _ENOUGH
    raised = next((number for number in rounds if number >= wanted), rounds[-1])
    kept = done // raised
    if kept >= count:
        return None
    numbers: dict[str, Number] = {
        "from_interval": interval,
        "to_interval": raised,
        "evaluations": planned // raised,
    }
    return _saving(diagnosis, "raise_eval_interval", _saved_by_keeping(diagnosis, kept), **numbers)


def _saved_by_keeping(diagnosis: Diagnosis, kept: int) -> float:
    """The seconds saved if only `kept` evaluations remain; each may also save a checkpoint."""
    wall, saves = diagnosis.wall, diagnosis.checkpoints.count
    checkpoint_s = wall.checkpoint_s or 0.0
    evaluation_s = (wall.overhead_share or 0.0) * wall.awake_s - checkpoint_s
    fewer_saves = 1 - min(saves, kept) / saves if saves else 0.0
    return evaluation_s * (1 - kept / diagnosis.evaluations.count) + checkpoint_s * fewer_saves


def _round_numbers(largest: int) -> list[int]:
    """1, 2, 5, 10, 20, ... up to the largest."""
    magnitudes = range(len(str(max(largest, 1))))
    return [digit * 10**k for k in magnitudes for digit in (1, 2, 5) if digit * 10**k <= largest]


def _lower_eval_iters(run: Run, diagnosis: Diagnosis) -> Finding | None:
    """Advise fewer batches per evaluation, for trainers whose evaluations do nothing else: some run benchmarks or write
    samples."""
    if not run.nanogpt_knobs or not _overhead_matters(diagnosis):
        return None
    iters = run.number("eval_iters")
    if iters is None:
        seconds = _evaluation_s(diagnosis, 1 - 1 / _FEWER_BATCHES)
        numbers: dict[str, Number] = {"factor": _FEWER_BATCHES, "noise_factor": math.sqrt(_FEWER_BATCHES)}
        code = "lower_eval_iters_unknown"
    else:
        lower = max(_FEWEST_ITERS, math.ceil(iters / _FEWER_BATCHES))
        if lower >= iters:
            return None
        seconds = _evaluation_s(diagnosis, 1 - lower / iters)
        numbers = {"from_iters": int(iters), "to_iters": lower, "noise_factor": math.sqrt(iters / lower)}
        code = "lower_eval_iters"
    if seconds is None:  # perhaps the checkpoint takes the time
        return Finding(code, numbers, advice=True) if (_overhead(diagnosis) or 0.0) >= _REAL_PART else None
    return _saving(diagnosis, code, seconds, **numbers)


def _evaluation_s(diagnosis: Diagnosis, share: float) -> float | None:
    """A share of the time of all evaluations; None if it includes a checkpoint of unknown cost, or if checkpoints take
    so long that nothing is left for evaluations."""
    evaluations = diagnosis.evaluations
    each = evaluations.each_ms
    if each is not None and evaluations.contains_checkpoint:
        each = None if evaluations.predicted_ms is None else min(each, evaluations.predicted_ms)
    if each is None:
        return None
    all_s = evaluations.count * each / 1000  # `each` may come from a slow stretch
    spent_s = diagnosis.wall.evaluation_s
    return share * (all_s if spent_s is None else min(all_s, spent_s)) or None


def _save_less_often(diagnosis: Diagnosis) -> Finding | None:
    checkpoints, undisturbed_s = diagnosis.checkpoints, _undisturbed_s(diagnosis)
    if checkpoints.basis != "measured" or checkpoints.each_ms is None or undisturbed_s <= 0:
        return None
    if (_overhead(diagnosis) or 0.0) < _ENOUGH:
        return None
    fewer = max(_FEWEST_SAVES, checkpoints.count // _FEWER_SAVES)
    all_s = min(checkpoints.count * checkpoints.each_ms / 1000, diagnosis.wall.checkpoint_s or math.inf)
    if checkpoints.count <= fewer or all_s < _CHECKPOINT_SHARE * undisturbed_s:
        return None
    saved = (1 - fewer / checkpoints.count) * all_s
    return _saving(diagnosis, "save_less_often", saved, checkpoints=checkpoints.count, to_checkpoints=fewer)


# --- the card and the step -------------------------------------------------------------------------------------------


def _find_the_stall(diagnosis: Diagnosis) -> Finding | None:
    stall_s, total_s = (diagnosis.wall.stall_s or 0.0) - waited_for_data_s(diagnosis.faults), diagnosis.wall.awake_s
    stall_s -= stalls_in_doubt_s(diagnosis.findings)
    known = ("fetch_stalls", "uneven_rows")  # the cause of these, and that each of those lost too little to list
    stall_s -= sum(each.number("total_s") for each in diagnosis.findings if each.code in known)
    if not diagnosis.step.normal_rows or total_s <= 0 or stall_s < _STALL_SHARE * total_s:
        return None
    stalled = sum(row.count for row in diagnosis.slow_rows if {"stall", "periodic"} & {*row.causes})
    if stalled < _FEW_STALLS and stall_s < _FEW_STALLS_S:
        return None
    periodic = next((finding for finding in diagnosis.findings if finding.code == "periodic_stalls"), None)
    if periodic is None:
        return _saving(diagnosis, "find_the_stall", stall_s, interval=None)
    stall_s = min(stall_s, periodic.number("total_s") or stall_s)  # the others have other causes
    return _saving(diagnosis, "find_the_stall", stall_s, interval=periodic.numbers.get("interval"))


def _calm_the_loss(run: Run, diagnosis: Diagnosis) -> Finding | None:
    """Advise when skipped steps or rollbacks point at the learning rate or the data; one or two skipped steps are
    normal."""
    faults, ended = diagnosis.faults, diagnosis.source.ending == "diverged"
    if faults.skipped_steps <= FEW_SKIPPED and not faults.rollbacks and not ended:
        return None
    return Finding("calm_the_loss", {"learning_rate": run.number("learning_rate")}, advice=True)


def _leave_float16(run: Run) -> Finding | None:
    return Finding("leave_float16", advice=True) if run.value("dtype") == "float16" else None


def _find_the_straggler(diagnosis: Diagnosis) -> Finding | None:
    found = next((finding for finding in diagnosis.findings if finding.code == "straggler"), None)
    return found and Finding("find_the_straggler", {"rank": found.numbers["rank"]}, advice=True)


def _smaller_micro_batch(diagnosis: Diagnosis) -> Finding | None:
    """Advise the micro-batch that the run fell back to: that one fits."""
    reached = training_batch(diagnosis.faults)
    if reached is None:
        return None
    numbers = {"to_batch": reached.batch_size, "to_accumulation": reached.accumulation}
    return Finding("smaller_micro_batch", numbers, advice=True)


def _use_float16(run: Run, diagnosis: Diagnosis) -> Finding | None:
    """Advise float16 on a card that has fp16 tensor cores and emulates bf16 in fp32, unless the run was faster than
    fp32 allows."""
    name, dtype, achieved = diagnosis.mfu.card_name, run.value("dtype"), diagnosis.mfu.achieved_tflops
    if name is None or not run.nanogpt_knobs or dtype not in (None, "bfloat16"):
        return None
    from nanopace.hardware.cards import find_cards  # few runs get this far

    try:
        cards = find_cards(name)
    except CardError:
        return None
    emulates = all(card.without_bf16 and card.fp16_tflops is not None for card in cards)
    if not emulates or (achieved or 0.0) > max(card.fp32_tflops or 0.0 for card in cards):
        return None
    return Finding("use_float16", {"card_name": name, "dtype": dtype}, advice=True)


def _turn_on_compile(run: Run, diagnosis: Diagnosis) -> Finding | None:
    if run.value("device") in ("cpu", "mps") or diagnosis.mfu.verdict == "power_limited":
        return None  # on these, compiling takes minutes and gains little; at its power limit, a card gains nothing
    if (diagnosis.wall.training_s or 0.0) + (diagnosis.ahead.eta_s or 0.0) < _WORTH_COMPILING_S:
        return None
    return Finding("turn_on_compile", advice=True) if run.value("compile") is False else None


def _larger_micro_batch(run: Run, diagnosis: Diagnosis) -> Finding | None:
    """Advise two or four times the micro-batch if the card is idle and has the memory for it."""
    card = diagnosis.mfu.card
    if diagnosis.mfu.verdict == "power_limited":
        return None  # at its power limit, the card cannot do more work at once
    batch, accumulation = run.number("batch_size"), run.number("gradient_accumulation_steps")
    if card is None or card >= _IDLE_CARD or not batch or not accumulation:
        return None
    if training_batch(diagnosis.faults) is not None:
        return None  # even the current one did not fit
    fits = _largest_that_fits(run, diagnosis)
    cards = int(run.number("gpu_count") or run.number("world_size") or 1)
    larger, fewer = int(batch), int(accumulation)
    while larger * 2 <= min(fits, batch * _LARGEST_BATCH_RAISE) and fewer % (2 * cards) == 0:
        larger, fewer = larger * 2, fewer // 2
    if larger == batch:
        return None
    numbers = {"from_batch": int(batch), "to_batch": larger, "to_accumulation": fewer}
    return Finding("larger_micro_batch", numbers, advice=True)


def _largest_that_fits(run: Run, diagnosis: Diagnosis) -> int:
    """The largest micro-batch that fits with nanoGPT, and with what more the model has: a head of its own, experts,
    embeddings per layer. 0 if the card's memory or the model's shape is unknown."""
    from nanopace.hardware.cards import find_cards  # few runs get this far
    from nanopace.hardware.flops import parameters
    from nanopace.hardware.memory import largest_micro_batch

    names = ("n_layer", "n_embd", "vocab_size", "block_size")
    layers, width, vocabulary, context = (int(run.number(name) or 0) for name in names)
    memory_gb = run.number("gpu_memory_gb")
    if memory_gb is None and diagnosis.mfu.card_name is not None:
        try:
            memory_gb = min(card.memory_gb for card in find_cards(diagnosis.mfu.card_name))
        except CardError:
            return 0
    if memory_gb is None or min(layers, width, vocabulary, context) <= 0:
        return 0
    more = (run.number("parameters") or 0.0) - parameters(layers, width, vocabulary)
    memory_gb -= _GIB_OF_A_PARAMETER * max(0.0, more)
    return largest_micro_batch((layers, width, vocabulary, context), memory_gb, run.value("compile") is not False)
