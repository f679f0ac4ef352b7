"""Show what several changes to one config do: the best one, and what each does to the loss and the speed."""

from __future__ import annotations

from nanopace.tune.ablate.variants import Effect, Effects
from nanopace.tune.failures import failure
from nanopace.tune.ratios import difference, figures, interval, times
from nanopace.views.document import Cell, Section, Table, Text
from nanopace.views.terminal.writer import TerminalWriter
from nanopace.wording.catalog import Words


def write(found: Effects, words: Words, writer: TerminalWriter) -> None:
    first, *rest = _answer(found, words)
    writer.line(Cell(first, "bold"), indent=0)
    for line in rest:
        writer.line(line, indent=0)
    writer.section(_section(found, words))


def page(found: Effects, title: str, words: Words) -> str:
    """One HTML file, with the effects as a chart in which better is to the right."""
    from nanopace.views.page.page import waterfall_page  # jinja2, which a terminal does not need
    from nanopace.views.page.waterfall import Change, bars

    changes = []
    for each in found.effects:
        if each.loss is not None:
            changes.append(Change(each.setting, -each.loss.value, each.loss.error, difference(each.loss, words)))
        elif each.speed is not None:
            says = f"{times(each.speed.value, words)} ({interval(each.speed, words)})"
            changes.append(Change(each.setting, each.speed.value, each.speed.error, says))
    chart = bars(("A", 0.0, _of_a(found, words)), changes, None)
    return waterfall_page(title, _answer(found, words), chart, [_section(found, words)], words)


def _of_a(found: Effects, words: Words) -> str:
    return words.number(found.loss, 4) if found.loss is not None else words.si(found.tokens_per_second)


def _answer(found: Effects, words: Words) -> list[str]:
    worked = [each for each in found.effects if each.failure is None]
    if not worked:
        return [words.text("Nothing can be compared: all changes failed.")]
    if found.repeats == 1:
        return [words.text("One run per setting cannot tell an effect from chance: use more --repeats.")]
    if found.loss is not None:
        return _lowest_loss(min(worked, key=_loss), found, words)
    best = max(worked, key=_speed)
    assert best.speed is not None
    said = {"setting": best.setting, **figures(best.speed, words)}
    if best.speed.shows and best.speed.value > 0:
        return [words.text("Fastest: {setting}, at {ratio}x A's speed ({interval}).", **said)]
    return [
        words.text("No change is clearly faster than A; at best {setting}, at {ratio}x its speed ({interval}).", **said)
    ]


def _lowest_loss(best: Effect, found: Effects, words: Words) -> list[str]:
    assert best.loss is not None
    assert best.speed is not None
    assert found.loss is not None
    said = {
        "setting": best.setting,
        "loss": words.number(found.loss + best.loss.value, 4),
        "a": words.number(found.loss, 4),
        "difference": difference(best.loss, words),
    }
    if not (best.loss.shows and best.loss.value < 0):
        return [words.text("No change clearly lowers the loss; at best {setting}: {difference}.", **said)]
    answer = [words.text("Lowest loss: {setting}, {loss} instead of {a} ({difference}).", **said)]
    if best.speed.shows:
        answer.append(words.text("It trains at {ratio}x A's speed ({interval}).", **figures(best.speed, words)))
    return answer


def _section(found: Effects, words: Words) -> Section:
    head = (
        "",
        *((words.text("loss"), words.text("difference")) if found.loss is not None else ()),
        words.text("speed"),
        words.text("95% interval"),
    )
    own = (words.number(found.loss, 4), "") if found.loss is not None else ()
    rows = [("A", *own, times(0.0, words), ""), *(_row(each, found, words) for each in found.effects)]
    note = words.text(
        "A: {tokens} tokens/s. Repeats have different seeds, the same for all settings. The intervals hold for all "
        "settings together.",
        tokens=words.si(found.tokens_per_second),
    )
    table = Table(rows, "l" + "r" * (len(head) - 1), head)
    failed = [
        words.text("{setting} failed: {said}", setting=each.setting, said=each.said)
        for each in found.effects
        if each.failure == "error"
    ]
    return Section("effects", words.text("What each change does"), (table, *failed, note))


def _row(each: Effect, found: Effects, words: Words) -> tuple[Text, ...]:
    empty = ("", "") if found.loss is not None else ()
    if each.speed is None:
        return (each.setting, *empty, failure(each.failure or "", words), "")
    own: tuple[str, ...] = ()
    if found.loss is not None and each.loss is not None:
        own = (words.number(found.loss + each.loss.value, 4), difference(each.loss, words))
    shows = each.speed.shows or (each.loss is not None and each.loss.shows)
    return (
        Cell(each.setting, "bold" if shows else ""),
        *own,
        times(each.speed.value, words),
        interval(each.speed, words),
    )


def _loss(each: Effect) -> float:
    assert each.loss is not None
    return each.loss.value


def _speed(each: Effect) -> float:
    assert each.speed is not None
    return each.speed.value
