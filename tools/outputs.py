"""Refresh the program output in README.md and docs: `make outputs`, after a change to the reports or a knob.

A console block holds a command and the first lines it prints. A text block holds one section of a report, found by its
title in the output of the last command above it, or else of an earlier one. `<!-- of: COMMAND -->` right above a block
names another command. docs/knobs.md is the table in config.py.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from pathlib import Path

from nanopace.cli.main import main as nanopace
from nanopace.config import KNOBS
from nanopace.knob import Knob

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
KNOBS_PAGE = ROOT / "docs" / "knobs.md"
_BLOCK = re.compile(
    r"(?P<of><!-- of: (?P<command>nanopace [^\n]*) -->\n+)?```(?P<kind>console|text)\n(?P<text>.*?)\n```", re.DOTALL
)


def output(command: str) -> list[str]:
    """What a command prints to a pipe, as paragraphs."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.chdir(ROOT):
        os.environ.update(LC_ALL="C", COLUMNS="80")
        if nanopace(shlex.split(command)[1:]) not in ((0, 1, 3) if command.startswith("nanopace gate") else (0,)):
            raise SystemExit(f"{command} failed")
    return printed.getvalue().rstrip("\n").split("\n\n")


def section(paragraphs: list[str], title: str) -> str | None:
    """The paragraph with that title, and the untitled ones after it."""
    start = next((i for i, text in enumerate(paragraphs) if text.split("\n")[0] == title), None)
    if start is None:
        return None
    end = start + 1
    while end < len(paragraphs) and paragraphs[end].startswith(" "):
        end += 1
    return "\n\n".join(paragraphs[start:end])


def refreshed(page: str) -> str:
    """The page with the current output in every block."""
    printed: dict[str, list[str]] = {}
    shown: list[str] = []  # the commands in console blocks so far

    def paragraphs(command: str) -> list[str]:
        if command not in printed:
            printed[command] = output(command)
        return printed[command]

    def refresh(block: re.Match[str]) -> str:
        first = block["text"].split("\n")[0]
        above = block["of"] or ""
        if block["kind"] == "console":
            shown.append(first.removeprefix("$ "))
            return f"{above}```console\n{first}\n{paragraphs(shown[-1])[0]}\n```"
        asked = [block["command"]] if above else reversed(shown)
        found = next(filter(None, (section(paragraphs(command), first) for command in asked)), None)
        if found is None:
            raise SystemExit(f"no report has a section {first!r}")
        return f"{above}```text\n{found}\n```"

    return _BLOCK.sub(refresh, page)


def knobs_page() -> str:
    """Every knob in the table in config.py."""
    opening = """# Every knob

Knobs have nanoGPT's names, in config files and as flags: `nanopace train config.py --batch_size=8`. `make outputs`
writes this page from the table in [config.py](../src/nanopace/config.py).

The column "can change" says whether a knob can affect the time of a step (`speed`, and perhaps the loss), only the
loss, or neither. `compare` and `ablate` rely on it. Evaluations and checkpoints run between steps, so their knobs do
not change the time of a step.

| knob | default | values | can change | nanoGPT has it | why |
|---|---|---|---|---|---|
"""
    return opening + "".join(_knob_line(knob) + "\n" for knob in KNOBS.values())


def _knob_line(knob: Knob) -> str:
    values = ", ".join(f"`{each}`" for each in knob.choices) or f"`{knob.kind}`"
    changes = "neither" if knob.effect == "bookkeeping" else knob.effect
    cells = (f"`{knob.name}`", f"`{knob.default!r}`", values, changes, "yes" if knob.nanogpt else "no", knob.why)
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    KNOBS_PAGE.write_text(knobs_page(), encoding="utf-8")
    for path in PAGES:
        path.write_text(refreshed(path.read_text(encoding="utf-8")), encoding="utf-8")
