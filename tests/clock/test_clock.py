"""A clock in loops of all kinds: what it writes can be read, and nothing that befalls it stops a training."""

from __future__ import annotations

import copy
import errno
import inspect
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nanopace import Clock, compare, diagnose, open_run, render
from nanopace.errors import UsageError
from nanopace.ledger import CheckpointEvent, CompileEvent, EndEvent, EvalEvent, NoteEvent, RunEvent, StepEvent

from .hands import ledger_of

SIGNATURE = (
    "(path: 'str | os.PathLike[str]', *, config: 'Mapping[str, object] | None' = None, "
    "tokens_per_iteration: 'int | None' = None, parameters: 'int | None' = None, "
    "flops_per_token: 'float | None' = None, resume: 'int' = 0, trainer: 'str' = 'loop') -> 'None'"
)


def steps_of(path: Path) -> list[StepEvent]:
    return [event for event in ledger_of(path).events if isinstance(event, StepEvent)]


def run_python(code: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


def test_what_people_call_is_frozen() -> None:
    assert str(inspect.signature(Clock.__init__)).replace("(self, ", "(") == SIGNATURE
    public = [name for name in vars(Clock) if not name.startswith("_")]
    assert public == [
        *("step", "evaluation", "checkpoint", "data", "phase", "batches"),
        *("passed", "note", "close", "enter", "leave"),
    ]


def test_from_a_loop_to_a_report(tmp_path: Path) -> None:
    with Clock(tmp_path, config={"batch_size": 4, "block_size": 8}, tokens_per_iteration=32) as clock:

        @clock.evaluation()
        def evaluate() -> str:
            time.sleep(0.02)
            return "done"

        for i in clock.batches(range(40)):
            if i % 10 == 0:
                assert evaluate() == "done"
                with clock.evaluation(val=5 - i / 10):
                    time.sleep(0.02)
                with clock.checkpoint(tmp_path / "model.pt", bytes=77):
                    time.sleep(0.005)
            with clock.step(i, lr=1e-3) as step:
                time.sleep(0.002)
                step.loss = 6 - i / 10
        with clock.phase("compile"):
            time.sleep(0.002)
        clock.note("one\nline")
    events = ledger_of(tmp_path).events
    assert [type(events[0]), type(events[-1])] == [RunEvent, EndEvent]
    assert [event.iteration for event in steps_of(tmp_path)] == list(range(40))
    assert [event.iteration for event in events if isinstance(event, EvalEvent)] == [0, 0, 10, 10, 20, 20, 30, 30]
    saves = [event for event in events if isinstance(event, CheckpointEvent)]
    assert {(event.path, event.bytes) for event in saves} == {(str(tmp_path / "model.pt"), 77)}
    assert [event.text for event in events if isinstance(event, NoteEvent)] == ["one line"]
    assert any(isinstance(event, CompileEvent) and event.ms >= 2 for event in events)

    run = open_run(tmp_path / "ledger.jsonl")
    assert (run.format, run.ending, run.spikes) == ("clock", "finished", None)
    assert [run.rows.loss[0], run.rows.loss[39]] == pytest.approx([6.0, 2.1])
    diagnosis = diagnose(run)
    assert diagnosis.throughput.tokens_per_iteration == 32
    wall = diagnosis.wall
    assert wall.measured
    assert wall.unknown_s == pytest.approx(0, abs=0.02 * wall.total_s)
    assert wall.evaluation_s is not None
    assert wall.evaluation_s >= 8 * 0.02
    text = render(diagnosis)
    assert "– computing" in text
    assert "– optimizer" not in text  # nobody told it from the rest
    assert compare(run, run).median_ms.ratio == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"path": 3}, "path must be a file or a directory, not 3"),
        ({"config": [1]}, "config must be a mapping of names to values, not [1]"),
        ({"tokens_per_iteration": 0}, "tokens_per_iteration must be a whole number of 1 or more, not 0"),
        ({"parameters": 1.5}, "parameters must be a whole number of 1 or more, not 1.5"),
        ({"flops_per_token": float("nan")}, "flops_per_token must be a positive number, not nan"),
        ({"resume": -1}, "resume must be a whole number of 0 or more, not -1"),
    ],
)
def test_wrong_arguments_are_said_before_training(tmp_path: Path, arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError) as error:
        Clock(**{"path": tmp_path, **arguments})
    assert str(error.value) == complaint


# --- nothing stops a training ----------------------------------------------------------------------------------------


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
    with pytest.warns(RuntimeWarning, match="Not a directory; the clock is off, and training goes on") as warned:
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
        RuntimeWarning, match="the clock is off, and training goes on: ZeroDivisionError: ours"
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
    with clock.step(), pytest.warns(RuntimeWarning, match="no phase is called 'backward'"), clock.phase("backward"):
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


# --- loaders ---------------------------------------------------------------------------------------------------------


class Loader:
    batch_size = 2

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[int]:
        for each in range(3):
            time.sleep(0.005)
            yield each


