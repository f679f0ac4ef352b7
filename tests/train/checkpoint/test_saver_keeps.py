"""What the checkpointer keeps and removes: the best, and what earlier processes left."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from nanopace.train.checkpoint import saver as module
from nanopace.train.checkpoint.best import read_best, write_best
from nanopace.train.checkpoint.saver import SaveResult

from .checkpoints import save
from .saving import full, promptly, saving, steps
from .test_disk import flip


def test_the_best_stays_until_another_is_better(tmp_path: Path) -> None:
    with saving(tmp_path) as one:
        one.save(1)
        one.save(2, best=3.5)
        one.save(3, 4)
        promptly(one.saver._idle.wait)
        assert (steps(tmp_path), read_best(tmp_path)) == ([2, 4], (2, 3.5))
        one.save(5, best=3.0)
        one.save(6)
        assert not [each for each in one.close() if each.failure]
    assert (steps(tmp_path), read_best(tmp_path)) == ([5, 6], (5, 3.0))


def test_a_best_that_could_not_be_saved_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with saving(tmp_path) as one:
        one.save(1, best=3.5)
        promptly(one.saver._idle.wait)
        with monkeypatch.context() as patch:
            patch.setattr(module, "write_checkpoint", full)
            one.save(2, best=3.0)
            promptly(one.saver._idle.wait)
            while not one.saver._jobs.empty():
                time.sleep(0.001)
        one.save(3)
        one.close()
    assert (steps(tmp_path), read_best(tmp_path)) == ([1, 3], (1, 3.5))


def test_a_best_json_that_cannot_be_written_is_written_later(tmp_path: Path) -> None:
    with saving(tmp_path) as one:
        (tmp_path / "best.json" / "in the way").mkdir(parents=True)
        one.save(1, best=3.5)
        one.save(2)
        promptly(one.saver._idle.wait)
        first, *others = (each for each in one.saver.results() if each.failure)
        assert first == SaveResult(1, tmp_path / "best.json", 0.0, 0, "Is a directory")
        assert [each.step for each in others] == [1]  # after the second save, again
        shutil.rmtree(tmp_path / "best.json")
        one.save(3)
        promptly(one.saver._idle.wait)
        assert read_best(tmp_path) == (1, 3.5)
        written = (tmp_path / "best.json").stat().st_ino
        one.save(4)
        assert not [each for each in one.close() if each.failure]
    assert (tmp_path / "best.json").stat().st_ino == written  # and not again and again
    assert steps(tmp_path) == [1, 4]


def test_a_best_whose_checkpoint_vanished_is_not_written(tmp_path: Path) -> None:
    with saving(tmp_path) as one:
        (tmp_path / "best.json").mkdir()
        one.save(1, best=3.5)
        one.save(2)
        promptly(one.saver._idle.wait)
        shutil.rmtree(tmp_path / "checkpoints" / "step-00000001")
        (tmp_path / "best.json").rmdir()
        one.save(3)
        one.close()
    assert not (tmp_path / "best.json").exists()


def test_older_ones_go_once_enough_are_intact(tmp_path: Path) -> None:
    for step in (1, 2, 3, 4):
        save(tmp_path, step)
    flip(tmp_path, 3)
    with saving(tmp_path, keep_last=2) as one:
        one.save(5)
        one.close()
    assert steps(tmp_path) == [1, 3, 4, 5]  # without best.json, 1 and 3 may have been kept as the best


def test_damaged_ones_are_not_counted(tmp_path: Path) -> None:
    for step in (1, 2, 3, 4, 9):
        save(tmp_path, step)
    flip(tmp_path, 3)
    write_best(tmp_path, 9, 1.0)
    with saving(tmp_path, keep_last=2) as one:
        one.save(5, 6, 7)
        one.close()
    assert steps(tmp_path) == [6, 7, 9]


def test_a_best_json_that_is_right_is_not_written_again(tmp_path: Path) -> None:
    save(tmp_path, 1)
    write_best(tmp_path, 1, 1.0)
    before = (tmp_path / "best.json").stat().st_ino
    with saving(tmp_path) as one:
        one.save(2)
        one.close()
    assert steps(tmp_path) == [1, 2]
    assert (tmp_path / "best.json").stat().st_ino == before


def test_a_killed_prune_is_done_at_the_end(tmp_path: Path) -> None:
    """This process saved nothing: the newest of all are kept."""
    for step in (1, 2, 3, 4):
        save(tmp_path, step)
    flip(tmp_path, 4)
    write_best(tmp_path, 3, 1.0)
    with saving(tmp_path) as one:
        one.close()
    assert steps(tmp_path) == [3, 4]


def test_nothing_is_removed_where_nothing_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 1)
    monkeypatch.setattr(module, "known_best", full)
    with saving(tmp_path) as one:
        one.save(2, 3)
        one.close()
    assert steps(tmp_path) == [1, 2, 3]


def test_a_doubtful_best_is_told_once_and_written_again(tmp_path: Path) -> None:
    for step in (1, 2):
        save(tmp_path, step)
    (tmp_path / "best.json").write_text("{}")
    with saving(tmp_path) as one:
        one.save(3)
        one.close()
        (note,) = one.saver.notes()
    assert "does not say for certain which checkpoint is the best" in note
    assert steps(tmp_path) == [1, 2, 3]


def test_what_cannot_be_removed_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with saving(tmp_path) as one:
        with monkeypatch.context() as patch:
            patch.setattr(module, "remove_checkpoint", full)
            one.save(1, 2)
            promptly(one.saver._idle.wait)
            assert one.saver.notes() == [
                "could not remove old checkpoints: No space left on device; training continues and tries again"
            ]
            one.save(3, 4)
            promptly(one.saver._idle.wait)
        one.save(5)
        one.close()
        assert one.saver.notes() == []
    assert steps(tmp_path) == [5]
