"""Runs against the first of them, for the terminal. Each run has a letter; A is what the others are held against."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nanopace.diagnosis.comparison import Change, Comparison
from nanopace.diagnosis.result import Diagnosis, Finding, Number
from nanopace.views.figures import MAIN_KNOBS
from nanopace.views.paper import Cell, Paper, styled
from nanopace.views.report import tilde
from nanopace.wording.catalog import UNKNOWN, Words

# The verdict is a sentence on speed, on learning and on the time to a loss: of each kind the first that there is.
SPEED = ("compare_speed", "compare_speed_equal", "compare_time_per_iteration", "compare_speed_unknown")
LEARNING = (
    *("compare_crossover", "compare_leads_time", "compare_loss_tokens"),
    *("compare_loss_iterations", "compare_loss_equal", "compare_other_data", "compare_loss_unknown"),
    *("compare_other_tokenizer", "compare_other_vocabulary", "compare_other_corpus"),
)
ARRIVAL = (
    *("compare_sooner", "compare_sooner_iterations", "compare_arrival_equal"),
    *("compare_sooner_bits", "compare_arrival_equal_bits"),
)
ATTRIBUTION = ("compare_one_knob", "compare_speed_knob", "compare_several_knobs")
NAMES = frozenset(  # of runs
    {"faster", "slower", "better", "worse", "early", "late", "leader", "follower", "sooner", "later", "run"}
)
MOST_POINTS = 6  # of a loss table; --verbose shows all


@dataclass(frozen=True, slots=True)
class Pair:
    """One comparison, and the letters of its two runs."""

    found: Comparison
    a: str
    b: str

    def sentence(self, words: Words, finding: Finding) -> str:
        """The finding's, with letters for the names of the runs."""
        a, b = self.found.a.source.name, self.found.b.source.name
        # Two files of the same name are told apart in findings by these letters, too.
        letters: Mapping[object, str] = {f"{a} (A)": self.a, f"{b} (B)": self.b, b: self.b, a: self.a}
        numbers: dict[str, object] = dict(finding.numbers)
        for name in NAMES.intersection(numbers):
            letter = numbers[name] = letters.get(numbers[name], numbers[name])
            speed = f"{name}_tokens_per_s"
            if speed in numbers:
                run = self.found.a if letter == self.a else self.found.b
                numbers[speed] = _marked(run, ("tokens_per_iteration",), words.value(speed, numbers[speed]))
        return words.finding(finding.code, numbers)

    def verdict(self) -> list[Finding]:
        """What is said first."""
        found = (self.first(SPEED), self.first(LEARNING), self.first(ARRIVAL))
        return [finding for finding in found if finding is not None]

    def first(self, codes: Sequence[str]) -> Finding | None:
        found = {finding.code: finding for finding in reversed(self.found.findings)}
        return next((found[code] for code in codes if code in found), None)


def write(comparisons: Sequence[Comparison], words: Words, paper: Paper, *, verbose: bool) -> None:
    """The verdict first, then what it rests on."""
    if not comparisons:
        return
    pairs = [Pair(found, "A", chr(ord("B") + number)) for number, found in enumerate(comparisons)]
    runs = {"A": comparisons[0].a, **{pair.b: pair.found.b for pair in pairs}}
    for pair in pairs:
        said = " ".join(pair.sentence(words, finding) for finding in pair.verdict())
        prefix = f"{pair.a} – {pair.b}: " if len(pairs) > 1 else ""
        paper.line(styled(prefix + said, "bold"), indent=0)
    paper.blank()
    for letter, run in runs.items():
        span = words.text(
            "iterations {first} to {last}", first=run.source.first_iteration, last=run.source.last_iteration
        )
        paper.line(
            styled(f"{letter}  ", "bold cyan"), f"{run.source.name} · {span} · {words.duration(run.wall.total_s)}"
        )
    _figures(runs, words, paper)
    for pair in pairs:
        _say_rest(pair, words, paper, SPEED)
    for pair in pairs:
        title = f" ({pair.a}, {pair.b})" if len(pairs) > 1 else ""
        _changes(pair, words, paper, title, verbose=verbose)
        _decomposition(pair, words, paper, title)
        _arrival(pair, words, paper, title)
        _losses(pair, words, paper, title, None if verbose else MOST_POINTS)
        _open_questions(pair, words, paper, title)


