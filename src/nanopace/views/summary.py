"""The first lines of a report: the answer, before anything that supports it."""

from __future__ import annotations

from nanopace.diagnosis.result import Diagnosis, Finding
from nanopace.diagnosis.time.pace_findings import lost_s
from nanopace.views.cost import cost_line
from nanopace.views.report import READING, Report, card_range, first_of, span_of, total_time

SLOW_DOWNS = ("level_shift", "level_shift_at_restart", "slow_beginning", "drift", "slower_at_the_end")
ALARMS = (
    *("ended_out_of_memory", "ended_corrupted", "ended_diverged", "loss_diverged", "memory_spill"),
    *("throttled_heat", "throttled_hardware", "straggler", *SLOW_DOWNS),
    *("ended_error", "rollbacks", "skipped_steps", "restarts"),
)
WATCH = ("overfitting", "best_not_saved")
PACE = frozenset({"memory_spill", *SLOW_DOWNS})
WORTH_AN_ALARM = (0.01, 60.0)  # of the run, or seconds: the cost of a slow-down
WILD = 0.15  # scatter around the baseline: above this, show a range for the step time
ORDINARY = frozenset({"evaluation", "checkpoint", "compile", "restart", "data"})


def summary(report: Report) -> list[tuple[str, str]]:
    """The run, its speed, its slow rows and their cost, the card, and what to do; each line with its style."""
    alarm, watched = gravest_alarm(report.diagnosis), to_watch(report.diagnosis)
    lines = [
        (_title(report), ""),
        *((report.sentence(finding), "bold") for code in READING if (finding := report.find(code)) is not None),
        (_step(report) if report.diagnosis.timed else "", ""),
        (report.sentence(alarm) if alarm else "", "bold red"),
        (report.sentence(watched) if watched else "", "bold red"),
        *([(_cost(report), ""), (_card(report), "")] if report.diagnosis.timed else [(_loss(report), "")]),
        (cost_line(report.diagnosis, report.words), ""),
        (_do(report), "bold green"),
    ]
    return [(line, style) for line, style in lines if line]


def gravest_alarm(diagnosis: Diagnosis) -> Finding | None:
    """The most serious finding. Of all slow-downs, only the most expensive counts, and only if it cost much."""
    findings, (share, seconds) = diagnosis.findings, WORTH_AN_ALARM
    gravest = max((each for each in findings if each.code in PACE), key=lost_s, default=None)
    much = gravest is not None and lost_s(gravest) >= min(seconds, share * diagnosis.wall.awake_s) > 0
    found = [each for each in findings if each.code not in PACE or (much and each is gravest)]
    return first_of(found, ALARMS)


def to_watch(diagnosis: Diagnosis) -> Finding | None:
    """What is no alarm, but makes the rest of the training useless or the best of it lost."""
    return first_of(diagnosis.findings, WATCH)


def _title(report: Report) -> str:
    words, source = report.words, report.diagnosis.source
    parts = [*span_of(report.diagnosis, words), *total_time(report.diagnosis, words)]
    if source.ending not in (None, "finished"):
        parts.append(words.ending(source.ending))
    return " · ".join((source.name, *parts))


def _step(report: Report) -> str:
    words, diagnosis = report.words, report.diagnosis
    unknown = report.find("no_plain_row")
    if unknown is not None:
        return report.sentence(unknown)
    step = _typical(report)
    slow = sum(row.count for row in diagnosis.slow_rows)
    if not slow:
        return words.text("A normal step takes {step}, and no row is slow.", step=step)
    odd = sum(row.count for row in diagnosis.slow_rows if ORDINARY.isdisjoint(row.causes))
    rows = diagnosis.source.rows
    if not odd:
        how_many = words.plural(
            "{n} of {rows} rows is slower, not because of training.",
            "{n} of {rows} rows are slower, none because of training.",
            slow,
            rows=rows,
        )
    elif odd == slow:
        how_many = words.plural(
            "{n} of {rows} rows is slower, for no reason the log shows.",
            "{n} of {rows} rows are slower, for no reason the log shows.",
            slow,
            rows=rows,
        )
    else:
        how_many = words.text(
            "{slow} of {rows} rows are slower, {odd} of them for no reason the log shows.",
            slow=slow,
            rows=rows,
            odd=odd,
        )
    return words.text("A normal step takes {step}.", step=step) + f" {how_many}"


def _typical(report: Report) -> str:
    """The time of a normal step; a range if the steps scatter widely, or differ as much because their pace changed."""
    words, step = report.words, report.diagnosis.step
    usual = words.duration((step.median_ms or 0.0) / 1000)
    if step.low_ms is None or step.high_ms is None:
        return usual
    changed = len(step.levels) > 1 and step.high_ms > (1 + WILD) * step.low_ms
    if not changed and (step.spread or 0.0) < WILD:
        return usual
    levels = [level.median_ms for level in step.levels]  # other sentences name them: no range may leave one out
    low, high = words.duration(min(step.low_ms, *levels) / 1000), words.duration(max(step.high_ms, *levels) / 1000)
    return words.text("between {low} and {high} (typically {usual})", low=low, high=high, usual=usual)


