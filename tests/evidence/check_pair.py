"""What would make each finding about two runs false. The best so far decides which is ahead, not the last value."""

# ruff: noqa: ARG001 (all checkers are called alike)
from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any

from nanopace.diagnosis.comparison import Comparison

from .check import exactly, first_of, off, open_step
from .pair import Pair, best_until, speed_of
from .truth import START_S, Truth, val_of

Numbers = Mapping[str, Any]
BOOKKEEPING = {"log_interval", "eval_interval", "eval_iters", "always_save_checkpoint", "max_iters"}

NOT_IN_TEXT_LOGS: Mapping[str, str] = {
    "compare_other_tokenizer": "a ledger, which names its tokenizer",
    "compare_other_corpus": "a ledger, which knows its corpus",
    "compare_sooner_bits": "a ledger, which counts bytes",
    "compare_arrival_equal_bits": "a ledger, which counts bytes",
    "compare_other_vocabulary": "another vocabulary; none is built here",
    "compare_vocabulary_inferred": "another vocabulary; none is built here",
    "compare_other_token_length": "losses in bits per byte; no log of nanoGPT has them",
    "compare_other_metric": "losses in two units; none are built here",
}


RANKING = (
    "compare_loss_tokens",
    "compare_loss_iterations",
    "compare_leads_time",
    "compare_crossover",
    "compare_sooner",
    "compare_end_lower",
    "compare_end_higher",
)
UNKNOWN_DATA = ("compare_data_unknown",)  # what says so, first


Checker = Callable[[Pair, Numbers, Comparison], "str | None"]
CHECKS: dict[str, Checker] = {}


def check(*codes: str) -> Callable[[Checker], Checker]:
    def note(checker: Checker) -> Checker:
        CHECKS.update(dict.fromkeys(codes, checker))
        return checker

    return note


def pair_complaints(pair: Pair, comparison: Comparison) -> Iterator[tuple[str, str]]:
    for finding in comparison.findings:
        if finding.code in NOT_IN_TEXT_LOGS:
            yield finding.code, f"it takes {NOT_IN_TEXT_LOGS[finding.code]}"
        elif (checker := CHECKS.get(finding.code)) and (why := checker(pair, finding.numbers, comparison)):
            yield finding.code, why
    parts = comparison.decomposition
    terms = [getattr(parts, name) for name in type(parts).__slots__ if name != "total"]
    if parts.total is not None and parts.flops_per_token is not None:
        summed = sum(term for term in terms if term is not None)
        if abs(summed - parts.total) > 1e-6:
            yield "decomposition", f"its parts sum to {summed}, not to {parts.total}"
    yield from _arithmetic(comparison)
    codes = {finding.code for finding in comparison.findings}
    if codes & {*RANKING} and not pair.same_data_known and not codes & {*UNKNOWN_DATA}:
        yield "unknown data", f"{', '.join(sorted(codes & {*RANKING}))}, and no log names its data"
    if "compare_speed" in codes and "compare_speed_equal" in codes:
        yield "compare_speed", "beside compare_speed_equal"
    if len(codes & {"compare_one_knob", "compare_several_knobs", "compare_same_settings"}) > 1:
        yield "compare_one_knob", f"beside {codes}"


