"""The sections of a report that show figures: throughput, GPU utilisation, loss, and known facts."""

from __future__ import annotations

import math

from nanopace.run import DERIVED_FACTS, Fact
from nanopace.sources.formats.registry import find_format
from nanopace.views.document import Cell, Line, Section, Table, Text
from nanopace.views.report import Report, card_range, gap_name, last_training, marked, share_done, short_checksum
from nanopace.wording.catalog import Words

MAIN_KNOBS = (
    *("n_layer", "n_head", "n_embd", "block_size", "vocab_size", "bias"),
    *("batch_size", "gradient_accumulation_steps", "learning_rate", "max_iters"),
    *("eval_interval", "eval_iters", "log_interval", "always_save_checkpoint"),
    *("dtype", "compile", "dataset"),
)

Rows = list[tuple[Text, ...]]


def throughput(report: Report) -> Section:
    """Throughput from normal rows only, with overall figures alongside."""
    words, diagnosis = report.words, report.diagnosis
    step, pace, ahead = diagnosis.step, diagnosis.throughput, diagnosis.ahead
    tokens = report.tilde("tokens_per_iteration")
    rows: Rows = []
    if step.normal_rows:
        note = words.plural("one row", "±{spread} over {n} rows", step.normal_rows, spread=words.percent(step.spread))
        rows.append((words.text("normal step"), words.ms(step.median_ms), note))
    if pace.micro_batch_ms is not None:
        note = ""
        if pace.micro_batch_sequences is not None:
            note = words.plural("{n} sequence", "{n} sequences", pace.micro_batch_sequences)
        mark = report.tilde("gradient_accumulation_steps")
        rows.append((words.text("one micro-batch"), mark + words.ms(pace.micro_batch_ms), note))
    if pace.tokens_per_s is not None:
        overall = words.si(pace.tokens_per_s_overall)
        note = words.text("{overall} including everything else", overall=tokens + overall)
        rows.append((words.text("tokens per second"), tokens + words.si(pace.tokens_per_s), note))
        each = words.text("{n} per iteration", n=tokens + words.count(pace.tokens_per_iteration))
        rows.append((words.text("tokens per day"), tokens + words.si(pace.tokens_per_day), each))
    elif not diagnosis.timed and pace.tokens_per_s_overall is not None:
        overall = marked(tokens, words.si(pace.tokens_per_s_overall))
        rows.append((words.text("tokens per second"), overall, words.text("over the whole run")))
    if ahead.seconds_per_1000 is not None:
        rows.append((words.text("1,000 more iterations"), words.duration(ahead.seconds_per_1000), ""))
    if ahead.eta_s is not None and ahead.remaining_iterations:
        done = words.percent(share_done(diagnosis))
        left = ahead.remaining_iterations
        note = words.plural("{n} iteration to go, {share} done", "{n} iterations to go, {share} done", left, share=done)
        if ahead.eta_low_s is not None and ahead.eta_high_s is not None:
            low, high = words.duration(ahead.eta_low_s), words.duration(ahead.eta_high_s)
            if low != high:
                note += "; " + words.text("80% interval: {low} to {high}", low=low, high=high)
        mark = report.tilde("max_iters")
        rows.append((words.text("until max_iters"), mark + words.duration(ahead.eta_s), note))
    if pace.told_training_s is not None:
        note = words.text("the trainer's own count, from step 11 on")
        rows.append((words.text("time spent in steps"), words.duration(pace.told_training_s), note))
    return _section(report, "throughput", words.text("Throughput"), rows, "lrl")


def utilisation(report: Report) -> Section:
    """The mfu in three ways: as printed, without evaluation rows, and for the card that ran."""
    words, mfu = report.words, report.diagnosis.mfu
    tilde = report.tilde("flops_per_token", "tokens_per_iteration")
    rows: Rows = []
    of_printed = ""
    if mfu.printed_peak_tflops is not None:
        of_printed = words.text("of {peak}", peak=words.tflops(mfu.printed_peak_tflops))
    if mfu.printed_last is not None:
        rows.append((words.text("as printed, last row"), words.mfu(mfu.printed_last), of_printed))
    if mfu.steady_printed is not None:
        rows.append((words.text("without evaluation rows"), words.mfu(mfu.steady_printed), of_printed))
    of_card = words.text("of the {card}", card=words.card(mfu.card_name or "GPU")), tilde + card_range(mfu, words)
    if mfu.card is not None:
        peak = words.tflops(mfu.card_tflops)
        note = words.text("of {peak}, dense {precision}", peak=peak, precision=mfu.card_precision)
        if mfu.card_causal is not None:
            causal = tilde + words.value("card_causal", mfu.card_causal)
            note += "; " + words.text("{share} with causal attention", share=causal)
        rows.append((*of_card, note))
    elif mfu.card_low is not None:
        rows.append((*of_card, words.text("depending on the variant")))
    if mfu.achieved_tflops is not None:
        note = ""
        if mfu.achieved_tflops_causal is not None:
            note = words.text("{rate} with causal attention", rate=tilde + words.tflops(mfu.achieved_tflops_causal))
        rows.append((words.text("achieved"), tilde + words.tflops(mfu.achieved_tflops), note))
    return _section(report, "gpu", words.text("GPU utilisation (mfu)"), rows, "lrl")


