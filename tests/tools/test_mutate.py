"""`make mutate`: the mutants it makes, which of them survive, and the list of those that do not matter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], set[str]]:
    """The source of each mutant."""
    monkeypatch.syspath_prepend(TOOLS)
    from mutation.operators import mutants_of

    def of(source: str) -> set[str]:
        text = source.encode()
        return {mutant.apply(text).decode() for mutant in mutants_of("x.py", text)}

    return of


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", {"a <= b", "a >= b"}),
        ("é is not b", {"é is b"}),  # columns are counted in bytes
        ("(a) not in (b)", {"(a) in (b)"}),
        ("a and b", {"a or b"}),
        ("not a", {"a"}),
        ("-a", {"a"}),
        ("a // b", {"a * b"}),
        ("a += b", {"a -= b"}),
        ("a = 0", {"a = 1"}),
        ("a = 7", {"a = 8", "a = 14"}),
        ("a = 0.5", {"a = 1.0", "a = 0.25"}),
        ("a = True", {"a = False"}),
        ("save(a)", {"pass"}),
        ("if a: b = c", {"if True: b = c", "if False: b = c"}),
        ("def f():\n    return a", {"def f():\n    return None"}),
        ("raise Wrong(a + 1)", {"pass"}),
        ("while a:\n    break", {"while False:\n    break", "while a:\n    continue"}),
        ("a: dict[int, 3] = b", set()),
        ("'a text'\nassert a > 1", set()),
        ("a = zip(b, c, strict=True)", set()),
        ("if TYPE_CHECKING:\n    a = 1", set()),
    ],
)
def test_one_thing_is_changed(source: str, expected: set[str], changes: Callable[[str], set[str]]) -> None:
    assert changes(source) == expected


def test_a_mutant_is_the_same_wherever_its_line_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    from mutation.operators import mutants_of

    source = b"class A:\n    def f(self):\n        return 1 + 1\n"
    before, after = mutants_of("x.py", source), mutants_of("x.py", b"import os\n\n" + source)
    assert [each.key for each in before] == [each.key for each in after]
    assert len({each.key for each in before}) == len(before) == 6
    assert {(each.function, each.number) for each in after} == {("A.f", 5)}


@pytest.mark.slow
def test_every_excuse_is_of_a_mutant_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    from mutate import excuse_key, read_excuses
    from mutation.operators import mutants_of

    excuses = dict(read_excuses(ROOT))
    package = ROOT / "src" / "nanopace"
    lines: dict[str, set[str]] = {}
    for file, line, *_ in excuses:
        lines.setdefault(file, set()).add(line)
    there = {
        excuse_key(each)
        for file, some in lines.items()
        for each in mutants_of(file, (package / file).read_bytes(), some)
    }
    assert sorted(excuses.keys() - there) == []
    assert all(why.strip() for why in excuses.values())


SOURCE = """\
import subprocess
import sys

LIMIT = 10


def under(value):
    return value < LIMIT


def endless(value):
    while value > 0:
        value -= 1
    return value


def elsewhere():
    return subprocess.run([sys.executable, "-c", "from nanopace.limits import started; started()"]).returncode


def started():
    sys.exit(4)
"""
TESTS = """\
import time

from nanopace.limits import elsewhere, endless, under


def test_under():
    assert under(3)
    assert not under(40)


class Slow(int):
    '''Where a mutant never ends, it waits, and burns no processor.'''

    def __gt__(self, other):
        time.sleep(0.01)
        return int(self) > other

    def __add__(self, other):
        return Slow(int(self) + other)

    def __sub__(self, other):
        return Slow(int(self) - other)


def test_endless():
    assert endless(Slow(5)) == 0


def test_elsewhere():
    assert elsewhere() == 4


def test_that_fails_anyway():
    assert under(50)
"""


@pytest.fixture
def small_tree(tmp_path: Path) -> Path:
    """A tree whose tests do not check the exact limit."""
    root = tmp_path / "tree"
    for name, text in {
        "src/nanopace/__init__.py": "",
        "src/nanopace/limits.py": SOURCE,
        "tests/test_others.py": TESTS,
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--import-mode=importlib'\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def mutate(root: Path, *arguments: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    command = [sys.executable, str(TOOLS / "mutate.py"), f"--root={root}", "--room=limits", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=kept).stdout


@pytest.mark.slow
def test_what_no_test_notices_survives(small_tree: Path) -> None:
    said = mutate(small_tree, "--patience=8")  # a busy machine takes seconds to start pytest
    survivors = {line.partition(": ")[2] for line in said.splitlines() if line.startswith("src/")}
    assert survivors == {"< -> <=", "10 -> 11", "10 -> 20"}, said
    assert (small_tree / "src/nanopace/limits.py").read_text() == SOURCE
    (small_tree / "tests/test_limits.py").write_text(
        "from nanopace.limits import under\n\n\ndef test_limit():\n    assert not under(10.5)\n"
    )
    excuse = 'file = "limits.py"\nline = "return value < LIMIT"\nchange = "< -> <="\nwhy = "nobody asks"\n'
    (small_tree / "tests/mutants.toml").write_text(f"[[mutant]]\n{excuse}")
    said = mutate(small_tree, "--patience=8", "--again")
    assert "src/" not in said
    assert "100%" in said
