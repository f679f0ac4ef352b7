"""Refresh what README.md and docs show of the program: `make outputs`, after a change of the reports or of a knob.

A console block holds a command and the first lines that it prints; a text block holds one section, found by its title
in what the commands printed. docs/knobs.md is the table of config.py.
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
PAGES = (ROOT / "README.md", ROOT / "docs" / "reading-a-report.md")
# Its header names the batch and the model, so that it has the sections that the first example cannot have.
WITH_HEADER = "nanopace explain examples/wide-header.log --gpu 4070"
KNOBS_PAGE = ROOT / "docs" / "knobs.md"
FROM_HEADER = ("Throughput", "GPU utilisation (mfu)", "Loss")


def output(command: str) -> list[str]:
    """What a command prints into a pipe, as paragraphs."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.chdir(ROOT):
        os.environ.update(LC_ALL="C", COLUMNS="80")
        if nanopace(shlex.split(command)[1:]) != 0:
            raise SystemExit(f"{command} failed")
    return printed.getvalue().rstrip("\n").split("\n\n")


def section(paragraphs: list[str], title: str) -> str | None:
    """The paragraph of that title, and those that follow without one."""
    start = next((i for i, text in enumerate(paragraphs) if text.split("\n")[0] == title), None)
    if start is None:
        return None
    end = start + 1
    while end < len(paragraphs) and paragraphs[end].startswith(" "):
        end += 1
    return "\n\n".join(paragraphs[start:end])


def refreshed(page: str) -> str:
    """The page with every block as it is printed today."""
    commands = re.findall(r"^\$ (nanopace .*)$", page, re.MULTILINE)
    printed = {command: output(command) for command in (*commands, WITH_HEADER)}

    def refresh(block: re.Match[str]) -> str:
        kind, first = block["kind"], block["text"].split("\n")[0]
        if kind == "console":
            return f"```console\n{first}\n{printed[first.removeprefix('$ ')][0]}\n```"
        wanted = [WITH_HEADER] if first in FROM_HEADER else commands
        found = next(filter(None, (section(printed[command], first) for command in wanted)), None)
        if found is None:
            raise SystemExit(f"no report has a section {first!r}")
        return f"```text\n{found}\n```"

    return re.sub(r"```(?P<kind>console|text)\n(?P<text>.*?)\n```", refresh, page, flags=re.DOTALL)


def knobs_page() -> str:
    """Every knob, as the table in config.py has it."""
    opening = """# Every knob

With nanoGPT's names, in config files and as flags: `nanopace train config.py --batch_size=8`. `make outputs`
writes this page from the table in [config.py](../src/nanopace/config.py).

What a knob can change is the time of a step (and perhaps the loss), the loss alone, or neither: `compare` and `ablate`
go by it. Evaluations and checkpoints take time beside the steps, not in them.

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
