"""The sections that support the verdict on two runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from nanopace.diagnosis.compare.attribution import effect_of
from nanopace.diagnosis.compare.comparable import settings_help
from nanopace.diagnosis.comparison import Change, Decomposition
from nanopace.diagnosis.result import Diagnosis, Number
from nanopace.diagnosis.time.throughput import measured_step_ms
from nanopace.views.compare.arrival import arrival_notes, arrival_rows, goal_label
from nanopace.views.compare.costs import arrival_cost, bill_rows, cost_remarks
from nanopace.views.compare.pair import ATTRIBUTION, CLOCK, LEARNING, SETTINGS, SPEED, WHY, Pair
from nanopace.views.document import Cell, Line, Section, Table, Text, run_colour
from nanopace.views.figures import MAIN_KNOBS
from nanopace.views.report import marked, tilde
from nanopace.wording.catalog import UNKNOWN, Words

MOST_POINTS = 6  # of a loss table; --verbose shows all
_INCOMPLETE = "compare_clock_incomplete"
_MOST_TYPED = 8  # characters of a fraction that somebody typed; a longer one is a quotient
_LARGEST_EXPONENT = 700.0  # a factor with a larger exponent would overflow


def details(pair: Pair, *, verbose: bool) -> list[Section]:
    """All sections about a pair except the figures of its runs."""
    return [
        _changes(pair, verbose=verbose),
        _decomposition(pair),
        _arrival(pair),
        _losses(pair, None if verbose else MOST_POINTS),
        _open_questions(pair),
    ]


def figures(pair: Pair) -> Section:
    """The two runs side by side, with figures based on inferred facts marked; figures unknown for both are left out."""
    words, a, b = pair.words, pair.found.a, pair.found.b
    known: Sequence[tuple[str, Callable[[Diagnosis], float | None], Callable[[float | None], str], str]] = (
        (words.fact("parameters"), lambda d: d.model.parameters, lambda x: words.si(x, digits=2), "parameters"),
        (words.fact("flops_per_token"), lambda d: d.model.flops_per_token, words.flops, "flops_per_token"),
        (words.text("normal step"), lambda d: measured_step_ms(d.step), words.ms, ""),
        (words.text("one micro-batch"), lambda d: d.throughput.micro_batch_ms, words.ms, "gradient_accumulation_steps"),
        (words.text("tokens per second"), lambda d: d.throughput.tokens_per_s, words.si, "tokens_per_iteration"),
        (words.text("achieved"), achieved_of((a, b)), words.tflops, "flops_per_token"),
        (words.text("mfu of the card"), lambda d: d.mfu.card, lambda x: words.percent(x, 0), "flops_per_token"),
        (words.text("evaluations and checkpoints"), lambda d: d.wall.overhead_share, lambda x: words.percent(x, 2), ""),
    )
    rows: list[Sequence[Text]] = []
    for label, of, shown, fact in known:
        of_a, of_b = of(a), of(b)
        if of_a is None and of_b is None:
            continue
        ratio = words.factor(of_b / of_a) if of_a and of_b else ""
        texts = shown(of_a), shown(of_b)
        if of_a and of_b and ratio != words.factor(1.0) and shown in (words.si, words.ms):
            texts = words.apart("_ms" if shown == words.ms else "", of_a, of_b)
        rows.append((label, marked(tilde(a, fact), texts[0]), marked(tilde(b, fact), texts[1]), ratio))
    rows += bill_rows(a, b, words)
    if a.loss.metric == b.loss.metric:  # without a ratio: a loss has no natural zero
        best = words.number(a.loss.best_val, 4), words.number(b.loss.best_val, 4)
        rows += [(words.text("best validation"), *best, "")] if best != (UNKNOWN, UNKNOWN) else []
        bits = [min((each for each in run.curves.eval_bits if each is not None), default=None) for run in (a, b)]
        if None not in bits:
            rows.append((words.metric("bpb"), *(words.number(each, 4) for each in bits), ""))
    table = [Table(rows, "lrrr", pair.head("", f"{pair.b}/{pair.a}"))] if rows else []
    return Section("figures", words.text("Figures"), [*table, *pair.rest(SPEED), *cost_remarks((a, b), words)])


def achieved_of(runs: Iterable[Diagnosis]) -> Callable[[Diagnosis], float | None]:
    """TFLOP/s per card, for both runs on the same basis: from tokens and FLOPs if both have them, as printed if neither
    has tokens. Otherwise none is shown, because the figures would not be comparable and might contradict the tokens per
    second."""
    runs = tuple(runs)
    if all(_counted_tflops(run) is not None for run in runs):
        return _counted_tflops
    printed = all(run.throughput.tokens_per_s is None for run in runs)
    return lambda run: run.mfu.achieved_tflops if printed else None


def _counted_tflops(run: Diagnosis) -> float | None:
    tokens, flops, count = run.throughput.tokens_per_s, run.model.flops_per_token, run.facts.get("gpu_count")
    cards = count.value if count is not None and isinstance(count.value, (int, float)) and count.value > 0 else 1
    return None if tokens is None or flops is None else tokens * flops / cards / 1e12


def _changes(pair: Pair, *, verbose: bool) -> Section:
    """The knobs that differ, and where each value comes from."""
    words, found = pair.words, pair.found
    blocks: list[str | Table] = []
    shown = [change for change in found.changed if verbose or not _is_a_name(change)]
    if shown:
        rows = [
            (change.knob, _value(change.a, change.a_origin), _value(change.b, change.b_origin), _origins(words, change))
            for change in shown
        ]
        blocks.append(Table(rows, "lrrl", pair.head("", "")))
    if len(shown) < len(found.changed):
        more = len(found.changed) - len(shown)
        blocks.append(words.plural("{n} more with --verbose.", "{n} more with --verbose.", more))
    blocks += pair.lines(SETTINGS)
    if found.unknown_knobs and pair.first(("compare_settings_unknown",)) is None:
        main = [knob for knob in found.unknown_knobs if verbose or knob in MAIN_KNOBS]
        if main:
            blocks.append(words.text("Known for one run only: {knobs}.", knobs=", ".join(main)))
        if len(main) < len(found.unknown_knobs):
            more = len(found.unknown_knobs) - len(main)
            blocks.append(words.plural("{n} more with --verbose.", "{n} more with --verbose.", more))
    return Section("changes", words.text("What changed"), blocks)


def _is_a_name(change: Change) -> bool:
    """Whether the setting only names a run or a place: two runs always differ in that, and names are long."""
    return effect_of(change.knob) == "bookkeeping" and isinstance(change.a, str)


def _value(value: Number | bool, origin: str | None) -> Cell:
    inferred = value is not None and origin == "inferred"
    return Cell(UNKNOWN if value is None else f"{'~' if inferred else ''}{setting(value)}", inferred=inferred)


def setting(value: Number | bool) -> str:
    """A setting's value as it would be typed; a computed fraction without the digits that say nothing."""
    return f"{value:.6g}" if isinstance(value, float) and len(str(value)) > _MOST_TYPED else str(value)


