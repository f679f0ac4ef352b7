"""Refresh the example of each finding in docs/findings: `make outputs`, after a sentence has changed.

A page lists a finding as `- <a id="CODE"></a> ...`. The rest of that line is the sentence that `nanopace` would print
for the numbers in finding_examples.json. The prose around it is written by hand.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from nanopace.diagnosis.codes import FINDINGS
from nanopace.wording.catalog import words

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs" / "findings").glob("*.md"))
_LINE = re.compile(r'^- <a id="(\w+)"></a>.*$', re.MULTILINE)


def examples() -> dict[str, str]:
    """One sentence for each finding."""
    numbers = json.loads(Path(__file__).with_name("finding_examples.json").read_text(encoding="utf-8"))
    english = words("en")
    return {code: english.finding(code, numbers[code]) for code in FINDINGS}


def refreshed(page: str) -> str:
    """The page with every example in its current wording."""
    said = examples()
    return _LINE.sub(lambda line: f'- <a id="{line[1]}"></a>`{line[1]}`: {said[line[1]]}', page)


def listed() -> list[str]:
    """Every finding that a page explains."""
    return [code for page in PAGES for code in _LINE.findall(page.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(refreshed(path.read_text(encoding="utf-8")), encoding="utf-8")
