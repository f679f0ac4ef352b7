"""What all views of one run share: where each finding appears (only once), and which figures depend on inferred
facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nanopace.diagnosis.result import Diagnosis, Finding, Loss, Mfu, Phases, SlowRow, Wall
from nanopace.views.amounts import in_sentence
from nanopace.wording.catalog import UNKNOWN, Words

# How the log was read, which matters before anything else. Shown below the title.
READING = (
    *("many_runs", "other_ranks", "interleaved_processes"),
    *("quoted_log", "log_truncated", "unread_evaluations", "rows_cover_several"),
    *("untimed_log", "restarts_untimed"),
    *("clock_set_to_zero", "rows_ahead_of_gpu", "batch_scheduled", "attention_scheduled", "layers_repeated"),
    "counts_from_one",
    *("rate_per_gpu", "rate_wrong", "iterations_are_micro_batches"),
    *("tracked_series", "bar_hides_time", "whole_seconds", "rate_with_evaluations", "seconds_as_ms"),
)

# The section in which a finding appears. Advice has its own section.
SECTIONS: Mapping[str, tuple[str, ...]] = {
    "times": (
        "no_plain_row",
        *("pace_changes", "memory_spill", "level_shift", "level_shift_at_power_limit", "level_shift_at_nan"),
        *("level_shift_at_batch", "level_shift_at_restart", "slow_beginning", "cpu_pace"),
        *("level_shift_scheduled", "drift", "slower_as_scheduled", "slower_at_the_end", "faster_at_the_end"),
        *("straggler", "micro_batch_reduced_at_start", "micro_batch_reduced", "micro_batch_reduced_in_evaluation"),
        *("ended_out_of_memory", "ended_diverged", "ended_corrupted", "ended_error", "ended_interrupted"),
    ),
    "slow": (
        *("evaluation_rows", "checkpoint_measured", "checkpoint_stamped", "checkpoint_within_scatter"),
        *("checkpoint_few_saves", "checkpoint_few_without", "save_in_doubt"),
        *("checkpoint_bounded", "checkpoint_other_speed", "checkpoint_unknown", "checkpoint_at_least"),
        *("startup", "startup_bounded", "startup_together", "startup_unsplit", "startup_compile", "startup_of_several"),
        "checkpoint_not_first",
        *("hidden_evaluations", "hidden_in_doubt", "align_log_interval", "hidden_unpriced", "after_last_row"),
        *("evaluation_with_samples", "evaluations_outside_clock", "gap_between_rows"),
        *("periodic_stalls", "stalls", "fetch_stalls", "long_events", "data_stalls", "suspended", "uneven_rows"),
        *("restarts", "rollbacks"),
    ),
    "throughput": ("tokens_unknown", "printed_rate_wrong", "rate_smoothed"),
    "gpu": (
        *("utilisation_near_limit", "utilisation_good", "utilisation_power_limited"),
        *("utilisation_half_idle", "utilisation_mostly_idle", "utilisation_measured"),
        *("card_above_peak", "card_without_peak", "card_variants", "dtype_float32", "mfu_disagrees"),
        *("mfu_other_card", "mfu_card_unknown", "mfu_over_100", "mfu_zero", "mfu_smoothed"),
        *("mfu_smoothed_and_slower", "mfu_smoothed_only", "mfu_unknown", "mfu_causal", "gpus_unknown"),
        "ran_on_cpu",
        *("throttled_heat", "throttled_hardware", "throttled_power", "energy"),
    ),
    "loss": (
        *("loss_diverged", "training_loss_course", "skipped_steps", "loss_spikes", "overfitting", "gap_grows"),
        *("best_not_saved", "core_metric", "loss_noise", "forecast", "final_loss", "forecast_withheld"),
    ),
    "known": ("conflict", "untimed_sft", "untimed_rl", *READING),
}

# The facts behind the numbers in findings: a number is marked if one of its facts is inferred.
RESTS_ON: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("card", "card_low", "card_high", "computed_mfu", "achieved_tflops"),
        ("flops_per_token", "tokens_per_iteration"),
    ),
    **dict.fromkeys(("from_interval", "eval_interval"), ("eval_interval",)),
    "log_interval": ("log_interval",),
    "from_iters": ("eval_iters",),
}

# A slow row often has several causes. It is drawn as the first of these, the least common.
CAUSES = ("restart", "compile", "stall", "periodic", "data", "checkpoint", "evaluation")

_LONGEST_CHECKSUM, _SHORT_CHECKSUM = 16, 10  # characters
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
_WORTH_A_LINE = 0.005  # of start-up: extra time of the first steps; of the run: logging
_LEAST_S, _LEAST_SHARE = 0.001, 0.0005
_DUST = 1e-5  # of the wall clock: unknown because of rounding


class Report:
    """One run in one language, and which of its findings have already been shown."""

    def __init__(self, diagnosis: Diagnosis, words: Words, *, verbose: bool = False) -> None:
        self.diagnosis = diagnosis
        self.words = words
        self.verbose = verbose
        self._said: list[Finding] = []  # not by code: a run may have two level shifts

    def find(self, *codes: str) -> Finding | None:
        return first_of(self.diagnosis.findings, codes)

    def sentence(self, finding: Finding) -> str:
        """The sentence of a finding, which will not be shown again."""
        self._said.append(finding)
        return self.text(finding)

    def text(self, finding: Finding) -> str:
        """The sentence of a finding, with figures based on inferred facts marked."""
        numbers: dict[str, object] = dict(finding.numbers)
        for name, facts in RESTS_ON.items():
            if numbers.get(name) is not None and self.tilde(*facts):
                numbers[name] = "~" + self.words.value(name, numbers[name])
        return self.words.finding(finding.code, numbers)

    def skip(self, code: str) -> None:
        """Do not show this any more."""
        self._said += [finding for finding in self.diagnosis.findings if finding.code == code]

    def said(self, finding: Finding) -> bool:
        return any(finding is said for said in self._said)

    def lines(self, section: str) -> list[str]:
        """The remaining sentences of a section, in the section's order."""
        return [
            self.text(finding)
            for code in SECTIONS[section]
            for finding in self.diagnosis.findings
            if finding.code == code and not self.said(finding)
        ]

    def saving(self, finding: Finding) -> str:
        """What the advice would have saved in this run; empty if unknown."""
        words = self.words
        if finding.saves_s is None:
            return ""
        time, bill = words.duration(finding.saves_s), self.diagnosis.bill
        if finding.saves_share is not None:
            time = f"{time} ({words.percent(finding.saves_share)})"
        money = None if bill is None else bill.money_of(finding.saves_s)
        if bill is None or money is None:
            return words.text("Saves {time}.", time=time)
        return words.text("Saves {time} and {money}.", time=time, money=in_sentence(bill, money, words))

    def tilde(self, *facts: str) -> str:
        """The mark of a figure that depends on an inferred fact."""
        return tilde(self.diagnosis, *facts)