def _origins(words: Words, change: Change) -> str:
    known = [words.origin_of(origin) for origin in (change.a_origin, change.b_origin) if origin is not None]
    return ", ".join(dict.fromkeys(known))


def _decomposition(pair: Pair) -> Section:
    """Why one is faster: parts that add up to the logarithm, and factors that multiply to the ratio."""
    words, parts = pair.words, pair.found.decomposition
    blocks: list[str | Table] = []
    if parts.total is not None and parts.flops_per_token is None:
        if not settings_help(pair.found.a, pair.found.b):
            return Section("why", words.text("Why the speed differs"), [])
        blocks.append(
            words.text("Unknown: FLOPs per token for both runs. Pass n_layer, n_embd, vocab_size, block_size and bias.")
        )
    elif parts.total is not None:
        rows = [
            (label, f"{'+' if part > 0 else ''}{words.number(part, 3)}", words.factor(math.exp(part)))
            for label, part in parts_of_speed(parts, words)
        ]
        blocks = [Table(rows, "lrr", ("", words.text("ln"), words.text("factor"))), *pair.lines(WHY)]
    return Section("why", words.text("Why the speed differs"), blocks)


def parts_of_speed(parts: Decomposition, words: Words) -> list[tuple[str, float]]:
    """The known parts and their sum; the number of cards only if it differs."""
    utilisation = words.text("card utilisation") if parts.peak is not None else words.text("card and its utilisation")
    named = (
        (words.fact("flops_per_token"), parts.flops_per_token),
        (words.fact("gpu_count"), parts.gpu_count or None),
        (utilisation, parts.utilisation),
        (words.text("card peak"), parts.peak),
        (words.text("tokens per second"), parts.total),
    )
    return [(label, part) for label, part in named if part is not None and part < _LARGEST_EXPONENT]


