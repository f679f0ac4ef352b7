"""A run and its ledger: started, resumed, set aside, and removed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

from nanopace.config import Asked
from nanopace.ledger import EndEvent, Event, LedgerWriter, NoteEvent, read_ledger
from nanopace.literals import Value
from nanopace.train.checkpoint.best import read_best
from nanopace.train.checkpoint.lock import Claim
from nanopace.train.checkpoint.run_dir import clear
from nanopace.train.run import train

from ..train.conftest import TINY, write_corpus
from ..train.conftest import Recorder as Listener
from .checkpoints import check_checkpoints
from .recorder import Recorder, recording
from .scenario import Check, Scenario, last

LEDGER = "ledger.jsonl"


@dataclass(frozen=True, slots=True)
class Told:
    """What a run has reported."""

    events: int  # in its ledger
    step: int = 0  # the last saved one
    best: float | None = None  # validation loss of the best checkpoint, at the end


@contextmanager
def training(folder: Path) -> Iterator[Scenario]:
    """Start, end and resume a run. It learns and then forgets, so the best is not the newest."""
    corpus, root = write_corpus(folder / "corpus", train=400, val=100), folder / "disk"
    root.mkdir()
    out = root / "runs" / "out"
    small = {**TINY, "n_layer": 1, "n_embd": 4, "eval_interval": 2, "save_interval": 2, "keep_last": 1}
    with recording(root) as recorder:
        _train(recorder, out, {**small, "dataset": str(corpus), "max_iters": 4})
        _train(recorder, out, {"init_from": "resume", "learning_rate": 5.0, "decay_lr": False, "max_iters": 6})
    whole, best = _events(out), read_best(out)
    assert best is not None
    assert best[0] < 6

    def check_saved(root: Path, owed: tuple[int, float | None]) -> None:
        check_checkpoints(root / "runs" / "out", owed[0])
        _check_best(root / "runs" / "out", owed[1])

    def owed(told: Sequence[Told]) -> tuple[int, float | None]:
        best = min((each.best for each in told if each.best is not None), default=None)
        return max((each.step for each in told), default=0), best

    yield Scenario(
        recorder.trace,
        (
            Check(owed, check_saved, lambda path: not path.endswith(LEDGER)),
            Check(
                lambda told: max((each.events for each in told), default=0),
                lambda root, events: _check_ledger(root / "runs" / "out", whole, events),
                lambda path: path.endswith(LEDGER) or path in ("runs", "runs/out"),
            ),
        ),
    )


def _train(recorder: Recorder, out: Path, knobs: Mapping[str, Value]) -> None:
    class Promising(Listener):
        def saved(self, report: Any) -> None:
            recorder.promise(Told(len(_events(out)), report.iteration))

    train(Asked(given={"out_dir": str(out), **knobs}), listener=Promising(), started=time.monotonic())
    best = read_best(out)
    assert best is not None
    recorder.promise(Told(len(_events(out)), best=best[1]))


def _check_best(out: Path, loss: float | None) -> None:
    """best.json is unchanged, and names an existing checkpoint."""
    if loss is None and not (out / "best.json").exists():
        return
    best = read_best(out)
    assert best is not None
    assert loss is None or best[1] <= loss
    assert (out / "checkpoints" / f"step-{best[0]:08d}").is_dir()


def _events(out: Path) -> tuple[Event, ...]:
    if not (out / LEDGER).exists():
        return ()
    with open(out / LEDGER, "rb") as file:
        return read_ledger(file).events


def _check_ledger(out: Path, whole: Sequence[Event], promised: int) -> None:
    """Everything promised is there, nothing that was not written, and it can be continued."""
    found = _events(out)
    assert found[:promised] == whole[:promised]
    written = iter(whole)
    assert all(each in written for each in found), "in their order, and maybe not all of them"
    out.mkdir(parents=True, exist_ok=True)
    with LedgerWriter(out / LEDGER) as ledger:
        ledger.append(NoteEvent("power is back", 0))
    after = _events(out)
    assert after[:-1] == found
    assert isinstance(after[-1], NoteEvent)


@contextmanager
def writing_a_ledger(folder: Path) -> Iterator[Scenario]:
    """Closed without an end event, and opened again: closing syncs it, too."""
    folder.mkdir()
    with recording(folder) as recorder:
        for _ in range(2):
            with LedgerWriter(folder / LEDGER) as ledger:
                ledger.append(NoteEvent("a", 1))
                ledger.append(EndEvent("finished", 1.0, None))
                recorder.promise(len(_events(folder)))
                ledger.append(NoteEvent("b", 2))
                ledger.append(NoteEvent("c", 3))
            recorder.promise(len(_events(folder)))
    whole = _events(folder)
    yield Scenario(recorder.trace, (Check(last, lambda root, events: _check_ledger(root, whole, events)),))


@contextmanager
def setting_a_run_aside(folder: Path) -> Iterator[Scenario]:
    """If a run saved nothing, its ledger is kept when another starts in its place."""
    folder.mkdir()
    with LedgerWriter(folder / LEDGER) as ledger:
        ledger.append(NoteEvent("of the first", 0))
    before = _events(folder)
    with recording(folder) as recorder:
        with Claim(folder) as claim:
            clear(folder, claim, anew=True, overwrite=False)
        with LedgerWriter(folder / LEDGER) as ledger:
            ledger.append(NoteEvent("of the second", 0))
        recorder.promise("begun")

    def check(root: Path, _: Sequence[str]) -> None:
        assert any(read_ledger(each.read_bytes().splitlines()).events == before for each in root.glob("*.jsonl"))

    yield Scenario(recorder.trace, (Check(tuple, check),))


@contextmanager
def losing_the_ledger(folder: Path) -> Iterator[Scenario]:
    """The ledger and its directory are removed: it starts over."""
    folder.mkdir()
    (folder / "run").mkdir()
    with recording(folder) as recorder, LedgerWriter(folder / "run" / LEDGER) as ledger:
        rmtree(folder / "run")
        ledger.append(EndEvent("finished", 1.0, None))
        recorder.promise(1)
    whole = _events(folder / "run")
    yield Scenario(recorder.trace, (Check(last, lambda root, events: _check_ledger(root / "run", whole, events)),))
