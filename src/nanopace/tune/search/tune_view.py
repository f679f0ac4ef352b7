"""A tuning for the terminal: what is faster now and by how much, which knobs changed and why, and all trials."""

from __future__ import annotations

from collections.abc import Sequence

from nanopace.hardware.calibration import Calibration
from nanopace.tune.failures import failure
from nanopace.tune.ratios import figures, plain
from nanopace.tune.search.knob_trials import KnobTrial
from nanopace.tune.search.micro_batch_search import Probe
from nanopace.tune.search.trial_runner import Changed, Tried
from nanopace.tune.search.tune import Change, Tuned
from nanopace.views.document import Cell, Table, Text
from nanopace.views.terminal.writer import TerminalWriter
from nanopace.wording.catalog import Words, words

_UNSTEADY = 1.2  # times as fast, with the same setting
_WAITING = 0.01  # of the steps' time, for data: above this, more than one thread would help


def write(found: Tuned, words: Words, writer: TerminalWriter) -> None:
    writer.line(Cell(_answer(found, words), "bold"), indent=0)
    writer.heading(words.text("The config"))
    if found.changes:
        writer.table(Table([_changed_row(each, found, words) for each in found.changes], "lrl"))
    for said in filter(None, [*(_of_knob(each, words) for each in found.knobs), *_of_the_micro_batch(found, words)]):
        writer.line(said, hanging=2)
    if found.found_out:
        writer.heading(words.text("What the trainer finds out itself"))
        reasons = [(Cell(name, "bold"), words.from_english(why)) for name, why in found.found_out.items()]
        writer.table(Table(reasons, "ll"))
        for said in _of_the_data(found, words):
            writer.line(said, hanging=2)
    if found.calibration is not None:
        writer.heading(words.text("This machine"))
        for said in _of_the_machine(found.calibration, found.utilisation, words):
            writer.line(said, hanging=2)
    writer.heading(words.text("Trials"))
    for said in _of_the_noise(found, words):
        writer.line(said, hanging=2)
    head = ("", words.text("tokens/s"), words.text("step"), "", words.text("duration"))
    writer.table(Table([_trial_row(each, words) for each in found.trials], "lrrrr", head))


def config_text(found: Tuned, source: str | None) -> str:
    """The complete file: the given config, with the knobs that changed and why. English and ASCII, for nanoGPT."""
    english = words("en")
    changes = {each.knob: each for each in found.changes}
    lines = [f"# {source or 'what nanopace train chooses'}, tuned: nanopace tune.", f"# {_answer(found, english)}"]
    for name, value in found.settings.items():
        why = f"  # {_reason(changes[name], found, english)}, was {changes[name].before!a}" if name in changes else ""
        lines.append(f"{name} = {value!a}{why}")
    return ("\n".join(lines) + "\n").replace("\u00a0", " ").encode("ascii", "replace").decode()


# --- sentences -------------------------------------------------------------------------------------------------------


def _answer(found: Tuned, words: Words) -> str:
    before, after = found.tokens_per_second
    if not found.changes:
        return words.text("The given config is as fast as anything tried: {after} tokens/s.", after=words.si(after))
    if before is None or found.gain is None:
        return words.text(
            "The given config does not fit in memory; the chosen one trains at {after} tokens/s.", after=words.si(after)
        )
    if not found.gain.shows:
        return words.text(
            "As fast as the given config, as far as the trials show: {ratio}x ({interval}).",
            **figures(found.gain, words),
        )
    return words.text(
        "{ratio}x as fast as the given config ({interval}): {after} tokens/s against {before}.",
        **figures(found.gain, words),
        after=words.si(after),
        before=words.si(before),
    )


def _of_knob(trial: KnobTrial, words: Words) -> str:
    setting = f"{trial.knob}={trial.value}"
    if trial.verdict == "no_gain" and trial.speed is not None:
        said = figures(trial.speed, words)
        if trial.speed.error is None:
            return words.text("{setting} does not help: {ratio}x in its one trial.", setting=setting, **said)
        return words.text("{setting} does not help: {ratio}x ({interval}).", setting=setting, **said)
    if trial.verdict == "failed":
        return words.text("{setting} fails to train: {said}", setting=setting, said=trial.said)
    if trial.verdict == "no_time":
        return words.text("{setting} was not tried to the end: the budget is too short.", setting=setting)
    if trial.verdict == "no_compiler":
        return words.text("{setting} was not tried: there is no C++ compiler.", setting=setting)
    return ""