def _arrival(pair: Pair) -> Section:
    """When each run reached the loss that both reached."""
    words, arrival = pair.words, pair.found.arrival
    blocks: list[str | Table] = []
    if arrival is not None and max(arrival.a.seconds, arrival.b.seconds) > 0:  # one may have been there at its start
        head = pair.head(goal_label(arrival.target, words), f"{pair.b}/{pair.a}")
        time, *others = arrival_rows(arrival, words)
        rows = [time, *arrival_cost(pair.found, words), *others]
        blocks = [Table(rows, "lrrr", head), *arrival_notes(arrival, words)]
    said = [*incomplete_clocks([pair]), *pair.lines([code for code in CLOCK if code != _INCOMPLETE])]
    return Section("arrival", words.text("Time to the same validation loss"), [*blocks, *said])


def incomplete_clocks(pairs: Sequence[Pair]) -> list[str]:
    """Which logs show less than the real time: one sentence, however many they are."""
    words = pairs[0].words
    said = [(pair, each) for pair in pairs for each in pair.found.findings if each.code == _INCOMPLETE]
    letters = sorted({pair.letter(each) for pair, each in said})
    if len(letters) < 2:
        return [pair.sentence(each) for pair, each in said[:1]]
    text = words.text(
        "The logs of {runs} do not show the cost of all their evaluations and checkpoints: the real times are longer "
        "than these.",
        runs=", ".join(letters),
    )
    return [text]


def _losses(pair: Pair, most: int | None) -> Section:
    """The best losses so far at equal tokens, time and compute; the difference has the colour of the better run."""
    words, found = pair.words, pair.found
    points = (
        (words.text("tokens"), [(words.si(at.tokens, digits=2), at.a, at.b) for at in found.equal_tokens]),
        (words.text("time"), [(words.duration(at.seconds), at.a, at.b) for at in found.equal_time]),
        (words.text("compute"), [(words.flops(at.flops), at.a, at.b) for at in found.equal_flops]),
    )

    def row(where: str, a: float, b: float) -> Sequence[Text]:
        better = "" if a == b else run_colour(0 if a < b else pair.number)
        difference = Cell(f"{'+' if b > a else ''}{words.number(b - a, 4)}", shade=better)
        return where, words.number(a, 4), words.number(b, 4), difference

    blocks: list[str | Table] = [
        Table([row(*at) for at in _spread(known, most)], "rrrr", pair.head(label, f"{pair.b} - {pair.a}"))
        for label, known in points
        if known
    ]
    if blocks:
        blocks.append(words.text("Between two evaluations, the losses are interpolated."))
        blocks += pair.rest((*LEARNING, "compare_risen"))
    return Section("losses", words.text("Best validation loss so far, at equal tokens, time and compute"), blocks)


def _spread(points: Sequence[tuple[str, float, float]], most: int | None) -> Sequence[tuple[str, float, float]]:
    """At most `most` of the points, evenly spaced, always including the last."""
    if most is None or len(points) <= most:
        return points
    return [points[round((number + 1) * len(points) / most) - 1] for number in range(most)]


def _open_questions(pair: Pair) -> Section:
    """What two runs cannot show, and the runs that would."""
    words, found = pair.words, pair.found
    blocks: list[str | Line] = [*pair.lines(ATTRIBUTION)]
    if found.settling:
        blocks.append(
            words.text("Runs that would settle it, each like {b} with one setting from {a}:", a=pair.a, b=pair.b)
        )
        for settling in found.settling:
            # Two knobs with a constant product go together: "16 × 32".
            knobs, values = settling.knob.split(" × "), str(settling.value).split(" × ")
            settings = ", ".join(f"{knob}={value}" for knob, value in zip(knobs, values, strict=False))
            blocks.append(Line((settings,), indent=2))
        blocks.append(words.text("To start them: nanopace ablate A B, with the two configs or runs as A and B."))
    return Section("attribution", words.text("What can be attributed, and what cannot"), blocks)
