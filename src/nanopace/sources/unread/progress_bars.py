"""A pattern for loops whose progress bar is the only log: tqdm's, with a loss behind its rate.

    Epoch 1/3:  13%|█▎        | 159/1250 [00:25<02:53,  6.28it/s, loss=1.7319]

The bar itself changes from line to line, so no two lines have the same shape.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

_FEWEST = 5  # steps
_LONGEST_LINE = 500  # characters
_BAR = re.compile(
    r"(?<!\d)(?P<iteration>\d{1,12})/\d{1,12}\s{1,4}\[(?P<elapsed_s>\d{1,6}(?::\d\d){1,2})<[^\]]{0,60}?(?:it/s|s/it)"
    r"[^\]]{0,200}?[\s,](?P<name>(?:[A-Za-z]{1,12}[_ ])?[Ll]oss)\s{0,2}[=:]\s{0,2}(?P<loss>\d{1,9}\.\d{1,12})",
    re.ASCII,
)
_ANY_BAR = re.compile(r"\d\s{0,4}%\|.{0,200}\d/\d{1,12}\s{1,4}\[\d{1,6}(?::\d\d){1,2}<")
_OTHER_LOSS = re.compile(r"(?i:val|test|eval|dev)")


def is_bar(line: str) -> bool:
    """Whether a line is a progress bar. Its rate is a mean of the last few steps, so it is no step's time."""
    return _ANY_BAR.search(line) is not None


def bars_with_loss(printed: Iterable[str]) -> tuple[str, int, int, int] | None:
    """The pattern, how many lines it reads, and which words of the first hold the iteration and the time; None if
    there are no such bars."""
    names: Counter[str] = Counter()
    steps: set[str] = set()
    first = ""
    for line in printed:
        found = _BAR.search(line[:_LONGEST_LINE])
        if found is not None and found["iteration"] != "0" and not _OTHER_LOSS.search(found["name"]):
            names[found["name"]] += 1
            steps.add(found["iteration"])
            first = first or line
    found = _BAR.search(first[:_LONGEST_LINE])
    if len(steps) < _FEWEST or found is None:
        return None
    name, count = names.most_common(1)[0]
    loss = re.escape(name).replace("\\ ", r"\s")
    pattern = rf"(?P<iteration>\d+)/\d+\s+\[(?P<elapsed_s>[\d:]+)<.*?\b{loss}\s*[=:]\s*(?P<loss>[\w.+-]+)"
    words = [len(first[: found.start(group) + 1].split()) for group in ("iteration", "elapsed_s")]
    return pattern, count, words[0], words[1]
