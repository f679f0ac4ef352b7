"""Three or more runs: a ranked table first, then everything about pairs, each sentence once.

Here, runs are rows and figures are columns: there may be many runs, with long file names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from nanopace.diagnosis.compare.attribution import effect_of
from nanopace.diagnosis.compare.ranking import Ranked, Ranking
from nanopace.diagnosis.comparison import Change
from nanopace.diagnosis.result import Diagnosis, Finding
from nanopace.diagnosis.time.throughput import measured_step_ms
from nanopace.views.compare.costs import arrival_cost, money
from nanopace.views.compare.pair import ATTRIBUTION, LEARNING, REASONS, SETTINGS, Pair
from nanopace.views.compare.pair_sections import incomplete_clocks, setting
from nanopace.views.document import Line, Section, Table, Text, run_cell, run_letter
from nanopace.views.report import marked, tilde
from nanopace.wording.catalog import UNKNOWN, Words

# Shown about pairs below the table. The table itself shows who is ahead and at what loss, for runs that have a loss
# there.
IN_TABLE = ("compare_leads_time", "compare_loss_tokens", "compare_loss_iterations", "compare_loss_unknown")
SAID = (
    *(code for code in LEARNING if code not in IN_TABLE),
    *("compare_diverged", "compare_risen", "compare_step_unknown", "compare_speed_unknown", *REASONS),
    *("compare_late_start", "compare_clock_unknown"),
)

Column = tuple[str, Callable[[Ranked], str]]


# --- the table -------------------------------------------------------------------------------------------------------


def headline(ranking: Ranking, words: Words) -> str:
    """What the runs are ranked by, and the order of those that have that figure."""
    by = ranking.by
    if by is None:
        return words.text("These logs contain nothing to rank the runs by.")
    known = [each for each in ranking.runs if getattr(each, by) is not None]
    order = "".join((" = " if each.tied else ", ") + run_letter(each.run) for each in known).removeprefix(", ")
    if by == "tokens_per_s":
        return words.text("Ranked by tokens per second: {runs}.", runs=order)
    caveat = ""
    if not ranking.same_data:
        caveat = words.text(
            "The losses are comparable only if all runs train on the same data, which the logs do not show."
        )
        caveat += " "
    if by == "loss_time":
        after = words.duration(ranking.seconds)
        return caveat + words.text("Ranked by best validation loss after {time}: {runs}.", time=after, runs=order)
    tokens = words.si(ranking.tokens, digits=2)
    return caveat + words.text(
        "Ranked by best validation loss after {tokens} tokens: {runs}.", tokens=tokens, runs=order
    )


def ranked_table(ranking: Ranking, runs: Sequence[Diagnosis], words: Words) -> Table:
    """The ranking as a table, best run first; figures that no run has are left out."""

    def of(each: Ranked, fact: str, shown: str) -> str:
        return marked(tilde(runs[each.run], fact), shown)

    def step(each: Ranked) -> str:
        ms = measured_step_ms(runs[each.run].step)
        return words.duration(ms / 1000) if ms else UNKNOWN

    def parameters(each: Ranked) -> str:
        return of(each, "parameters", words.si(runs[each.run].model.parameters))

    columns: Sequence[Column] = (
        (words.fact("parameters"), parameters),
        (words.text("normal step"), step),
        (words.text("tokens/s"), lambda each: of(each, "tokens_per_iteration", words.si(each.tokens_per_s))),
        (words.text("loss at equal tokens"), lambda each: words.number(each.loss_tokens, 4)),
        (words.text("loss at equal time"), lambda each: words.number(each.loss_time, 4)),
        (words.text("best loss"), lambda each: words.number(each.best_val, 4)),
        (words.text("overhead"), lambda each: words.percent(each.overhead_share)),
        (words.text("cost"), lambda each: money(runs[each.run], words)),
        (words.text("mfu of the card"), lambda each: of(each, "flops_per_token", words.percent(each.mfu_card, 0))),
    )
    kept = [(name, shown) for name, shown in columns if any(shown(each) != UNKNOWN for each in ranking.runs)]
    rows: list[list[Text]] = [[run_cell(each.run), *(shown(each) for _, shown in kept)] for each in ranking.runs]
    return Table(rows, "l" + "r" * len(kept), ["", *(name for name, _ in kept)], words.text("Ranking"))


def table_notes(ranking: Ranking, words: Words) -> list[str]:
    """Where the losses in the table were taken."""
    tokens, seconds = words.si(ranking.tokens, digits=2), words.duration(ranking.seconds)
    notes = []
    if ranking.tokens is not None:
        notes.append(words.text("Loss at equal tokens: the best up to {tokens} tokens.", tokens=tokens))
    if ranking.seconds is not None:
        notes.append(words.text("Loss at equal time: the best up to {time}.", time=seconds))
    if notes:
        notes.append(words.text("Between two evaluations, the losses are interpolated."))
    if any(each.tied for each in ranking.runs):
        notes.append(words.text("= in the ranking: too close to separate, given the noise of the evaluations."))
    if any(each.ended for each in ranking.runs):
        notes.append(words.text("A run that ended before that keeps its best loss."))
    return [" ".join(notes)] if notes else []


# --- what is said of pairs -------------------------------------------------------------------------------------------


def pair_sections(ranking: Ranking, pairs: Sequence[Pair], *, verbose: bool) -> list[Section]:
    """The sections that support the table."""
    about_all = [_said_of_pairs(ranking, pairs), _arrivals(pairs), _changes(pairs, verbose=verbose)]
    return [*about_all, _decompositions(pairs)]


def _said_of_pairs(ranking: Ranking, pairs: Sequence[Pair]) -> Section:
    without_loss = {each.run for each in ranking.runs if each.loss_tokens is None and each.loss_time is None}

    def said(number: int, finding: Finding) -> bool:
        return finding.code in SAID or (finding.code in IN_TABLE and number in without_loss)

    found = [
        (pair, finding)
        for number, pair in enumerate(pairs, start=1)
        for finding in pair.found.findings
        if said(number, finding)
    ]
    return Section("pairs", pairs[0].words.text("Pairs"), _say_once(found))


def _found(pairs: Sequence[Pair], codes: Sequence[str]) -> list[tuple[Pair, Finding]]:
    return [(pair, finding) for pair in pairs for finding in pair.found.findings if finding.code in codes]


def _say_once(found: Iterable[tuple[Pair, Finding]]) -> list[Line]:
    """Each sentence once, prefixed with the letters of its pairs; a sentence about a single run needs none."""
    of_text: dict[str, list[Pair]] = {}
    about_one = set()
    for pair, finding in found:
        text = pair.sentence(finding)
        of_text.setdefault(text, []).append(pair)
        if finding.numbers.get("run") is not None and finding.code != "compare_loss_uncertain":
            about_one.add(text)
    return [
        Line((text if text in about_one else f"{_letters(pairs)}: {text}",), hanging=2)
        for text, pairs in of_text.items()
    ]


def _letters(pairs: Sequence[Pair]) -> str:
    return f"{pairs[0].a} – {', '.join(dict.fromkeys(pair.b for pair in pairs))}"


def _arrivals(pairs: Sequence[Pair]) -> Section:
    """When the two runs of each pair reached the loss that both reached."""
    words = pairs[0].words
    rows = []
    for pair in pairs:
        arrival = pair.found.arrival
        if arrival is None or arrival.ratio is None:
            continue
        faster = {"a": pair.a, "b": pair.b}.get(arrival.sooner or "", UNKNOWN)
        times = words.duration(arrival.a.seconds), words.duration(arrival.b.seconds)
        both = arrival_cost(pair.found, words)
        costs = both[0][1:3] if both else ("", "")
        rows.append((pair.b, words.number(arrival.target, 4), *times, words.factor(arrival.ratio), faster, *costs))
    blocks: list[str | Line | Table] = []
    if rows:
        head = ("", words.text("goal"), pairs[0].a, words.text("this run"), words.text("factor"), words.text("faster"))
        costs = (words.text("cost of {run}", run=pairs[0].a), words.text("cost"))
        goal = words.text(
            "Goal: the lowest loss both A and the run reached. {unknown}: within the noise, or the noise is unknown.",
            unknown=UNKNOWN,
        )
        in_bits = [pair.b for pair in pairs if pair.found.arrival is not None and pair.found.arrival.metric == "bpb"]
        if 0 < len(in_bits) < len(rows):
            goal += " " + words.text("Goal in bits per byte: {runs}.", runs=", ".join(in_bits))
        blocks = [Table(rows, "lrrrrrrr", (*head, *costs)), goal, *incomplete_clocks(pairs)]
    return Section("arrival", words.text("Time to the same validation loss"), blocks)


def _changes(pairs: Sequence[Pair], *, verbose: bool) -> Section:
    """The differences from the first run, grouped by identical text; bookkeeping knobs only with --verbose."""
    of_text: dict[str, list[Pair]] = {}
    for pair in pairs:
        shown = [each for each in pair.found.changed if verbose or effect_of(each.knob) != "bookkeeping"]
        if shown:
            of_text.setdefault(", ".join(map(_change, shown)), []).append(pair)
    lines = [Line((f"{_letters(alike)}: {text}",), hanging=2) for text, alike in of_text.items()]
    said = _say_once(_found(pairs, (*SETTINGS, *ATTRIBUTION)))
    return Section("changes", pairs[0].words.text("What changed"), [*lines, *said])


def _change(change: Change) -> str:
    marks = ["~" if origin == "inferred" else "" for origin in (change.a_origin, change.b_origin)]
    return f"{change.knob} {marks[0]}{setting(change.a)} → {marks[1]}{setting(change.b)}".replace(" ", "\u00a0")


def _decompositions(pairs: Sequence[Pair]) -> Section:
    """The factors of each pair. If any card is unknown, peak and utilisation are one factor for all of them."""
    words = pairs[0].words
    known = [pair for pair in pairs if pair.found.decomposition.utilisation is not None]
    with_peak = all(pair.found.decomposition.peak is not None for pair in known)
    columns: Mapping[str, list[float | None]] = {
        words.fact("flops_per_token"): [pair.found.decomposition.flops_per_token for pair in known],
        words.fact("gpu_count"): [pair.found.decomposition.gpu_count or None for pair in known],
        words.text("card utilisation") if with_peak else words.text("card and its utilisation"): [
            (pair.found.decomposition.utilisation or 0.0) + (0.0 if with_peak else pair.found.decomposition.peak or 0.0)
            for pair in known
        ],
        words.text("card peak"): [pair.found.decomposition.peak if with_peak else None for pair in known],
        words.text("tokens per second"): [pair.found.decomposition.total for pair in known],
    }
    kept = {name: parts for name, parts in columns.items() if any(part is not None for part in parts)}
    rows = [
        (f"{pair.b}/{pair.a}", *(words.factor(math.exp(parts[number] or 0.0)) for parts in kept.values()))
        for number, pair in enumerate(known)
    ]
    table = [Table(rows, "l" + "r" * len(kept), ("", *kept))] if rows else []
    return Section("why", words.text("Why the speed differs"), table)
