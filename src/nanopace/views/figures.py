"""The sections of a terminal report that are figures: throughput, GPU utilisation, loss, and what is known."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nanopace.run import DERIVED_FACTS, Fact
from nanopace.views.paper import Cell, styled
from nanopace.views.report import card_range, gap_name, last_training, share_done
from nanopace.views.sections import TerminalReport
from nanopace.wording.catalog import Words

MAIN_KNOBS = (
    *("n_layer", "n_head", "n_embd", "block_size", "vocab_size", "bias"),
    *("batch_size", "gradient_accumulation_steps", "learning_rate", "max_iters"),
    *("eval_interval", "eval_iters", "log_interval", "always_save_checkpoint"),
    *("dtype", "compile", "dataset"),
)


def throughput(report: TerminalReport) -> None:
    """From normal rows only; what the rest costs stands beside it."""
    words, diagnosis = report.words, report.diagnosis
    step, pace, ahead = diagnosis.step, diagnosis.throughput, diagnosis.ahead
    tokens = report.tilde("tokens_per_iteration")
    rows: list[Sequence[Cell]] = []
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
        note = words.text("{overall} with everything else", overall=tokens + overall)
        rows.append((words.text("tokens per second"), tokens + words.si(pace.tokens_per_s), note))
        each = words.text("{n} per iteration", n=tokens + words.count(pace.tokens_per_iteration))
        rows.append((words.text("tokens per day"), tokens + words.si(pace.tokens_per_day), each))
    if ahead.seconds_per_1000 is not None:
        rows.append((words.text("1,000 more iterations"), words.duration(ahead.seconds_per_1000), ""))
    if ahead.eta_s is not None and ahead.remaining_iterations:
        done = words.percent(share_done(diagnosis))
        note = words.text("{n} iterations to go, {share} done", n=ahead.remaining_iterations, share=done)
        mark = report.tilde("max_iters")
        rows.append((words.text("until max_iters"), mark + words.duration(ahead.eta_s), note))
    if pace.told_training_s is not None:
        note = words.text("the trainer's own count, from step 11 on")
        rows.append((words.text("time in steps"), words.duration(pace.told_training_s), note))
    if not rows and not report.unsaid("throughput"):
        return
    report.paper.heading(words.text("Throughput"))
    report.paper.table(rows, "lrl")
    report.findings("throughput")


def utilisation(report: TerminalReport) -> None:
    """The mfu three ways: as printed, cleansed of evaluation rows, and of the card that ran."""
    words, mfu = report.words, report.diagnosis.mfu
    tilde = report.tilde("flops_per_token", "tokens_per_iteration")
    rows: list[Sequence[Cell]] = []
    of_printed = ""
    if mfu.printed_peak_tflops is not None:
        of_printed = words.text("of {peak}", peak=words.tflops(mfu.printed_peak_tflops))
    if mfu.printed_last is not None:
        rows.append((words.text("as printed, last row"), words.mfu(mfu.printed_last), of_printed))
    if mfu.steady_printed is not None:
        rows.append((words.text("without evaluation rows"), words.mfu(mfu.steady_printed), of_printed))
    if mfu.card is not None:
        peak = words.tflops(mfu.card_tflops)
        note = words.text("of {peak}, dense {precision}", peak=peak, precision=mfu.card_precision)
        if mfu.card_causal is not None:
            causal = tilde + words.value("card_causal", mfu.card_causal)
            note += "; " + words.text("{share} with causal attention", share=causal)
        name = words.text("of the {card}", card=words.card(mfu.card_name or "GPU"))
        rows.append((name, tilde + words.value("card", mfu.card), note))
    elif mfu.card_low is not None:
        name = words.text("of the {card}", card=words.card(mfu.card_name or "GPU"))
        rows.append((name, tilde + card_range(mfu, words), words.text("depending on which one it is")))
    if mfu.achieved_tflops is not None:
        note = ""
        if mfu.achieved_tflops_causal is not None:
            note = words.text("{rate} with causal attention", rate=tilde + words.tflops(mfu.achieved_tflops_causal))
        rows.append((words.text("achieved"), tilde + words.tflops(mfu.achieved_tflops), note))
    if not rows and not report.unsaid("gpu"):
        return
    report.paper.heading(words.text("GPU utilisation (mfu)"))
    if rows:
        report.paper.table(rows, "lrl")
    report.findings("gpu")


def loss(report: TerminalReport) -> None:
    """Where the loss stands, with the perplexity beside it so that nobody takes one for the other."""
    words, found = report.words, report.diagnosis.loss
    rows: list[Sequence[Cell]] = []
    if found.best_val is not None:
        label, error = words.text("best validation"), found.best_val_error
        rows.append(_loss_row(report, label, found.best_val, found.best_val_iteration, error))
    if found.last_val is not None and found.last_val_iteration != found.best_val_iteration:
        label, error = words.text("last validation"), found.last_val_error
        rows.append(_loss_row(report, label, found.last_val, found.last_val_iteration, error))
    if found.last_train is not None:
        rows.append(_loss_row(report, last_training(words, found), found.last_train, found.last_val_iteration))
    if found.gap is not None:
        rows.append((words.text("gap"), words.number(found.gap, 4), "", gap_name(words, found)))
    if not rows and not report.unsaid("loss"):
        return
    heading = words.text("Loss")
    report.paper.heading(heading if found.metric == "loss" else f"{heading} ({words.metric(found.metric)})")
    if rows:
        perplexity = words.text("perplexity") if found.metric == "loss" else ""
        report.paper.table(rows, "lrrl", ("", words.metric(found.metric), perplexity, ""))
    report.findings("loss")


def _loss_row(
    report: TerminalReport, label: str, value: float, iteration: int | None, error: float | None = None
) -> Sequence[Cell]:
    words = report.words
    where = "" if iteration is None else words.text("iteration {iteration}", iteration=iteration)
    perplexity = ""
    if report.diagnosis.loss.metric == "loss" and value < 50:
        perplexity = words.number(math.exp(value), 2)
    return label, words.loss(value, error), perplexity, where


def known_facts(report: TerminalReport) -> None:
    """Each fact under its origin; what is missing, and how to pass it."""
    words, paper, facts = report.words, report.paper, report.diagnosis.facts
    paper.heading(words.text("What is known, and how"))
    names = [name for name in (*DERIVED_FACTS, *MAIN_KNOBS) if name in facts]
    others = [name for name in facts if name not in names]
    groups: dict[str, list[str]] = {}
    for name in names + others if report.verbose else names:
        groups.setdefault(words.origin(facts[name]), []).append(_fact(words, name, facts[name]))
    for origin, members in sorted(groups.items(), key=lambda group: group[1][0].startswith("~")):
        paper.line(styled(words.text("{origin}:", origin=origin), "bold"), " ", ", ".join(members), hanging=2)
    if any(facts[name].origin == "inferred" for name in names):
        paper.line(words.text("~ marks what is inferred, not read, and every figure that rests on it."))
    if others and not report.verbose:
        paper.line(words.plural("{n} more with --verbose.", "{n} more with --verbose.", len(others)))
    missing = [name for name in MAIN_KNOBS[:8] if name not in facts and name != "bias"]
    if missing and report.find("tokens_unknown", "mfu_unknown") is None:  # these say it, too
        text = words.text("Unknown: {missing}. Pass --config FILE or --set NAME=VALUE.", missing=", ".join(missing))
        paper.line(text)
    report.findings("known")


def _fact(words: Words, name: str, fact: Fact) -> str:
    value = fact.value
    tilde = "~" if fact.origin == "inferred" else ""
    if name not in DERIVED_FACTS:
        return f"{tilde}{name}={value}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if name == "parameters":
            shown = words.si(value, digits=2)
        elif name.startswith("flops"):
            shown = words.flops(value)
        else:
            shown = words.number(value)
    else:
        shown = str(value)
    return f"{tilde}{words.fact(name)}\u00a0{shown}"
