"""Two runs compared: the verdict, and where each finding appears. For three or more, see ranking.py.

Each run has a letter; the others are compared with A.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nanopace.diagnosis.comparison import Comparison
from nanopace.diagnosis.result import Diagnosis, Finding
from nanopace.views.document import Text, run_cell, run_letter
from nanopace.views.report import first_of, marked, tilde
from nanopace.wording.catalog import Words

# The verdict has a sentence each on speed, learning, the time to a loss and the end: the first available of each kind.
SPEED = (
    *("compare_speed", "compare_speed_equal", "compare_speed_unclear", "compare_step_unknown"),
    *("compare_untimed", "compare_both_untimed"),
    *("compare_time_per_iteration", "compare_speed_unknown"),
)
CAVEAT = ("compare_data_unknown",)  # comes before the sentence on learning
LEARNING = (
    *("compare_crossover", "compare_crossover_best", "compare_leads_time"),
    *("compare_loss_tokens", "compare_loss_iterations"),
    *("compare_loss_equal", "compare_loss_uncertain", "compare_loss_unknown"),
    *("compare_other_metric", "compare_other_data", "compare_other_corpus"),
    *("compare_other_tokenizer", "compare_other_vocabulary", "compare_vocabulary_inferred"),
    "compare_other_token_length",
)
ARRIVAL = (
    *("compare_sooner", "compare_sooner_iterations", "compare_arrival_same", "compare_arrival_equal"),
    *("compare_arrival_uncertain", "compare_sooner_bits", "compare_arrival_equal_bits"),
)
OUTLOOK = ("compare_end_lower", "compare_end_higher", "compare_end_open")
REASONS = ("compare_overall", "compare_stretch", "compare_time_share")  # why the faster one is not ahead
CLOCK = ("compare_clock_incomplete", "compare_late_start", "compare_clock_unknown")
SETTINGS = ("compare_same_settings", "compare_settings_unknown")
WHY = ("compare_why", "compare_why_unknown_peak")
ATTRIBUTION = ("compare_one_knob", "compare_speed_knob", "compare_known_differ", "compare_several_knobs")
NAMES = frozenset(  # of runs
    {"faster", "slower", "better", "worse", "early", "late", "leader", "follower", "sooner", "later", "run", "other"}
)
BOTH_BEST = ("better_loss", "worse_loss")
ALIKE = (("sooner_tokens", "later_tokens"), ("sooner_iterations", "later_iterations"))  # left out if they print alike


@dataclass(frozen=True, slots=True)
class Pair:
    """One comparison in one language, with the letters of its two runs: A, and that of the n-th run after it."""

    found: Comparison
    words: Words
    number: int = 1

    @property
    def a(self) -> str:
        return run_letter(0)

    @property
    def b(self) -> str:
        return run_letter(self.number)

    def head(self, name: str, last: str) -> tuple[Text, ...]:
        """The head of a table with a column for each run."""
        return name, run_cell(0), run_cell(self.number), last

    def sentence(self, finding: Finding) -> str:
        """The sentence of a finding, with letters instead of run names."""
        words, letters = self.words, self._letters()
        numbers: dict[str, object] = dict(finding.numbers)
        speeds = words.side_by_side(finding.numbers)
        for name in NAMES.intersection(numbers):
            letter = numbers[name] = letters.get(numbers[name], numbers[name])
            speed = f"{name}_tokens_per_s"
            if speed in numbers:
                run = self.found.a if letter == self.a else self.found.b
                shown = speeds.get(speed) or words.value(speed, numbers[speed])
                numbers[speed] = marked(tilde(run, "tokens_per_iteration"), shown)
        if "tokens_per_s" in numbers:  # of both
            shown = words.value("tokens_per_s", numbers["tokens_per_s"])
            numbers["tokens_per_s"] = marked(tilde(self.found.b, "tokens_per_iteration"), shown)
        for one, other in ALIKE:
            if one in numbers and words.value(one, numbers[one]) == words.value(other, numbers[other]):
                numbers[one] = numbers[other] = None
        if finding.code == "compare_loss_equal" and len({words.value(name, numbers[name]) for name in BOTH_BEST}) == 1:
            numbers["worse_loss"] = None
        return words.finding(finding.code, numbers)

    def letter(self, finding: Finding) -> str:
        """The letter of the run that a finding is about."""
        return self._letters()[finding.numbers["run"]]

    def _letters(self) -> Mapping[object, str]:
        a, b = self.found.a.source.name, self.found.b.source.name
        # Findings also use these letters to distinguish two files of the same name.
        return {f"{a} (A)": self.a, f"{b} (B)": self.b, b: self.b, a: self.a}

    def lines(self, codes: Sequence[str]) -> list[str]:
        return [self.sentence(finding) for finding in self.found.findings if finding.code in codes]

    def rest(self, codes: Sequence[str]) -> list[str]:
        """The sentences of these findings that are not in the verdict."""
        said = self.verdict()
        found = (finding for finding in self.found.findings if finding.code in codes)
        return [self.sentence(finding) for finding in found if finding not in said]

    def verdict(self) -> list[Finding]:
        """The findings to show first."""
        learning = self.first(LEARNING)
        on_loss = {finding.code: finding for finding in self.found.findings if finding.code in CAVEAT}
        on_loss |= {} if learning is None else {learning.code: learning}
        found = (
            self.first(SPEED),
            *(finding for finding in self.found.findings if finding.code == "compare_diverged"),
            *(finding for finding in self.found.findings if on_loss.get(finding.code) is finding),  # in their order
            *(self._risen(learning), self.first(ARRIVAL), self.first(OUTLOOK)),
            *(self.first((code,)) for code in REASONS),
        )
        return [finding for finding in found if finding is not None]

    def _risen(self, learning: Finding | None) -> Finding | None:
        """The finding that the leading run's loss has since risen; None if it has not."""
        if learning is None:
            return None
        ahead = {learning.numbers.get(name) for name in ("late", "leader", "better")} - {None}
        risen = (each for each in self.found.findings if each.code == "compare_risen")
        return next((each for each in risen if each.numbers["run"] in ahead), None)

    def first(self, codes: Sequence[str]) -> Finding | None:
        return first_of(self.found.findings, codes)


def runs_of(comparisons: Sequence[Comparison]) -> list[Diagnosis]:
    """All compared runs, the first one first."""
    return [comparisons[0].a, *(each.b for each in comparisons)]


def letter_pairs(comparisons: Sequence[Comparison], words: Words) -> list[Pair]:
    """The comparisons with the letters of their runs."""
    return [Pair(found, words, number) for number, found in enumerate(comparisons, start=1)]
