"""Two runs against each other, for the terminal: the verdict, then what it rests on. Three and more: ranking.py.

Each run has a letter; A is what the others are held against.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nanopace.diagnosis.comparison import Change, Comparison, Decomposition
from nanopace.diagnosis.result import Diagnosis, Finding, Number
from nanopace.diagnosis.time.throughput import measured_step_ms
from nanopace.views.figures import MAIN_KNOBS
from nanopace.views.paper import Cell, Paper, styled
from nanopace.views.report import tilde
from nanopace.wording.catalog import UNKNOWN, Words

# The verdict is a sentence on speed, on learning and on the time to a loss: of each kind the first that there is.
SPEED = (
    *("compare_speed", "compare_speed_equal", "compare_speed_unclear", "compare_step_unknown"),
    *("compare_time_per_iteration", "compare_speed_unknown"),
)
CAVEAT = ("compare_data_unknown",)  # goes before what is said of learning
LEARNING = (
    *("compare_crossover", "compare_crossover_best", "compare_leads_time"),
    *("compare_loss_tokens", "compare_loss_iterations"),
    *("compare_loss_equal", "compare_loss_uncertain", "compare_loss_unknown"),
    *("compare_other_metric", "compare_other_data", "compare_other_corpus"),
    *("compare_other_tokenizer", "compare_other_vocabulary", "compare_vocabulary_inferred"),
)
ARRIVAL = (
    *("compare_sooner", "compare_sooner_iterations", "compare_arrival_same", "compare_arrival_equal"),
    *("compare_arrival_uncertain", "compare_sooner_bits", "compare_arrival_equal_bits"),
)
REASONS = ("compare_overall", "compare_stretch", "compare_time_share")  # why the faster one is not further
CLOCK = ("compare_clock_incomplete", "compare_late_start", "compare_clock_unknown")
SETTINGS = ("compare_same_settings", "compare_settings_unknown")
WHY = ("compare_why", "compare_why_unknown_peak")
ATTRIBUTION = ("compare_one_knob", "compare_speed_knob", "compare_known_differ", "compare_several_knobs")
NAMES = frozenset(  # of runs
    {"faster", "slower", "better", "worse", "early", "late", "leader", "follower", "sooner", "later", "run"}
)
ALIKE = (("sooner_tokens", "later_tokens"), ("sooner_iterations", "later_iterations"))  # not said if they print alike
MOST_POINTS = 6  # of a loss table; --verbose shows all
_LARGEST_EXPONENT = 700.0  # of a factor that is still a number


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
        for one, other in ALIKE:
            if one in numbers and words.value(one, numbers[one]) == words.value(other, numbers[other]):
                numbers[one] = numbers[other] = None
        return words.finding(finding.code, numbers)

    def verdict(self) -> list[Finding]:
        """What is said first."""
        learning = self.first(LEARNING)
        on_loss = {finding.code: finding for finding in self.found.findings if finding.code in CAVEAT}
        on_loss |= {} if learning is None else {learning.code: learning}
        found = (
            self.first(SPEED),
            *(finding for finding in self.found.findings if on_loss.get(finding.code) is finding),  # in their order
            *(self._risen(learning), self.first(ARRIVAL)),
            *(self.first((code,)) for code in REASONS),
        )
        return [finding for finding in found if finding is not None]

    def _risen(self, learning: Finding | None) -> Finding | None:
        """That the loss of the run that is ahead has risen since."""
        if learning is None:
            return None
        ahead = {learning.numbers.get(name) for name in ("late", "leader", "better")} - {None}
        risen = (each for each in self.found.findings if each.code == "compare_risen")
        return next((each for each in risen if each.numbers["run"] in ahead), None)

    def first(self, codes: Sequence[str]) -> Finding | None:
        found = {finding.code: finding for finding in reversed(self.found.findings)}
        return next((found[code] for code in codes if code in found), None)


def letter_pairs(comparisons: Sequence[Comparison]) -> list[Pair]:
    """The comparisons with the letters of their runs."""
    return [Pair(found, "A", chr(ord("B") + number)) for number, found in enumerate(comparisons)]


def write(comparison: Comparison, words: Words, paper: Paper, *, verbose: bool) -> None:
    """The verdict first, then what it rests on."""
    (pair,) = letter_pairs([comparison])
    paper.line(styled(" ".join(pair.sentence(words, finding) for finding in pair.verdict()), "bold"), indent=0)
    introduce({pair.a: comparison.a, pair.b: comparison.b}, words, paper)
    _figures(pair, words, paper)
    _say_rest(pair, words, paper, SPEED)
    details(pair, words, paper, "", verbose=verbose)


def introduce(runs: Mapping[str, Diagnosis], words: Words, paper: Paper) -> None:
    """Which letter is which run."""
    paper.blank()
    for letter, run in runs.items():
        span = words.text(
            "iterations {first} to {last}", first=run.source.first_iteration, last=run.source.last_iteration
        )
        paper.line(
            styled(f"{letter}  ", "bold cyan"),
            f"{run.source.name} · {span} · {words.duration(run.wall.total_s)}",
            hanging=3,
        )


def details(pair: Pair, words: Words, paper: Paper, title: str, *, verbose: bool) -> None:
    """All that is known of a pair."""
    _changes(pair, words, paper, title, verbose=verbose)
    _decomposition(pair, words, paper, title)
    _arrival(pair, words, paper, title)
    _losses(pair, words, paper, title, None if verbose else MOST_POINTS)
    _open_questions(pair, words, paper, title)


def _figures(pair: Pair, words: Words, paper: Paper) -> None:
    a, b = pair.found.a, pair.found.b
    figures: Sequence[
        tuple[str, Callable[[Diagnosis], float | None], Callable[[float | None], str], tuple[str, ...]]
    ] = (
        (words.fact("parameters"), lambda d: d.model.parameters, lambda x: words.si(x, digits=2), ("parameters",)),
        (words.fact("flops_per_token"), lambda d: d.model.flops_per_token, words.flops, ("flops_per_token",)),
        (words.text("normal step"), lambda d: measured_step_ms(d.step), words.ms, ()),
        (
            words.text("one micro-batch"),
            lambda d: d.throughput.micro_batch_ms,
            words.ms,
            ("gradient_accumulation_steps",),
        ),
        (words.text("tokens per second"), lambda d: d.throughput.tokens_per_s, words.si, ("tokens_per_iteration",)),
        (words.text("achieved"), achieved_of((a, b)), words.tflops, ("flops_per_token",)),
        (words.text("mfu of the card"), lambda d: d.mfu.card, lambda x: words.percent(x, 0), ("flops_per_token",)),
        (words.text("evaluation and checkpoints"), lambda d: d.wall.overhead_share, lambda x: words.percent(x, 2), ()),
    )
    rows: list[Sequence[Cell]] = []
    for label, of, shown, facts in figures:
        of_a, of_b = of(a), of(b)
        if of_a is None and of_b is None:
            continue
        ratio = words.factor(of_b / of_a) if of_a and of_b else ""
        rows.append((label, _marked(a, facts, shown(of_a)), _marked(b, facts, shown(of_b)), ratio))
    if a.loss.metric == b.loss.metric:  # without a ratio: a loss has no zero that it could be measured from
        best = words.number(a.loss.best_val, 4), words.number(b.loss.best_val, 4)
        rows += [(words.text("best validation"), *best, "")] if best != (UNKNOWN, UNKNOWN) else []
    if not rows:  # nothing is known of either
        return
    paper.heading(words.text("Figures"))
    paper.table(rows, "lrrr", ("", pair.a, pair.b, f"{pair.b}/{pair.a}"))


def achieved_of(runs: Iterable[Diagnosis]) -> Callable[[Diagnosis], float | None]:
    """TFLOP/s of a card, of both runs on one basis: by tokens and FLOPs where both have them, as printed where neither
    tells its tokens. Else the figures are no pair, and might contradict the tokens per second: none is shown."""
    runs = tuple(runs)
    if all(_counted_tflops(run) is not None for run in runs):
        return _counted_tflops
    printed = all(run.throughput.tokens_per_s is None for run in runs)
    return lambda run: run.mfu.achieved_tflops if printed else None


def _counted_tflops(run: Diagnosis) -> float | None:
    tokens, flops, count = run.throughput.tokens_per_s, run.model.flops_per_token, run.facts.get("gpu_count")
    cards = count.value if count is not None and isinstance(count.value, (int, float)) and count.value > 0 else 1
    return None if tokens is None or flops is None else tokens * flops / cards / 1e12


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
    _say(pair, words, paper, SETTINGS)
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
    rows = [
        (label, f"{'+' if part > 0 else ''}{words.number(part, 3)}", words.factor(math.exp(part)))
        for label, part in parts_of_speed(parts, words)
    ]
    paper.table(rows, "lrr", ("", words.text("ln"), words.text("factor")))
    _say(pair, words, paper, WHY)


def parts_of_speed(parts: Decomposition, words: Words) -> list[tuple[str, float]]:
    """What is known of them, and their sum; the number of cards only where it differs."""
    utilisation = words.text("use of the card") if parts.peak is not None else words.text("card and its use")
    named = (
        (words.fact("flops_per_token"), parts.flops_per_token),
        (words.fact("gpu_count"), parts.gpu_count or None),
        (utilisation, parts.utilisation),
        (words.text("peak of the card"), parts.peak),
        (words.text("tokens per second"), parts.total),
    )
    return [(label, part) for label, part in named if part is not None and part < _LARGEST_EXPONENT]


def _arrival(pair: Pair, words: Words, paper: Paper, title: str) -> None:
    """When each was at the loss that both reached."""
    from nanopace.views.arriving import arrival_notes, arrival_rows, goal_label  # the page of one run does without it

    arrival = pair.found.arrival
    if arrival is None and pair.first(CLOCK) is None:
        return
    paper.heading(words.text("Time to the same validation loss") + title)
    if arrival is not None:
        head = (goal_label(arrival.target, words), pair.a, pair.b, f"{pair.b}/{pair.a}")
        paper.table(arrival_rows(arrival, words), "lrrr", head)
        for line in arrival_notes(arrival, words):
            paper.line(line)
    _say(pair, words, paper, CLOCK)


def _losses(pair: Pair, words: Words, paper: Paper, title: str, most: int | None) -> None:
    found = pair.found
    tables = (
        (words.text("tokens"), [(words.si(at.tokens, digits=2), at.a, at.b) for at in found.equal_tokens]),
        (words.text("time"), [(words.duration(at.seconds), at.a, at.b) for at in found.equal_time]),
        (words.text("arithmetic"), [(words.flops(at.flops), at.a, at.b) for at in found.equal_flops]),
    )
    if not any(points for _, points in tables):
        return
    paper.heading(words.text("Best validation loss so far, at equal tokens, time and arithmetic") + title)
    for number, (label, points) in enumerate(table for table in tables if table[1]):
        if number:
            paper.blank()
        rows = [
            (where, words.number(a, 4), words.number(b, 4), f"{'+' if b > a else ''}{words.number(b - a, 4)}")
            for where, a, b in _spread(points, most)
        ]
        paper.table(rows, "rrrr", (label, pair.a, pair.b, f"{pair.b} - {pair.a}"))
    paper.line(words.text("Between two evaluations the losses are interpolated."))
    _say_rest(pair, words, paper, (*LEARNING, "compare_risen"))


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
    """Those that the verdict has not said."""
    said = pair.verdict()
    for finding in pair.found.findings:
        if finding.code in codes and finding not in said:
            paper.line(pair.sentence(words, finding))


def _say(pair: Pair, words: Words, paper: Paper, codes: Sequence[str]) -> None:
    for finding in pair.found.findings:
        if finding.code in codes:
            paper.line(pair.sentence(words, finding))