def test_a_loader_stays_what_it_is(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    batches = clock.batches(Loader())
    assert (len(batches), batches.batch_size) == (3, 2)
    for epoch in range(2):
        seen = []
        for each in batches:
            with clock.step():
                seen.append(each)
        assert seen == [0, 1, 2], epoch
    clock.close()
    assert all(event.ms >= 5 for event in steps_of(tmp_path))
    data = sum(event.ms for event in ledger_of(tmp_path).events if getattr(event, "phase", "") == "data")  # type: ignore[attr-defined]
    assert data >= 30
    with pytest.raises(TypeError):
        len(clock.batches(iter(range(3))))


def test_the_error_of_a_loader_is_the_loops(tmp_path: Path) -> None:
    clock = Clock(tmp_path)

    def broken() -> Iterator[int]:
        yield 1
        raise KeyError("no more")

    def loop() -> None:
        for _ in clock.batches(broken()):
            with clock.step():
                pass

    with pytest.raises(KeyError, match="no more"):
        loop()
    clock.close()
    assert len(steps_of(tmp_path)) == 1


# --- processes -------------------------------------------------------------------------------------------------------

LOOP = """
    import os, sys, time
    from nanopace import Clock
    clock = Clock(sys.argv[1])
    def train(steps):
        for i in range(steps):
            with clock.step(loss=i / 2):
                time.sleep(0.002)
"""


@pytest.mark.slow
def test_no_torch_where_the_loop_has_none(tmp_path: Path) -> None:
    done = run_python(
        LOOP + "    train(3); clock.close(); print(sorted({'torch', 'numpy', 'rich'} & {*sys.modules}))", tmp_path
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
    run = ledger_of(tmp_path).events[0]
    assert isinstance(run, RunEvent)
    assert (run.torch, run.gpu, run.trainer) == (None, None, "loop")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "ending"),
    [
        ("clock.close()", "finished"),
        ("raise RuntimeError('no')", "error"),
        ("raise MemoryError", "out_of_memory"),
        ("raise KeyboardInterrupt", "interrupted"),
        ("os.kill(os.getpid(), 9)", None),
        ("pass", None),  # nobody said that it was over
        ("sys.exit(3)", None),
    ],
)
def test_how_it_ended(tmp_path: Path, end: str, ending: str | None) -> None:
    run_python(LOOP + f"    train(20)\n    time.sleep(1.3)\n    {end}", tmp_path)
    run = open_run(tmp_path / "ledger.jsonl")
    assert run.ending == ending
    assert len(run.rows) >= 19  # the last is written with what comes after it
    assert ledger_of(tmp_path).damaged == 0


@pytest.mark.slow
def test_leaving_the_block_tells_how_it_ended(tmp_path: Path) -> None:
    def train_until(number: int, error: BaseException | None) -> None:
        with Clock(tmp_path / f"{number}.jsonl") as clock:
            with clock.step():
                pass
            if error is not None:
                raise error

    train_until(0, None)
    for number, error in enumerate((SystemExit(0), SystemExit(3), KeyboardInterrupt(), RuntimeError()), 1):
        with pytest.raises(type(error)):
            train_until(number, error)
    ends = [ledger_of(tmp_path / f"{number}.jsonl").events[-1] for number in range(5)]
    assert [end.reason for end in ends if isinstance(end, EndEvent)] == [
        *("finished", "finished", "error", "interrupted", "error")
    ]


@pytest.mark.slow
def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Lines are whole, and at most the last second is missing."""
    for number in range(3):
        path = tmp_path / f"{number}.jsonl"
        code = textwrap.dedent(LOOP) + "print('go', flush=True); train(10**6)"
        training = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
        assert training.stdout is not None
        training.stdout.readline()
        time.sleep(1.4 + 0.27 * number)
        training.send_signal(signal.SIGKILL)
        training.wait()
        training.stdout.close()
        ledger = ledger_of(path)
        assert ledger.damaged == 0
        iterations = [event.iteration for event in ledger.events if isinstance(event, StepEvent)]
        assert iterations == list(range(len(iterations)))
        assert len(open_run(path).rows) >= 20


@pytest.mark.slow
def test_a_forked_process_does_not_write(tmp_path: Path) -> None:
    code = """
    for _ in range(2):  # before the ledger is opened, and after
        if os.fork() == 0:
            train(50); clock.close(); sys.exit()
        os.wait()
        train(3)
    clock.close()
    """
    assert run_python(LOOP + code, tmp_path).stderr == ""
    assert [event.iteration for event in steps_of(tmp_path)] == list(range(6))


@pytest.mark.slow
def test_only_the_first_rank_writes(tmp_path: Path) -> None:
    for rank in ("1", "0"):
        done = run_python(LOOP + "    train(3); clock.close()", tmp_path / rank, RANK=rank, WORLD_SIZE="2")
        assert done.stderr == ""
    assert os.listdir(tmp_path) == ["0"]
    run = ledger_of(tmp_path / "0").events[0]
    assert isinstance(run, RunEvent)
    assert run.world_size == 2


def test_a_process_that_goes_on(tmp_path: Path) -> None:
    for first, steps in ((0, 20), (15, 10)):
        with Clock(tmp_path, resume=first) as clock:
            for i in range(first, first + steps):
                with clock.step(i if first else None, loss=float(i)):
                    time.sleep(0.001)
    run = open_run(tmp_path / "ledger.jsonl")
    assert [run.rows.iteration[0], run.rows.last_iteration[-1], len(run.rows)] == [0, 24, 25]
    [restart] = run.restarts
    assert (restart.iteration, restart.reached, len(restart.lost)) == (15, 19, 5)


# --- torch -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_torch_loop_with_workers(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    with Clock(tmp_path) as clock:
        for batch in clock.batches(DataLoader(torch.randn(32, 4), batch_size=4, num_workers=2)):
            with clock.step() as step:
                loss = model(batch).square().mean()
                loss.backward()
                step.grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                with clock.phase("optimizer"):
                    optimizer.step()
                optimizer.zero_grad()
                step.loss = loss
            losses.append(loss.item())
            loss.data.zero_()  # whatever becomes of it, the step's loss is what it was
    steps = steps_of(tmp_path)
    assert [event.loss for event in steps] == pytest.approx(losses)
    assert all((event.grad_norm or 0) > 0 for event in steps)
    assert steps[0].loss != 0