def first_of(findings: Sequence[Finding], codes: Sequence[str]) -> Finding | None:
    """The first finding of these codes, in the order of the codes."""
    return next((each for code in codes for each in findings if each.code == code), None)


def tilde(diagnosis: Diagnosis, *facts: str) -> str:
    """The mark of a figure that depends on one of these facts, if it is inferred."""
    known = (diagnosis.facts.get(name) for name in facts)
    return "~" if any(fact is not None and fact.origin == "inferred" for fact in known) else ""


def marked(mark: str, text: str) -> str:
    """A figure with its mark; an unknown one needs none."""
    return text if text == UNKNOWN else mark + text


def card_range(mfu: Mfu, words: Words) -> str:
    """The utilisation of the card; if several cards are possible, from the fastest to the slowest."""
    if mfu.card_low is None:
        return words.value("card", mfu.card)
    low, high = words.value("card_low", mfu.card_low), words.value("card_high", mfu.card_high)
    return words.text("{low} to {high}", low=low, high=high)


def last_training(words: Words, loss: Loss) -> str:
    """The name of the last training loss: a mean of past steps lags behind the model and includes dropout."""
    if loss.last_train_steps is None:
        return words.text("last training")
    return words.plural("training, last step", "training, last {n} steps", loss.last_train_steps)


def gap_name(words: Words, loss: Loss) -> str:
    """The names of the two losses that the gap is between."""
    if loss.last_train_steps is None:
        return words.text("validation minus training")
    return words.plural(
        "validation minus training, last step", "validation minus training, last {n} steps", loss.last_train_steps
    )


def seconds_by_phase(wall: Wall) -> dict[str, float | None]:
    """The parts of the wall clock, in the order in which every view shows them."""
    unknown = wall.unknown_s
    if unknown is not None and unknown < _DUST * (wall.total_s or 0.0):
        unknown = 0.0
    parts = {
        "training": wall.training_s,
        "evaluation": wall.evaluation_s,
        "checkpoint": wall.checkpoint_s,
        "startup": wall.startup_s,
        "stall": wall.stall_s,
        "suspended": wall.suspended_s,
        "restart": wall.restart_s,
        "rollback": wall.rollback_s,
        "other": wall.other_s,
        "unknown": unknown,
    }
    return {phase: 0.0 if _is_nothing(seconds, wall) else seconds for phase, seconds in parts.items()}


