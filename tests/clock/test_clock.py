"""A clock in all kinds of loops: its ledger can be read, and nothing that happens to it stops training."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nanopace import Clock, compare, diagnose, open_run, render
from nanopace.errors import UsageError
from nanopace.ledger import CheckpointEvent, CompileEvent, EndEvent, EvalEvent, NoteEvent, RunEvent

from .hands import ledger_of
from .loops import steps_of

SIGNATURE = (
    "(path: 'str | os.PathLike[str]', *, config: 'Mapping[str, object] | None' = None, "
    "tokens_per_iteration: 'int | None' = None, parameters: 'int | None' = None, "
    "flops_per_token: 'float | None' = None, resume: 'int' = 0, trainer: 'str' = 'loop') -> 'None'"
)


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
    assert wall.evaluation_s >= 8 * 0.02
    text = render(diagnosis)
    assert "– computing" in text
    assert "– optimizer" not in text  # it was not marked separately
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
            loss.data.zero_()  # a later change does not affect the step's loss
    steps = steps_of(tmp_path)
    assert [event.loss for event in steps] == pytest.approx(losses)
    assert all((event.grad_norm or 0) > 0 for event in steps)
    assert steps[0].loss != 0
