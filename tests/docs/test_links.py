"""Every relative link in the docs points to an existing file and heading, and every experiment is in the index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

_FENCED = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


def _text(page: Path) -> str:
    return _FENCED.sub("", page.read_text(encoding="utf-8"))


def _anchors(page: Path) -> set[str]:
    """The headings' anchors as GitHub makes them; the second of the same name ends in -1."""
    anchors: set[str] = set()
    for heading in _HEADING.findall(_text(page)):
        shown = re.sub(r"\]\([^)]*\)", "", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        again = 0
        while (name := f"{anchor}-{again}" if again else anchor) in anchors:
            again += 1
        anchors.add(name)
    return anchors


def _broken(page: Path) -> list[str]:
    broken = []
    for link in _LINK.findall(_text(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert _broken(page) == []


def test_a_broken_link_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n## What's `new`?\n## Twice\n## Twice\n"
        "[a](page.md) [b](#whats-new) [c](page.md#twice-1) [d](https://example.com/none) ![e](none.png)\n"
        "[f](none.md) [g](#none) [h](page.md#twice-2)\n```\n# comment\n[i](none.md)\n```\n[j](#comment)\n"
    )
    assert _broken(page) == ["none.png", "none.md", "#none", "page.md#twice-2", "#comment"]


def test_every_experiment_is_in_the_index_once() -> None:
    index = ROOT / "docs" / "experiments" / "README.md"
    rows = [line for line in _text(index).splitlines() if line.startswith("| [")]
    listed = sorted(link for row in rows for link in _LINK.findall(row))
    assert listed == sorted({path.name for path in index.parent.glob("*.md")} - {"README.md", "open.md"})


def test_every_decision_is_in_the_index_once() -> None:
    index = ROOT / "docs" / "decisions" / "README.md"
    rows = [line for line in _text(index).splitlines() if "](0" in line]
    listed = [link for row in rows for link in _LINK.findall(row)]
    assert listed == sorted({path.name for path in index.parent.glob("*.md")} - {"README.md"})
