"""Nothing that happens to a clock stops training."""

from __future__ import annotations

import copy
import errno
import os
import pickle
import threading
import time
import warnings
from pathlib import Path

import pytest

from nanopace import Clock
from nanopace.ledger import CheckpointEvent

from .hands import ledger_of
from .loops import steps_of


def train(clock: Clock, steps: int = 3, **values: object) -> int:
    done = 0
    for _ in clock.batches(range(steps)):
        with clock.evaluation():
            pass
        with clock.step(**values):
            done += 1
    clock.close()
    return done


def no_room(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.warns(RuntimeWarning, match="Not a directory; the clock is off, and training continues") as warned:
        assert train(Clock(tmp_path / "file" / "out")) == 3
    assert len(warned) == 1


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nanopace.ledger.file.os.write", no_room)
    with pytest.warns(RuntimeWarning, match="No space left on device") as warned:
        assert train(Clock(tmp_path)) == 3
    assert len(warned) == 1


@pytest.mark.parametrize(
    "place",
    ["timeline.HostTimeline.mark", "book.Book.complete", "book.Book.open", "machine.introduction", "book.Book.close"],
)
def test_a_bug_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(f"nanopace.clock.{place}", fail)
    with pytest.warns(
        RuntimeWarning, match="the clock is off, and training continues: ZeroDivisionError: ours"
    ) as warned:
        assert train(Clock(tmp_path)) == 3
    assert len(warned) == 1


def test_warnings_that_are_errors(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert train(Clock(tmp_path / "file" / "out")) == 3
        assert train(Clock(tmp_path), losss=3, loss="much") == 3


def test_values_that_nobody_can_read(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning) as warned:
        assert train(Clock(tmp_path), loss="much", losss=1.0, lr=[1, 2], tokens=float("nan")) == 3
    assert {str(each.message) for each in warned} == {
        "nanopace: loss is left out: a str that is not one number on the CPU or a CUDA card",
        "nanopace: lr is left out: a list that is not one number on the CPU or a CUDA card",
        "nanopace: step has no 'losss'; it is left out",
    }
    assert [(event.loss, event.lr, event.tokens) for event in steps_of(tmp_path)] == [(None, None, None)] * 3


def test_an_unknown_phase_is_other(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    with clock.step(), pytest.warns(RuntimeWarning, match="unknown phase 'backward'"), clock.phase("backward"):
        pass
    clock.close()
    assert len(steps_of(tmp_path)) == 1


def test_steps_that_are_counted_anew_in_each_epoch_are_numbered_on(tmp_path: Path) -> None:
    clock = Clock(tmp_path)

    def two_epochs() -> None:
        for _ in range(2):
            for i in range(3):
                with clock.step(i):
                    pass

    with pytest.warns(RuntimeWarning, match="step 0 after step 2: the clock numbers the steps itself") as warned:
        two_epochs()
    with clock.step("five"):  # type: ignore[arg-type]
        pass
    clock.close()
    assert len(warned) == 1
    assert [event.iteration for event in steps_of(tmp_path)] == [0, 1, 2, 3, 4, 5, 6]


def test_a_step_that_fails_is_no_step(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    for i in range(4):
        try:
            with clock.step(i):
                time.sleep(0.01)
                if i % 2:
                    raise MemoryError
        except MemoryError:
            with clock.step(i):  # once more, with less
                pass

    @clock.checkpoint("model.pt")
    def save() -> None:
        time.sleep(0.01)
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        save()
    clock.close()
    events = ledger_of(tmp_path).events
    assert [event.iteration for event in steps_of(tmp_path)] == [0, 1, 2, 3]
    assert not any(isinstance(event, CheckpointEvent) for event in events)
    spans = {event.phase: event.ms for event in events if event.name == "span"}  # type: ignore[attr-defined]
    assert spans["other"] >= 20
    assert spans["checkpoint"] >= 10


def test_what_another_thread_does_is_not_waited_for(tmp_path: Path) -> None:
    clock = Clock(tmp_path)

    def save() -> None:
        with clock.checkpoint():
            pass

    with clock.step():
        beside = threading.Thread(target=save)
        beside.start()
        beside.join()
    clock.close()
    assert [type(event) for event in ledger_of(tmp_path).events if isinstance(event, CheckpointEvent)] == []


def test_a_copy_is_off(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    with clock.step():
        pass
    for other in (copy.deepcopy(clock), pickle.loads(pickle.dumps(clock))):  # noqa: S301
        assert train(other) == 3
    clock.close()
    with clock.step():  # after the end: nothing
        pass
    assert len(steps_of(tmp_path)) == 1
