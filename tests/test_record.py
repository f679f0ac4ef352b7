"""A Record behaves like a frozen slotted dataclass."""

from __future__ import annotations

import copy
import dataclasses
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nanopace.record import Record, field_names, replace

ROOT = Path(__file__).resolve().parents[1]


class Point(Record):
    """A record."""

    x: int
    y: int = 2
    tags: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Twin:
    x: int
    y: int = 2
    tags: tuple[str, ...] = ()


@pytest.mark.parametrize("make", [Point, Twin])
def test_it_is_made_as_a_dataclass_is(make: type) -> None:
    assert (make(1).x, make(1).y, make(1).tags) == (1, 2, ())
    assert make(1, 3) == make(x=1, y=3) == make(1, y=3)
    assert make(1) != make(2)
    assert make(1) != (1, 2, ())
    assert hash(make(1)) == hash(make(1))
    for wrong in (lambda: make(), lambda: make(1, z=1), lambda: make(1, 2, (), 4), lambda: make(1, x=2)):
        with pytest.raises(TypeError):
            wrong()


def test_it_looks_like_one() -> None:
    assert repr(Point(1)) == repr(Twin(1)).replace("Twin", "Point")


def test_it_is_frozen_and_slotted() -> None:
    point = Point(1)
    with pytest.raises(AttributeError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        del point.x
    with pytest.raises(AttributeError):
        point.z = 2  # type: ignore[attr-defined]
    assert not hasattr(point, "__dict__")


def test_the_dataclasses_module_takes_it_for_one() -> None:
    assert dataclasses.is_dataclass(Point)
    assert [field.name for field in dataclasses.fields(Point)] == ["x", "y", "tags"] == list(field_names(Point))
    assert dataclasses.replace(Point(1), y=5) == replace(Point(1), y=5) == Point(1, 5)
    assert dataclasses.asdict(Point(1)) == dataclasses.asdict(Twin(1))


def test_it_is_copied_and_pickled() -> None:
    point = Point(1, tags=("a",))
    assert copy.deepcopy(point) == pickle.loads(pickle.dumps(point)) == point  # noqa: S301


def test_it_is_matched() -> None:
    match Point(1, 7):
        case Point(x, y):
            assert (x, y) == (1, 7)


def test_it_completes_itself() -> None:
    class Range(Record):
        first: int
        last: int = -1

        def __post_init__(self) -> None:
            if self.last < 0:
                object.__setattr__(self, "last", self.first)

    assert Range(3).last == 3


# --- where which kind belongs: docs/decisions/0008-records.md --------------------------------------------------------


def imported_by(*arguments: str) -> set[str]:
    """The modules that a command of the analyst imports."""
    program = "import sys; from nanopace.cli.main import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    command = [sys.executable, "-c", program, *arguments]
    bare = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}  # it imports, too
    done = subprocess.run(command, cwd=ROOT / "examples", env=bare, capture_output=True, text=True, check=True)
    assert done.stdout, done.stderr
    return set(done.stderr.split())


def test_explain_does_without_dataclasses() -> None:
    needed = imported_by("explain", "slow-rows.log", "--gpu", "4070")
    assert "nanopace.views.terminal.report" in needed
    assert "dataclasses" not in needed


def test_a_record_is_only_for_what_the_analyst_reports() -> None:
    reporting = imported_by("explain", "slow-rows.log", "--gpu", "4070", "--set", "dtype=bfloat16")
    reporting |= imported_by("compare", "narrow.log", "wide.log", "slow-rows.log", "--json")
    source = ROOT / "src"
    with_records = [path for path in source.rglob("*.py") if re.search(r"^class \w+\(Record\)", path.read_text(), re.M)]
    names = {".".join(path.relative_to(source).with_suffix("").parts) for path in with_records}
    assert "nanopace.run" in names
    assert not names - reporting