def _of_the_micro_batch(found: Tuned, words: Words) -> list[str]:
    said = []
    if found.cost is not None:
        said.append(
            words.text(
                "A micro-batch takes {fixed} at any size, plus {each} per sequence of {block} tokens.",
                fixed=words.ms(max(0.0, found.cost.fixed_ms)),
                each=words.ms(found.cost.marginal_ms),
                block=found.block_size,
            )
        )
    if found.predicted_wall is not None:
        said.append(
            words.text(
                "Micro-batches of {count} or more were not tried: they are not expected to fit in memory.",
                count=found.predicted_wall,
            )
        )
    if not found.complete:
        said.append(words.text("The micro-batch search ran out of budget; a larger --budget may find a better one."))
    return said


def _of_the_data(found: Tuned, words: Words) -> list[str]:
    if found.data_share is None:
        return []
    share = words.percent(found.data_share)
    if found.data_share > _WAITING:
        return [words.text("Steps spend {share} of their time waiting for data.", share=share)]
    return [words.text("Steps spend {share} of their time waiting for data: one loader thread is enough.", share=share)]


def _of_the_noise(found: Tuned, words: Words) -> list[str]:
    """If the same setting is sometimes fast and sometimes slow, most of the results above are chance."""
    rates: dict[str, list[float]] = {}
    for each in found.trials:
        if each.outcome.worked and each.outcome.tokens_per_second:
            rates.setdefault(setting_name(each.changed), []).append(each.outcome.tokens_per_second)
    spread = max((max(each) / min(each) for each in rates.values()), default=1.0)
    if spread < _UNSTEADY:
        return []
    return [
        words.text(
            "Trials of the same setting differ by up to {ratio}x: something else is running here, so small gains do "
            "not show.",
            ratio=words.number(spread, 2),
        )
    ]


def _of_the_machine(measured: Calibration, utilisation: float | None, words: Words) -> list[str]:
    said = [
        words.text(
            "Here, sustained {dtype} matrix products reach {peak}, and {model} at this model's sizes.",
            peak=words.tflops(measured.peak_tflops),
            dtype=measured.dtype,
            model=words.tflops(measured.model_tflops),
        )
    ]
    if utilisation is not None:
        said.append(words.text("The chosen config reaches {share} of the latter.", share=words.percent(utilisation)))
    if measured.sm_mhz is not None:
        said.append(words.text("The clock stayed at {clock} MHz.", clock=round(measured.sm_mhz)))
    if measured.throttle is not None:
        said.append(words.text("It was throttled by: {reasons}.", reasons=measured.throttle.replace(",", ", ")))
    return said


# --- tables ----------------------------------------------------------------------------------------------------------


def _changed_row(change: Change, found: Tuned, words: Words) -> Sequence[Text]:
    return (Cell(change.knob, "bold"), f"{plain(change.before)} → {plain(change.after)}", _reason(change, found, words))


def _reason(change: Change, found: Tuned, words: Words) -> str:
    if change.reason == "micro_batch":
        return words.text("the smallest micro-batch within 2% of the fastest")
    if change.reason == "tokens_per_step":
        return words.text("so a step keeps its {tokens} tokens", tokens=found.sequences * found.block_size)
    speed = next(each.speed for each in found.knobs if each.knob == change.knob)
    assert speed is not None, "it was kept because of its speed"
    return words.text("{ratio}x as fast with it ({interval})", **figures(speed, words))


def _trial_row(tried: Tried, words: Words) -> Sequence[Text]:
    outcome = tried.outcome
    took = words.duration(outcome.seconds)
    name = setting_name(tried.changed) or words.text("as given")
    if not outcome.worked or not outcome.tokens_per_second:
        return name, failure(outcome.failure or "", words), "", "", took
    steps = Probe(0, outcome.step_ms)
    return name, words.si(outcome.tokens_per_second), words.ms(steps.ms), f"±{words.percent(steps.error)}", took


def setting_name(changed: Changed) -> str:
    """What was changed, in short: the accumulation follows from the micro-batch."""
    return " ".join(
        f"{knob}={plain(value)}" for knob, value in changed.items() if knob != "gradient_accumulation_steps"
    )
