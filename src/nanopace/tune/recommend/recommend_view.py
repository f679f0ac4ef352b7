"""Recommendations for the terminal: the answer first, then tables, then the reason for each knob."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial

from nanopace.hardware.memory import GIB
from nanopace.hardware.speed import Range
from nanopace.memory_ladder import on_host
from nanopace.tune.recommend.costs import Cost, Costs, cost_notes, cost_ranges, cost_sentence, money_of
from nanopace.tune.recommend.models import Model
from nanopace.tune.recommend.notes import Note, headline, notes
from nanopace.tune.recommend.recommend import Recommendation
from nanopace.tune.recommend.side_by_side import Shown, middle, side_by_side, span
from nanopace.views.document import Cell, Table, Text
from nanopace.views.terminal.writer import TerminalWriter
from nanopace.wording.catalog import Words

_ROOMY = 64  # columns: in a narrower terminal, tables leave out what is shown elsewhere


@dataclass(frozen=True, slots=True)
class Candidate:
    """One row in the table of models: what could be trained on a card."""

    model: Model
    found: Recommendation | None  # None: it does not fit on the card
    costs: Costs | None = None  # None without prices
    with_host: bool = False  # it would fit with the host's memory


@dataclass(frozen=True, slots=True)
class Answer:
    """The result for one card, and the models that were considered if none was requested."""

    found: Recommendation
    candidates: tuple[Candidate, ...] = ()
    costs: Costs | None = None  # None without prices


def write(answers: Sequence[Answer], words: Words, writer: TerminalWriter) -> None:
    """One card in full, or several side by side."""
    if len(answers) > 1:
        everyone = [answer.found for answer in answers]
        for each in answers:
            said = (*_settings(each.found, words), *cost_sentence(each.costs, words), *_loss(each.found, words))
            writer.line(Cell(" ".join(said), "bold"), indent=0)
        for note in _each_once(everyone, headline, words):
            writer.line(Cell(note, "bold"), indent=0)
        side_by_side(everyone, [answer.costs for answer in answers], words, writer)
        _all_notes(answers, words, writer)
        return
    (answer,) = answers
    found = answer.found
    reading = (words.note(code, numbers) for code, numbers in headline(found))
    said = (*_settings(found, words), *cost_sentence(answer.costs, words), *reading, *_loss(found, words))
    writer.line(Cell(" ".join(said), "bold"), indent=0)
    if answer.candidates:
        _models(answer.candidates, words, writer)
    _fitting(found, words, writer)
    _speed(found, answer.costs, words, writer)
    _together(found, answer.costs, words, writer)
    _knobs(found, words, writer)
    _all_notes([answer], words, writer)


def document(answer: Answer) -> dict[str, object]:
    """For JSON: the recommendation's own fields, and the models that were considered."""
    whole: dict[str, object] = {field.name: getattr(answer.found, field.name) for field in fields(answer.found)}
    whole["models"] = [
        {
            "name": each.model.name,
            "parameters": each.model.parameters,
            "fits": each.found is not None,
            "batch_size": None if each.found is None else each.found.batch_size,
            "tokens_per_s": None if each.found is None else each.found.tokens_per_s,
            "seconds": None if each.found is None else each.found.seconds,
            **({} if answer.costs is None else {"cost": None if each.costs is None else each.costs.one}),
        }
        for each in answer.candidates
    ]
    if answer.costs is not None:
        whole["costs"] = answer.costs
    return whole


def _settings(found: Recommendation, words: Words) -> list[str]:
    said = [
        words.text(
            "{card} ({memory} GB): {model}, batch_size {batch}, gradient_accumulation_steps {accumulation}.",
            card=words.card(found.card),
            memory=found.memory_gb,
            model=found.model.name,
            batch=str(found.batch_size),
            accumulation=str(found.accumulation),
        )
    ]
    if found.tokens_per_s is not None and found.seconds is not None:
        said.append(
            words.text(
                "About {rate} tokens/s ({rates}): {tokens} tokens in {time} ({times}).",
                rate=words.si(found.tokens_per_s.expected),
                rates=span(found.tokens_per_s, words.si, words),
                tokens=words.si(found.tokens, digits=2),
                time=words.duration(found.seconds.expected),
                times=span(found.seconds, words.duration, words),
            )
        )
    else:
        said.append(words.text("Its speed is unknown."))
    return said


def _loss(found: Recommendation, words: Words) -> list[str]:
    """The estimated loss; if there is none, the headline says why."""
    if found.loss is None:
        return []
    return [
        words.text(
            "Estimated final loss: about {loss} ({losses}).",
            loss=words.number(found.loss.expected, 2),
            losses=span(found.loss, lambda x: words.number(x, 2), words),
        )
    ]


def _models(candidates: Sequence[Candidate], words: Words, writer: TerminalWriter) -> None:
    rows: list[Sequence[Text]] = []
    for each in candidates:
        name, size = each.model.name, words.si(each.model.parameters) if writer.width >= _ROOMY else ""
        if each.found is None:
            why = words.text("only with host memory") if each.with_host else words.text("does not fit")
            rows.append((name, size, "", "", why, ""))
            continue
        batch = f"{each.found.batch_size} × {each.found.accumulation}"
        rate = middle(each.found.tokens_per_s, words.si)
        cost = money_of(each.costs, lambda costs: costs.one, words)
        rows.append((name, size, batch, rate, middle(each.found.seconds, words.duration), cost))
    head = ("", words.fact("parameters"), words.text("micro-batch"), words.text("tokens/s"), words.text("time"))
    writer.heading(words.text("Models for this card"))
    writer.table(Table(rows, "lrrrrr", (*head, words.text("cost"))))


