"""Which checkpoints `nanopace verify` checks, and their sizes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nanopace.errors import InputError, UsageError
from nanopace.train.checkpoint.best import write_best
from nanopace.train.checkpoint.verify import find_checkpoints, size_of, verdicts

from .checkpoints import save


@pytest.fixture
def out(tmp_path: Path) -> Path:
    for step in (5, 10, 20):
        save(tmp_path, step)
    write_best(tmp_path, 10, 2.5)
    return tmp_path


@pytest.mark.parametrize(
    ("which", "steps"), [("", [5, 10, 20]), ("last", [20]), ("best", [10]), ("5", [5]), ("20", [20])]
)
def test_all_of_them_or_the_one_that_is_asked_for(out: Path, which: str, steps: list[int]) -> None:
    found = find_checkpoints(out, which)
    assert [path.name for path in found] == [f"step-{step:08d}" for step in steps]


def test_a_single_checkpoint_leaves_nothing_to_choose(out: Path) -> None:
    one = out / "checkpoints" / "step-00000005"
    assert find_checkpoints(one) == [one]
    with pytest.raises(UsageError, match="nothing to choose"):
        find_checkpoints(one, "last")
    with pytest.raises(InputError, match="no checkpoint here"):
        find_checkpoints(out / "checkpoints" / "none")


def test_each_is_judged_and_the_best_is_named(out: Path) -> None:
    (out / "checkpoints" / "step-00000020" / "model.safetensors").write_bytes(b"")
    found = list(verdicts(find_checkpoints(out), lambda _: None))
    assert [(each.step, each.wrong is None, each.best) for each in found] == [
        (5, True, None),
        (10, True, 2.5),
        (20, False, None),
    ]


def test_what_vanishes_meanwhile_is_passed_over(out: Path) -> None:
    found = find_checkpoints(out)
    shutil.rmtree(found[0])
    assert [each.step for each in verdicts(found, lambda _: None)] == [10, 20]


def test_the_best_is_one_of_a_run(out: Path) -> None:
    """A copy elsewhere is not, whatever else is there; and it has no step if its state cannot be read."""
    copy = out / "copies" / "mine"
    shutil.copytree(out / "checkpoints" / "step-00000010", copy)
    (one,) = verdicts([copy], lambda _: None)
    assert (one.step, one.wrong, one.best) == (10, None, None)
    assert one.bytes == sum(each.stat().st_size for each in copy.iterdir())
    (copy / "state.json").write_text("")
    (one,) = verdicts([copy], lambda _: None)
    assert (one.step, one.best) == (None, None)
    damaged = out / "checkpoints" / "step-00000010"
    (damaged / "state.json").write_text("")
    (one,) = verdicts([damaged], lambda _: None)
    assert (one.step, one.wrong is None, one.best) == (10, False, 2.5)


def test_a_link_counts_for_itself(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(5000))
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "a").write_bytes(bytes(100))
    (tmp_path / "checkpoint" / "link").symlink_to("../large")
    assert size_of(tmp_path / "checkpoint") == 100 + len("../large")
    assert size_of(tmp_path / "none") == 0