def _cost(report: Report) -> str:
    words, diagnosis = report.words, report.diagnosis
    evaluations, checkpoints, wall = diagnosis.evaluations, diagnosis.checkpoints, diagnosis.wall
    if evaluations.each_ms is None or wall.overhead_share is None:
        finding = report.find("hidden_unpriced", "hidden_in_doubt", "evaluations_outside_clock")
        return report.sentence(finding) if finding else ""
    each = words.duration(evaluations.each_ms / 1000)
    low_ms, high_ms = checkpoints.wide_interval
    if evaluations.contains_checkpoint:
        said = words.text("Evaluation takes {each} with its checkpoint:", each=each)
    elif checkpoints.each_ms is not None:
        checkpoint = words.duration(checkpoints.each_ms / 1000)
        if checkpoints.basis == "upper_bound":
            checkpoint = words.text("at most {time}", time=checkpoint)
        elif low_ms is not None and high_ms is not None:
            low, high = words.duration(low_ms / 1000), words.duration(high_ms / 1000)
            checkpoint = words.text("{time} (80% interval {low} to {high})", time=checkpoint, low=low, high=high)
        said = words.text("Evaluation takes {each}, a checkpoint {checkpoint}:", each=each, checkpoint=checkpoint)
    else:
        said = words.text("Evaluation takes {each}:", each=each)
    report.skip("evaluation_rows")  # these lines already cover it
    overhead = words.duration(wall.overhead_share * wall.awake_s)
    share = words.percent(wall.overhead_share)
    return f"{said} " + words.text("{share} of the run ({overhead}).", share=share, overhead=overhead)


def _saves_little(advice: Finding) -> bool:
    """Whether it saves too little for the summary, in seconds and as a share."""
    return advice.saves_s is not None and advice.saves_s < 60 and (advice.saves_share or 0.0) < 0.01


def _card(report: Report) -> str:
    words, mfu = report.words, report.diagnosis.mfu
    if report.find("loss_diverged") is not None:
        return ""  # a broken run does not use its card well
    rests_on = report.tilde("flops_per_token", "tokens_per_iteration")
    if (mfu.card is not None and mfu.verdict is not None) or mfu.card_low is not None:
        share, name = rests_on + card_range(mfu, words), words.value("card_name", mfu.card_name)
        if mfu.verdict is None:
            return words.text("GPU: {share} of the {card}, depending on the variant.", share=share, card=name)
        return words.text(
            "GPU: {share} of the {card}: {verdict}.", share=share, card=name, verdict=words.verdict(mfu.verdict)
        )
    odd = report.find("card_without_peak", "mfu_over_100", "mfu_zero")
    if odd is not None:
        return words.text("GPU: {text}", text=report.sentence(odd))
    if mfu.steady_printed is not None and mfu.printed_peak_tflops is not None:
        share, peak = words.mfu(mfu.steady_printed), words.tflops(mfu.printed_peak_tflops)
        unknown = report.find("mfu_card_unknown")
        if unknown is not None and unknown.numbers.get("elsewhere"):  # a peak of this log's own: it may be the card's
            return words.text(
                "GPU: {share} of {peak}, which the trainer assumed; pass --gpu NAME.", share=share, peak=peak
            )
        return words.text(
            "GPU: {share} is relative to {peak}, not to your card; pass --gpu NAME.", share=share, peak=peak
        )
    unknown = report.find("mfu_unknown")
    return words.text("GPU: {text}", text=report.sentence(unknown)) if unknown else ""


def _loss(report: Report) -> str:
    """The most important finding about the loss, for a log without times."""
    found = report.find("gap_grows", "training_loss_course")
    return report.sentence(found) if found else ""


def best_advice(diagnosis: Diagnosis) -> Finding | None:
    """The most useful change, or that nothing is worth changing."""
    advice = [finding for finding in diagnosis.findings if finding.advice and not _saves_little(finding)]
    return max(advice, key=_urgency, default=None)


def _do(report: Report) -> str:
    words, best = report.words, best_advice(report.diagnosis)
    if best is None:
        return ""
    if best.code == "nothing_to_change":
        report.skip(best.code)
        return words.text("Nothing is worth changing.")
    said = words.text("Try: {advice}", advice=report.text(best))
    return f"{said} {report.saving(best)}".rstrip()


def _urgency(advice: Finding) -> tuple[bool, float]:
    """Rank advice by its saving; avoiding an emulated dtype comes before any saving that the log can show."""
    return advice.code == "use_float16", advice.saves_s or 0.0