def _figures(runs: Mapping[str, Diagnosis], words: Words, paper: Paper) -> None:
    figures: Sequence[
        tuple[str, Callable[[Diagnosis], float | None], Callable[[float | None], str], tuple[str, ...]]
    ] = (
        (words.fact("parameters"), lambda d: d.model.parameters, lambda x: words.si(x, digits=2), ("parameters",)),
        (words.fact("flops_per_token"), lambda d: d.model.flops_per_token, words.flops, ("flops_per_token",)),
        (words.text("normal step"), lambda d: d.step.median_ms, words.ms, ()),
        (
            words.text("one micro-batch"),
            lambda d: d.throughput.micro_batch_ms,
            words.ms,
            ("gradient_accumulation_steps",),
        ),
        (words.text("tokens per second"), lambda d: d.throughput.tokens_per_s, words.si, ("tokens_per_iteration",)),
        (words.text("achieved"), lambda d: d.mfu.achieved_tflops, words.tflops, ("flops_per_token",)),
        (words.text("mfu of the card"), lambda d: d.mfu.card, lambda x: words.percent(x, 0), ("flops_per_token",)),
        (words.text("evaluation and checkpoints"), lambda d: d.wall.overhead_share, lambda x: words.percent(x, 2), ()),
        (words.text("best validation"), lambda d: d.loss.best_val, lambda x: words.number(x, 4), ()),
    )
    rows: list[Sequence[Cell]] = []
    for label, of, shown, facts in figures:
        values = [of(run) for run in runs.values()]
        if all(value is None for value in values):
            continue
        cells = [_marked(run, facts, shown(value)) for run, value in zip(runs.values(), values, strict=True)]
        first, last = values[0], values[-1]
        ratio = f"×{words.number(last / first, 2)}" if len(runs) == 2 and first and last is not None else ""
        rows.append((label, *cells, ratio))
    paper.heading(words.text("Figures"))
    paper.table(rows, "l" + "r" * (len(runs) + 1), ("", *runs, "B/A"))


def _marked(run: Diagnosis, facts: Sequence[str], shown: str) -> str:
    return shown if shown == UNKNOWN else tilde(run, *facts) + shown


def _changes(pair: Pair, words: Words, paper: Paper, title: str, *, verbose: bool) -> None:
    found = pair.found
    paper.heading(words.text("What changed") + title)
    if found.changed:
        rows = [
            (change.knob, _value(change.a, change.a_origin), _value(change.b, change.b_origin), _origins(words, change))
            for change in found.changed
        ]
        paper.table(rows, "lrrl", ("", pair.a, pair.b, ""))
    _say(pair, words, paper, ("compare_same_settings", "compare_settings_unknown"))
    if found.unknown_knobs and pair.first(("compare_settings_unknown",)) is None:
        main = [knob for knob in found.unknown_knobs if verbose or knob in MAIN_KNOBS]
        if main:
            paper.line(words.text("Known of one run only: {knobs}.", knobs=", ".join(main)))
        if len(main) < len(found.unknown_knobs):
            more = len(found.unknown_knobs) - len(main)
            paper.line(words.plural("{n} more with --verbose.", "{n} more with --verbose.", more))


def _value(value: Number | bool, origin: str | None) -> str:
    return UNKNOWN if value is None else f"{'~' if origin == 'inferred' else ''}{value}"


def _origins(words: Words, change: Change) -> str:
    known = [words.origin_of(origin) for origin in (change.a_origin, change.b_origin) if origin is not None]
    return ", ".join(dict.fromkeys(known))