def _fitting(found: Recommendation, words: Words, writer: TerminalWriter) -> None:
    rows: list[Sequence[Text]] = []
    for rung in found.rungs:
        if rung.trainer == "nanogpt":
            name = "nanoGPT"
        else:
            name = words.memory_step(rung.steps[-1]) if rung.steps else words.text("nanopace, everything kept")
            name = f"+ {name}" if rung.steps and not on_host(rung.steps) else name  # whose rung is not on top of others
        chosen = rung.trainer == "nanopace" and rung.steps == found.ladder
        taken = words.text("recommended: {batch}", batch=str(found.batch_size)) if chosen else ""
        rows.append((name, words.count(rung.micro_batch), Cell(taken, "green")))
    writer.heading(words.text("Largest micro-batch in {memory} GB", memory=found.memory_gb))
    writer.table(Table(rows, "lrl"))
    used = words.number(found.memory_bytes / GIB, 1)
    writer.line(
        words.text(
            "With the recommended settings, a step takes about {used} of {memory} GiB.",
            used=used,
            memory=words.number(found.memory_gb),
        )
    )


def _speed(found: Recommendation, costs: Costs | None, words: Words, writer: TerminalWriter) -> None:
    budget = words.text("time to {tokens} tokens", tokens=words.si(found.tokens, digits=2))
    rows = _ranges(
        (words.text("tokens/s, nanopace"), found.tokens_per_s, words.si),
        (words.text("tokens/s, nanoGPT"), found.nanogpt_tokens_per_s, words.si),
        (words.text("one step"), found.step_s, words.duration),
        (budget, found.seconds, words.duration),
        (words.text("same loss with --recipe=fast"), found.fast_seconds, words.rough_duration),
        (words.text("energy"), found.kwh, lambda x: words.value("energy_kwh", x)),
        *cost_ranges(costs, words),
        (words.text("validation loss"), found.loss, lambda x: words.number(x, 2)),
        (words.text("perplexity"), found.perplexity, lambda x: words.number(x, 1)),
        words=words,
    )
    if not rows:
        return
    writer.heading(words.text("What to expect"))
    writer.table(Table(rows, "lrl", ("", words.text("expected"), words.text("range"))))


def _ranges(*figures: tuple[str, Range | None, Shown], words: Words) -> list[Sequence[Text]]:
    known = [figure for figure in figures if figure[1] is not None]
    return [(name, middle(found, shown), span(found, shown, words)) for name, found, shown in known]


def _together(found: Recommendation, costs: Costs | None, words: Words, writer: TerminalWriter) -> None:
    if len(found.together) == 1:
        return
    rows = [
        (
            words.count(each.count),
            f"{each.batch_size} × {each.accumulation}",
            middle(each.tokens_per_s, words.si),
            middle(each.seconds, words.duration),
            "" if writer.width < _ROOMY else span(each.seconds, words.duration, words),
            money_of(costs, partial(_nth, number), words),
        )
        for number, each in enumerate(found.together)
    ]
    head = (words.text("cards"), words.text("micro-batch"), words.text("tokens/s"), words.text("time"), "")
    writer.heading(words.text("One card and several"))
    writer.table(Table(rows, "rrrrlr", (*head, words.text("cost"))))


def _nth(number: int, costs: Costs) -> Cost:
    return costs.together[number]


def _knobs(found: Recommendation, words: Words, writer: TerminalWriter) -> None:
    rows = [
        (choice.knob, str(choice.value), words.reason(choice.reason, choice.numbers))
        for choice in found.knobs
        if choice.knob not in ("out_dir", "lr_decay_iters")
    ]
    writer.heading(words.text("Settings and reasons"))
    writer.table(Table(rows, "Lrl"))
    writer.line(
        words.text(
            "Evaluations and checkpoints take {ours} of the time, {theirs} with nanoGPT.",
            ours=words.percent(found.evaluation_share, 2),
            theirs=words.percent(found.nanogpt_evaluation_share, 2),
        )
    )


def _all_notes(answers: Sequence[Answer], words: Words, writer: TerminalWriter) -> None:
    writer.heading(words.text("Notes"))
    for said in _each_once([answer.found for answer in answers], notes, words):
        writer.line(said, hanging=2)
    for said in dict.fromkeys(note for answer in answers for note in cost_notes(answer.costs, words)):
        writer.line(said, hanging=2)


def _each_once(
    everyone: Sequence[Recommendation], of: Callable[[Recommendation], Sequence[Note]], words: Words
) -> list[str]:
    """Each note once, prefixed with its cards unless it applies to all of them."""
    about: dict[str, list[str]] = {}
    for found in everyone:
        for code, numbers in of(found):
            link = numbers.get("link")
            said = words.note(code, numbers if link is None else {"link": words.link(str(link))})
            about.setdefault(said, []).append(words.card(found.card))
    return [said if len(cards) == len(everyone) else f"{', '.join(cards)}: {said}" for said, cards in about.items()]