def phase_name(diagnosis: Diagnosis, phase: str, words: Words) -> str:
    """The name of a phase. If no row is a plain step, training includes the evaluations or the start-up; if no row has
    a time, everything that the log does not separate is training and the rest."""
    if phase == "unknown" and not diagnosis.timed:
        return words.text("training and the rest")
    if phase == "training" and not diagnosis.step.normal_rows:
        if diagnosis.evaluations.visible:
            return words.text("training and evaluation")
        if not diagnosis.wall.measured:
            return words.text("training and the rest")
    return words.phase(phase, diagnosis.source.format, compiles=may_compile(diagnosis))


def _is_nothing(seconds: float | None, wall: Wall) -> bool:
    """Whether a phase would be shown as 0.0% and less than a millisecond."""
    return seconds is not None and seconds < _LEAST_S and seconds < _LEAST_SHARE * (wall.total_s or 0.0)


def short_checksum(text: str) -> str:
    """The start of a long checksum."""
    is_checksum = len(text) > _LONGEST_CHECKSUM and set(text) <= _HEX_DIGITS
    return f"{text[:_SHORT_CHECKSUM]}…" if is_checksum else text


def span_of(diagnosis: Diagnosis, words: Words) -> list[str]:
    """What was read, for a title: the trainer, its iterations, and the number of processes."""
    source, facts = diagnosis.source, diagnosis.facts
    parts = [
        words.format(source.format),
        words.text("one row, iteration {first}", first=source.first_iteration)
        if source.rows == 1 and source.first_iteration == source.last_iteration
        else words.text(
            "{rows} rows, iterations {first} to {last}",
            rows=source.rows,
            first=source.first_iteration,
            last=source.last_iteration,
        ),
    ]
    if "world_size" in facts and facts["world_size"].value != 1:
        together = words.text("{n} processes", n=facts["world_size"].value)
        parts.append(f"{together} ({facts['parallel'].value})" if "parallel" in facts else together)
    return parts


def total_time(diagnosis: Diagnosis, words: Words) -> list[str]:
    """The total time, for a title; nothing if unknown."""
    total_s = diagnosis.wall.total_s
    return [] if total_s is None else [words.duration(total_s)]


def share_done(diagnosis: Diagnosis) -> float | None:
    """The share of max_iters that is done; None if nothing is left or it is unknown."""
    limit, left = diagnosis.ahead.max_iters, diagnosis.ahead.remaining_iterations
    return max(0.0, 1 - left / limit) if left and limit else None


def main_cause(slow: SlowRow) -> str:
    """The cause that gives a slow row its colour and its mark."""
    return next((cause for cause in CAUSES if cause in slow.causes), "stall")


def may_compile(run: Diagnosis) -> bool:
    """Unless the log says that compile is off."""
    fact = run.facts.get("compile")
    return fact is None or fact.value is not False


def cause_name(cause: str, words: Words, run: Diagnosis) -> str:
    """A cause of a slow row, as it applies to that run."""
    return words.cause(cause, run.source.format, compiles=may_compile(run))


def named_causes(slow: SlowRow, words: Words, run: Diagnosis) -> str:
    """All causes of a slow row, as the legend has them."""
    return " + ".join(cause_name(cause, words, run) for cause in slow.causes) or words.text("unknown")


def made_of(row: SlowRow, words: Words, run: Diagnosis) -> str:
    """Each part of a slow row with its time; parts that cannot be separated share one."""
    times = {cause: words.duration(ms / 1000) for cause, ms in row.parts_ms.items()}
    if len(times) == 1:
        return f"{named_causes(row, words, run)} {next(iter(times.values()))}"
    return ", ".join(f"{cause_name(cause, words, run)} {time}" for cause, time in times.items())


def _parts_of_training(phases: Phases) -> dict[str, float]:
    """The parts of training as far as they were measured separately: our trainer always does that, other loops may
    not."""
    if phases.optimizer_s:
        computing = {"forward_backward": phases.forward_backward_s, "optimizer": phases.optimizer_s}
        return {"data": phases.data_s, **computing, **({} if phases.bus_s is None else {"bus": phases.bus_s})}
    return {"data": phases.data_s, "computing": phases.forward_backward_s} if phases.data_s else {}


def parts_of_phases(phases: Phases | None, wall: Wall) -> dict[str, dict[str, float]]:
    """The parts of each phase, if measured, in the order in which every view shows them."""
    if phases is None or wall.startup_s is None or wall.total_s is None:
        return {}
    startup = {"startup": phases.startup_s}
    if phases.compile_s:
        startup["compile"] = phases.compile_s
    first_steps_s = wall.startup_s - sum(startup.values())
    if first_steps_s >= _WORTH_A_LINE * wall.startup_s > 0:
        startup["first_steps"] = first_steps_s
    return {
        "training": _parts_of_training(phases),
        "startup": startup if len(startup) > 1 else {},
        "other": {"logging": phases.logging_s} if phases.logging_s >= _WORTH_A_LINE * wall.total_s else {},
    }