def _arithmetic(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """If tokens cost the same in both runs, the one with fewer tokens per second does not reach more TFLOP/s."""
    a, b = comparison.a, comparison.b
    if a.model.flops_per_token is None or a.model.flops_per_token != b.model.flops_per_token:
        return
    rates, achieved = comparison.tokens_per_s, (a.mfu.achieved_tflops, b.mfu.achieved_tflops)
    if rates.ratio is not None and achieved[0] and achieved[1]:
        ratio = achieved[1] / achieved[0]
        if abs(math.log(ratio / rates.ratio)) > 0.01:
            yield "achieved_tflops", f"x{ratio:.3f} TFLOP/s for x{rates.ratio:.3f} tokens/s"


def ranks(pair: Pair) -> str | None:
    """Whether losses may be ranked at all."""
    if pair.a.plan.dataset != pair.b.plan.dataset and pair.a.plan.header and "dataset = " in pair.b.text:
        return "the losses are on different data"
    return None


def over_time(pair: Pair) -> str | None:
    return ranks(pair) or (f"a log begins at {pair.late[0].rows[0].iteration}" if pair.late else None)


@check("compare_speed")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    fast, slow = speed_of(pair.named(said["faster"])), speed_of(pair.named(said["slower"]))
    return first_of(
        None if fast[1] > slow[0] else f"{said['faster']} is not faster: {fast} against {slow}",
        off("faster", said["faster_tokens_per_s"], *fast),
        off("slower", said["slower_tokens_per_s"], *slow),
    )


@check("compare_speed_equal")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    a, b = speed_of(pair.a), speed_of(pair.b)
    return None if a[0] <= b[1] and b[0] <= a[1] else f"{a} against {b} tokens/s"


@check("compare_speed_unclear")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    faster, slower = speed_of(pair.named(said["faster"])), speed_of(pair.named(said["slower"]))
    return None if faster[0] <= 1.05 * slower[1] or any_held(pair) else f"{faster} against {slower} tokens/s"


def any_held(pair: Pair) -> bool:
    """Whether so many of few rows were delayed that they tell little."""
    return any(sum(row.stall_ms > 0 for row in truth.plain) > 0.3 * len(truth.plain) for truth in (pair.a, pair.b))


@check("compare_speed_unknown", "compare_settings_unknown")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    known = all("tokens per iteration" in truth.text for truth in (pair.a, pair.b))
    return "both logs tell it" if known else None


@check("compare_step_unknown")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    return "rows of it are plain steps" if pair.named(said["run"]).plain else None


@check("compare_untimed", "compare_both_untimed")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    return "its rows have times" if comparison.a.timed and comparison.b.timed else None


@check("compare_clock_unknown")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    truth = pair.named(said["run"])
    return "rows tell what its steps take" if truth.plain or truth.plan.log_interval == 1 else None


@check("compare_time_per_iteration")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    fast, slow = pair.named(said["faster"]), pair.named(said["slower"])
    by = [truth.step_ms * (open_step(truth) + truth.unsteady) for truth in (fast, slow)]
    return first_of(
        off("faster_ms", said["faster_ms"], fast.step_ms, by=by[0]),
        off("slower_ms", said["slower_ms"], slow.step_ms, by=by[1]),
    )


@check("compare_why", "compare_why_unknown_peak")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    true = pair.a.plan.shape.flops_per_token / pair.b.plan.shape.flops_per_token - 1
    return off("flops_per_token_share", said["flops_per_token_share"], true, by=0.01)


@check("compare_loss_tokens", "compare_loss_iterations")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    better, worse = pair.named(said["better"]), pair.named(said["worse"])
    places = [
        said["tokens"] / truth.plan.shape.tokens * 1.001 if "tokens" in said else said["iteration"]
        for truth in (better, worse)
    ]
    of_better, of_worse = best_until(better, iteration=places[0]), best_until(worse, iteration=places[1])
    wrong = of_better > of_worse + pair.noise
    return ranks(pair) or (f"its best is {of_better} against {of_worse}" if wrong else None)


def said_to_have_risen(comparison: Comparison) -> bool:
    """ "Is ahead", by its best: then the report says in addition that it has risen since."""
    return any(finding.code == "compare_risen" for finding in comparison.findings)


@check("compare_diverged")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    return exactly("iteration", said["iteration"], pair.named(said["run"]).nan_from)


@check("compare_risen")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    truth = pair.named(said["run"])
    best = min(truth.curve, key=lambda point: (point[1], point[0]))
    return first_of(
        exactly("best", (said["best_val_iteration"], said["best_val"]), best),
        exactly("last_val", said["last_val"], truth.curve[-1][1]),
        None if said["last_val"] > said["best_val"] else "it has not risen",
    )


@check("compare_loss_uncertain", "compare_arrival_uncertain")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    """Evaluations after the lowest loss of a curve that turns up say nothing about the noise before."""
    if said.get("at_most_s") is not None:
        first = pair.named(said["later"]).curve[0][1]
        return None if first <= said["target_loss"] + 1e-9 else f"its first evaluation is {first}"
    if said.get("run") is not None:
        first_iteration = pair.named(said["run"]).moments[0][0]
        return None if first_iteration >= said["iteration"] else f"its log starts at {first_iteration}"
    most = min(len(truth.curve) for truth in (pair.a, pair.b))
    for truth in (pair.a, pair.b):
        vals = [val for _, val in truth.curve]
        if vals[-1] > 1.01 * min(vals):
            most = min(most, vals.index(min(vals)) + 1)
    return None if most <= 12 else f"both have {most} evaluations and more"


@check("compare_data_unknown")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    told = all("dataset = " in truth.text for truth in (pair.a, pair.b))
    return "both logs name their data" if told else None


@check("compare_overall")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    """Tokens over the wall clock, in which stalls and evaluations that no row shows are unknown."""
    rates = []
    for name in (said["faster"], said["slower"]):
        truth = pair.named(name)
        done = truth.rows[-1].iteration - truth.rows[0].iteration + 1
        rates.append(done * truth.plan.shape.tokens / truth.total_s)
    if rates[1] < rates[0] * 0.9:
        return f"{said['slower']} gets less done: {rates[1]:.0f} against {rates[0]:.0f}"
    return off("faster", said["faster_overall_tokens_per_s"], rates[0], by=0.1 * rates[0])


@check("compare_stretch")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    truth = pair.named(said["run"])
    own = [row.level_ms for row in truth.rows if said["first_iteration"] <= row.iteration <= said["last_iteration"]]
    usual = median(row.step_ms for row in truth.plain or truth.rows)  # noise smears two levels into one another
    ratios = [ms / step_ms for ms in own for step_ms in (truth.step_ms, usual)]
    return off("ratio", said["ratio"], min(ratios), max(ratios), by=max(ratios) * (open_step(truth, len(own)) + 0.05))


@check("compare_time_share")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    """A phase's share of the wall clock; evaluation and checkpoint may be reported together."""
    truth, phase = pair.named(said["run"]), said["phase"].removesuffix("_s")
    phases = {"evaluation", "checkpoint"} if phase in ("evaluation", "checkpoint", "overhead") else {phase}
    shares = [sum(truth.seconds.get(each, 0.0) for each in some) / truth.total_s for some in (phases, {phase})]
    held = sum(row.stall_ms for row in truth.visible) / 1000 / truth.total_s  # is in the rows of evaluations
    return off("time_share", said["time_share"], min(shares), max(shares), by=0.05 + open_step(truth) + held)


@check("compare_arrival_same")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    if why := over_time(pair):
        return why
    return None if said["later_s"] <= said["sooner_s"] * 1.2 else f"{said['sooner_s']} against {said['later_s']} s"


@check("compare_leads_time", "compare_crossover", "compare_crossover_best")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    if why := over_time(pair):
        return why
    leader = pair.named(said.get("leader") or said["late"])
    end_s = min(truth.moments[-1][1] for truth in (pair.a, pair.b))
    # A row with a start or a save does not show when in it the evaluation took place: either moment is right.
    moments = (end_s, said.get("at_s", end_s))
    bests = [(best_until(leader, at_s), best_until(pair.other(leader), at_s)) for at_s in moments]
    of_leader, of_other = min(bests, key=lambda pair_of: pair_of[0] - pair_of[1])
    last = leader.moments[-1][2]
    falls_back = last > best_until(leader) + 0.1 + 5 * leader.plan.losses.noise
    return first_of(
        f"its best until {end_s:.0f} s is {of_leader} against {of_other}"
        if of_leader > of_other + pair.noise
        else None,
        f"it ends at {last}, far above its best" if falls_back and not said_to_have_risen(comparison) else None,
    )


@check("compare_loss_equal")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    open_loss = 4 * math.hypot(pair.a.plan.losses.noise, pair.b.plan.losses.noise) + 0.02
    apart = said["worse_loss"] - said["better_loss"]
    return ranks(pair) or (f"{apart:.4f} apart" if apart > open_loss else None)


@check("compare_loss_unknown")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    trained = [[at for at, _, _ in truth.moments if at > 0] for truth in (pair.a, pair.b)]
    return "both have losses at the same iteration" if set(trained[0]) & set(trained[1]) else None


@check("compare_other_data")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    return exactly("datasets", (said["a_dataset"], said["b_dataset"]), (pair.a.plan.dataset, pair.b.plan.dataset))


def arrival(truth: Truth, loss: float) -> float | None:
    """Seconds from the first step, which follows compilation, until the loss is first reached; linear in between."""
    start = truth.told[0].at_s - truth.told[0].step_ms / 1000 - START_S
    before: tuple[float, float] | None = None
    for _, seconds, val in truth.moments:
        if val <= loss:
            if before is None or before[1] == val:
                return max(0.0, seconds - start)
            return before[0] + (seconds - before[0]) * (before[1] - loss) / (before[1] - val) - start
        before = max(seconds, start), val
    return None


def open_s(truth: Truth) -> float:
    """The clock's tolerance: noise, evaluations and saves that no row shows, and whether a save is before or after."""
    hidden = 0.3 * sum(each.all_ms for each in truth.hidden) if truth.visible else truth.total_s * 1000
    save = max((each.save_ms or 0.0 for each in truth.evaluations), default=0.0)
    again = 2 * truth.seconds["restart"]  # for repeated work, either the first or the second time counts
    held = max((row.stall_ms for row in truth.visible), default=0.0)  # before its evaluation, or after it
    return truth.total_s * (open_step(truth) + 0.01 + 0.05 * truth.unsteady) + (hidden + save + held) / 1000 + again


@check("compare_sooner", "compare_sooner_iterations")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    if why := over_time(pair):
        return why
    truths = pair.named(said["sooner"]), pair.named(said["later"])
    first, second = (arrival(truth, said["target_loss"]) for truth in truths)
    if first is None or second is None:
        return f"one of them never reaches {said['target_loss']}"
    by = [open_s(truth) + 0.05 * seconds for truth, seconds in zip(truths, (first, second), strict=True)]
    return first_of(
        f"{first:.1f} s against {second:.1f} s" if first > second + by[0] + by[1] else None,
        off("sooner_s", said["sooner_s"], first, by=by[0]),
        off("later_s", said["later_s"], second, by=by[1]),
    )


@check("compare_arrival_equal")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    return over_time(pair)


@check("compare_end_lower", "compare_end_higher", "compare_end_open")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    """Its 80% interval is tested elsewhere; the truth lies within four times the interval, if the loss falls on."""
    running, finished = pair.named(said["run"]), pair.named(said["other"])
    iteration, _, loss = finished.moments[-1]
    true, reach = val_of(running.plan, iteration), 4 * (said["high"] - said["low"]) + 3 * pair.noise
    falls = not running.plan.losses.turns_up and not finished.plan.losses.turns_up and running.nan_from is None
    return first_of(
        ranks(pair),
        exactly("iteration", said["iteration"], iteration),
        exactly("other_loss", said["other_loss"], loss),
        exactly("max_iters", running.plan.max_iters, finished.plan.max_iters),
        "it is over itself" if running.moments[-1][0] >= iteration else None,
        "it is no interval" if not said["low"] <= said["loss"] <= said["high"] else None,
        off("loss", said["loss"], true, by=reach) if falls else None,
    )


@check("compare_clock_incomplete")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    truth = pair.named(said["run"])
    return None if truth.hidden or not truth.plain else "every evaluation is in a row"


@check("compare_late_start")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    truth = pair.named(said["run"])
    if truth.begins:
        return "it begins with the start"
    return exactly("iteration", said["iteration"], truth.rows[0].iteration)


def changed(pair: Pair) -> set[str]:
    """What differs between the two headers, except what only affects the log."""
    a, b = pair.a.plan, pair.b.plan
    knobs = {
        "batch_size": (a.shape.batch_size, b.shape.batch_size),
        "gradient_accumulation_steps": (a.shape.accumulation, b.shape.accumulation),
        "n_embd": (a.shape.n_embd, b.shape.n_embd),
        "learning_rate": (a.learning_rate, b.learning_rate),
        "dataset": (a.dataset, b.dataset),
        "compile": (a.compiles, b.compiles),
        "max_iters": (a.max_iters, b.max_iters),
    }
    return {name for name, (of_a, of_b) in knobs.items() if of_a != of_b}


@check("compare_one_knob", "compare_speed_knob", "compare_several_knobs", "compare_known_differ")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    named = set((said.get("knob") or said["knobs"]).replace(" × ", ", ").split(", "))
    return None if named <= changed(pair) else f"{named - changed(pair)} did not change"


@check("compare_same_settings")
def _(pair: Pair, said: Numbers, comparison: Comparison) -> str | None:
    return f"{changed(pair)} changed" if changed(pair) - BOOKKEEPING else None
