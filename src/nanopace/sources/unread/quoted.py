"""Detects prose that quotes a log: a README, an issue, notes. The report then says that it is not a log."""

from __future__ import annotations

import re

_FENCE = re.compile(r"\s{0,3}(?:```|~~~)")
_HEADING = re.compile(r"#{1,6} \S")
_MARKUP = re.compile(r"\]\(\S|\*\*\w|<(?:img|details|summary|p|br)\b|^\s*[-*] \w|^\s*\d{1,2}\. \w")
_WORD = re.compile(r"[(\"'*_`]{0,3}[^\W\d_](?:[^\W\d_]|['’-]){0,30}[)\"'*_`]{0,3}[.,;:!?]{0,3}")
_FEWEST_WORDS = 6
_CHARACTER = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")  # Japanese and Chinese have no spaces
_FEWEST_CHARACTERS = 8
_OUTPUT = re.compile(r"(?i:warn|error|deprecat|download|install|wandb|require|traceback|file \")|[/\\]\w+[/\\]|<\|")
_FEWEST_PROSE = 3  # lines
_LEAST_SHARE = 0.05  # of the lines that are not blank
_MOST_LINES = 20_000  # to examine: no page is longer


class QuotationDetector:
    """Takes every line of a file, and judges those that the trainer's reader does not understand."""

    def __init__(self) -> None:
        self._lines = 0  # that are not blank
        self._of_log = 0
        self._prose = 0
        self._prose_before = 0  # prose before the first line of the log
        self._fences = 0

    def add(self, line: str, *, of_log: bool) -> None:
        if not line or line.isspace() or self._lines >= _MOST_LINES:
            return
        self._lines += 1
        if of_log:
            self._of_log += 1
        elif _FENCE.match(line):
            self._fences += 1
        elif _is_prose(line):
            self._prose += 1
            self._prose_before += not self._of_log

    def quoted(self) -> tuple[int, int] | None:
        """(lines of the log, lines of the file) if this is prose around a log; None if it is a log.

        A log may contain prose, too: samples of generated text. So some prose must come before the log and, without
        code fences, which no trainer prints, prose must be the larger part.
        """
        if self._lines >= _MOST_LINES or self._prose < _FEWEST_PROSE:
            return None
        fenced = self._fences >= 2 and self._prose_before and self._prose >= _LEAST_SHARE * self._lines
        mostly_prose = self._prose_before >= _FEWEST_PROSE and self._prose > self._lines / 2
        return (self._of_log, self._lines) if fenced or mostly_prose else None


def _is_prose(line: str) -> bool:
    """Whether it is a sentence or two, a heading or other markup, not program output."""
    if _OUTPUT.search(line):
        return False
    if _HEADING.match(line) or _MARKUP.search(line):
        return True
    if len(_CHARACTER.findall(line)) >= _FEWEST_CHARACTERS:
        return True
    words = line.split()
    if len(words) < _FEWEST_WORDS:
        return False
    return sum(_WORD.fullmatch(word) is not None for word in words) >= 0.8 * len(words)