def _decomposition(pair: Pair, words: Words, paper: Paper, title: str) -> None:
    parts = pair.found.decomposition
    if parts.total is None:
        return
    paper.heading(words.text("Why the speed differs") + title)
    if parts.flops_per_token is None:
        paper.line(
            words.text("Unknown: FLOPs per token of both runs. Pass n_layer, n_embd, vocab_size, block_size and bias.")
        )
        return
    utilisation = words.text("use of the card") if parts.peak is not None else words.text("card and its use")
    named = (
        (words.fact("flops_per_token"), parts.flops_per_token),
        (utilisation, parts.utilisation),
        (words.text("peak of the card"), parts.peak),
        (words.text("tokens per second"), parts.total),
    )
    rows = [
        (label, f"{'+' if part > 0 else ''}{words.number(part, 3)}", f"×{words.number(math.exp(part), 2)}")
        for label, part in named
        if part is not None
    ]
    paper.table(rows, "lrr", ("", words.text("ln"), words.text("factor")))
    _say(pair, words, paper, ("compare_why", "compare_why_unknown_peak"))


def _arrival(pair: Pair, words: Words, paper: Paper, title: str) -> None:
    """When each was at the loss that both reached."""
    from nanopace.views.arriving import arrival_notes, arrival_rows, goal_label  # the page of one run does without it

    notes, arrival = ("compare_clock_incomplete", "compare_late_start"), pair.found.arrival
    if arrival is None and pair.first(notes) is None:
        return
    paper.heading(words.text("Time to the same validation loss") + title)
    if arrival is not None:
        head = (goal_label(arrival.target, words), pair.a, pair.b, f"{pair.b}/{pair.a}")
        paper.table(arrival_rows(arrival, words), "lrrr", head)
        for line in arrival_notes(arrival, words):
            paper.line(line)
    _say(pair, words, paper, notes)


def _losses(pair: Pair, words: Words, paper: Paper, title: str, most: int | None) -> None:
    found = pair.found
    tables = (
        (words.text("tokens"), [(words.si(at.tokens, digits=2), at.a, at.b) for at in found.equal_tokens]),
        (words.text("time"), [(words.duration(at.seconds), at.a, at.b) for at in found.equal_time]),
        (words.text("arithmetic"), [(words.flops(at.flops), at.a, at.b) for at in found.equal_flops]),
    )
    if not any(points for _, points in tables):
        return
    paper.heading(words.text("Validation loss at equal tokens, time and arithmetic") + title)
    for number, (label, points) in enumerate(table for table in tables if table[1]):
        if number:
            paper.blank()
        rows = [
            (where, words.number(a, 4), words.number(b, 4), f"{'+' if b > a else ''}{words.number(b - a, 4)}")
            for where, a, b in _spread(points, most)
        ]
        paper.table(rows, "rrrr", (label, pair.a, pair.b, f"{pair.b} - {pair.a}"))
    _say_rest(pair, words, paper, LEARNING)


def _spread(points: Sequence[tuple[str, float, float]], most: int | None) -> Sequence[tuple[str, float, float]]:
    """At most so many of them, evenly, the last always."""
    if most is None or len(points) <= most:
        return points
    return [points[round((number + 1) * len(points) / most) - 1] for number in range(most)]


def _open_questions(pair: Pair, words: Words, paper: Paper, title: str) -> None:
    """What two runs cannot tell, and the runs that would."""
    found = pair.found
    if pair.first(ATTRIBUTION) is None and not found.settling:
        return
    paper.heading(words.text("What can be attributed, and what cannot") + title)
    _say(pair, words, paper, ATTRIBUTION)
    if found.settling:
        paper.line(words.text("Runs that would settle it, each like {b} with one knob as in {a}:", a=pair.a, b=pair.b))
        for settling in found.settling:
            # Two knobs whose product stays the same go together: "16 × 32".
            knobs, values = settling.knob.split(" × "), str(settling.value).split(" × ")
            paper.line(", ".join(f"{knob}={value}" for knob, value in zip(knobs, values, strict=False)), indent=4)
        paper.line(words.text("nanopace ablate A B starts them, with the two configs or runs for A and B."))


def _say_rest(pair: Pair, words: Words, paper: Paper, codes: Sequence[str]) -> None:
    """All but the first of them, which the verdict has said."""
    first = pair.first(codes)
    _say(pair, words, paper, [code for code in codes if first is None or code != first.code])


def _say(pair: Pair, words: Words, paper: Paper, codes: Sequence[str]) -> None:
    for finding in pair.found.findings:
        if finding.code in codes:
            paper.line(pair.sentence(words, finding))