def loss(report: Report) -> Section:
    """The losses, with their perplexities alongside so that nobody confuses the two."""
    words, found = report.words, report.diagnosis.loss

    def row(label: str, value: float, iteration: int | None, error: float | None = None) -> tuple[str, ...]:
        where = "" if iteration is None else words.text("iteration {iteration}", iteration=iteration)
        known = found.metric == "loss" and value < 50
        return label, words.loss(value, error), words.number(math.exp(value), 2) if known else "", where

    rows: Rows = []
    if found.best_val is not None:
        label = words.text("best validation")
        rows.append(row(label, found.best_val, found.best_val_iteration, found.best_val_error))
    if found.last_val is not None and found.last_val_iteration != found.best_val_iteration:
        label = words.text("last validation")
        rows.append(row(label, found.last_val, found.last_val_iteration, found.last_val_error))
    if found.last_train is not None:
        rows.append(row(last_training(words, found), found.last_train, found.last_val_iteration))
    if found.gap is not None:
        rows.append((words.text("gap"), words.number(found.gap, 4), "", gap_name(words, found)))
    heading, is_loss = words.text("Loss"), found.metric == "loss"
    head = ("", words.metric(found.metric), words.text("perplexity") if is_loss else "", "")
    return _section(
        report, "loss", heading if is_loss else f"{heading} ({words.metric(found.metric)})", rows, "lrrl", head
    )


def forecasts(report: Report) -> Table | None:
    """The forecast as a table, for the page, whose charts draw it."""
    words, found = report.words, report.diagnosis.loss
    rows = []
    for ahead in found.forecast:
        low, high = words.number(ahead.low, 3), words.number(ahead.high, 3)
        if ahead.basis == "trend":
            name = words.text("if the trend holds: {low} to {high}", low=low, high=high)
        else:
            name = words.text("at the end of the run: {low} to {high}", low=low, high=high)
        where = words.text("iteration {iteration}", iteration=ahead.iteration)
        rows.append((name, words.number(ahead.loss, 4), where))
    return Table(rows, "lrl", title=words.text("forecast, 80% interval")) if rows else None


def _section(report: Report, name: str, heading: str, rows: Rows, align: str, head: tuple[str, ...] = ()) -> Section:
    return Section(name, heading, [*([Table(rows, align, head)] if rows else []), *report.lines(name)])


def known_facts(report: Report) -> Section:
    """The facts grouped by origin; and what is missing, with the flag that supplies it."""
    words, facts = report.words, report.diagnosis.facts
    names = [name for name in (*DERIVED_FACTS, *MAIN_KNOBS) if name in facts]
    others = [name for name in facts if name not in names]
    groups: dict[str, list[str]] = {}
    for name in names + others if report.verbose else names:
        fact = facts[name]
        label = f"{words.fact(name)}\u00a0" if name in DERIVED_FACTS else f"{name}="
        mark = "~" if fact.origin == "inferred" else ""
        groups.setdefault(words.origin(fact), []).append(mark + label + _value(words, name, fact))
    blocks: list[str | Line] = []
    for origin, members in sorted(groups.items(), key=lambda group: group[1][0].startswith("~")):
        title = Cell(words.text("{origin}:", origin=origin), "bold")
        blocks.append(Line((title, " ", ", ".join(members)), hanging=2))
    if any(facts[name].origin == "inferred" for name in names):
        blocks.append(words.text("~ marks what is inferred rather than read, and every figure based on it."))
    if others and not report.verbose:
        blocks.append(words.plural("{n} more with --verbose.", "{n} more with --verbose.", len(others)))
    missing = [name for name in MAIN_KNOBS[:8] if name not in facts and name != "bias"]
    # Those findings already name it. For a log without times or from another trainer, it would not help.
    helps = report.diagnosis.timed and find_format(report.diagnosis.source.format).nanogpt_knobs
    if missing and helps and report.find("tokens_unknown", "mfu_unknown") is None:
        blocks.append(
            words.text("Unknown: {missing}. Pass --config FILE or --set NAME=VALUE.", missing=", ".join(missing))
        )
    return Section("known", words.text("What is known, and how"), [*blocks, *report.lines("known")])


def facts_table(report: Report) -> Table:
    """Every known fact with its origin, for the page, which has room for all of them."""
    words = report.words
    rows = []
    for name, fact in sorted(report.diagnosis.facts.items()):
        inferred = fact.origin == "inferred"
        value = f"{'~' if inferred else ''}{short_checksum(_value(words, name, fact))}"
        rows.append((words.fact(name), Cell(value, inferred=inferred), Cell(words.origin(fact), inferred=inferred)))
    return Table(rows, "lrl", (words.text("setting"), words.text("value"), words.text("origin")))


def _value(words: Words, name: str, fact: Fact) -> str:
    """A knob as typed, the same in every language; a derived number in the language's format."""
    value = fact.value
    if name not in DERIVED_FACTS or not isinstance(value, (int, float)) or isinstance(value, bool):
        return str(value)
    if name == "parameters":
        return words.si(value, digits=2)
    return words.flops(value) if name.startswith("flops") else words.number(value)
