"""A log of twice the length takes about twice the time, whatever is in it; many runs take bounded memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .limits import answers
from .shapes import SHAPES, row

pytestmark = pytest.mark.slow

LINES = 1000

MOST_TIMES = 6.0  # for four times the lines: quadratic code takes 16 times
A_MOMENT_S = 0.5  # below that, other work on the machine outweighs the measurement


@pytest.mark.parametrize("group", range(2))
def test_time_grows_with_length_only(group: int, tmp_path: Path) -> None:
    """In CPU time. Code that is merely slow would show up in the longer log."""
    commands = []
    names = list(SHAPES)[group::2]
    for number, name in enumerate(names):
        for times in (1, 4):
            path = tmp_path / f"{number}-{times}.log"
            path.write_text("\n".join(SHAPES[name](times * LINES)) + "\n")
            commands.append(["explain", path.name, "--json"])
    given = answers(commands, tmp_path)
    for name, short, long in zip(names, given[::2], given[1::2], strict=True):
        assert (short.code, long.code) == (0, 0), (name, short.err, long.err)
        assert long.seconds < max(A_MOMENT_S, MOST_TIMES * short.seconds), name


def test_of_many_runs_the_first_and_the_last_are_shown(tmp_path: Path) -> None:
    runs = 3000
    text = "".join(f"{row(0, 100.0 + number)}\n{row(1)}\n" for number in range(runs))
    (tmp_path / "many.log").write_text(text)
    said, page, found = answers(
        [["explain", "many.log"], ["explain", "many.log", "--html", "many.html"], ["explain", "many.log", "--json"]],
        tmp_path,
    )
    assert (said.code, page.code, found.code) == (0, 0, 0)
    assert "This file contains 3,000 runs; only the first and the last ones are read." in " ".join(said.out.split())
    assert "many.log #3000" in said.out
    assert (tmp_path / "many.html").stat().st_size < 16 << 20
    names = [each["source"]["name"] for each in json.loads(found.out)["runs"]]
    numbers = [1, *(int(name.partition("#")[2]) for name in names[1:])]
    assert numbers == [*range(1, 129), *range(2873, 3001)]
    assert max(each.mb for each in (said, page, found)) < 300
