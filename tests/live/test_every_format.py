"""Every known format in a pipe: its lines pass, and the comments match what `explain` says about the same lines."""

from __future__ import annotations

import io
import json
import math
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanopace.diagnosis.diagnose import diagnose
from nanopace.errors import InputError
from nanopace.live.document import Document, document_format
from nanopace.live.last_words import Close
from nanopace.live.passthrough import Piece
from nanopace.live.printer import Printer
from nanopace.live.reading import LiveReader
from nanopace.live.session import Session
from nanopace.live.watcher import Watcher
from nanopace.record import replace
from nanopace.run import Run
from nanopace.sources.formats.table import BUILT_IN
from nanopace.sources.infer.infer import complete
from nanopace.sources.runs import open_runs
from nanopace.wording.catalog import words

from ..sources.formats.test_every_example import EXAMPLES, data_of
from .made_up import Heard

DOCUMENTS = {each.name for each in BUILT_IN if each.opening} & EXAMPLES.keys()
LINES = sorted(EXAMPLES.keys() - DOCUMENTS)
ALARMS = {"stall", "slower", "spike", "silent", "error", "out_of_memory", "interrupted", "died"}


def explained(data: bytes) -> list[Run]:
    try:
        return open_runs(io.BytesIO(data))
    except InputError:
        return []


def facts_of(runs: list[Run]) -> list[tuple[object, ...]]:
    return [
        (
            *(run.format, run.rows, run.untimed_rows, run.evaluations, run.checkpoints, run.restarts, run.facts),
            *(run.caveats, run.ending, run.skipped, run.spikes),
        )
        for run in runs
    ]


class Chunks:
    """A pipe that delivers a log in pieces of one size."""

    may_wait = True
    skipped = 0

    def __init__(self, data: bytes, size: int) -> None:
        self._data, self._size = data, size

    def history(self) -> Iterator[bytes]:
        return iter(())

    def live(self) -> Iterator[bytes]:
        yield from (self._data[at : at + self._size] for at in range(0, len(self._data), self._size))


@pytest.mark.parametrize("size", [7, 1000, 1 << 20])
@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_every_byte_passes_and_every_row_is_read(name: str, size: int, tmp_path: Path) -> None:
    data, watchers = data_of(name), list[Watcher]()
    with (tmp_path / "out").open("wb") as out:
        printer = Printer(out.fileno(), terminal=False, color=False, encoding="utf-8")

        def make(say: object) -> Watcher:
            watchers.append(Watcher("log", words(), say, complete))  # type: ignore[arg-type]
            return watchers[0]

        Session(Chunks(data, size), printer, make, words(), footer=False).run(threading.Event())
    shown = (tmp_path / "out").read_bytes()
    assert re.sub(rb"# nanopace: [^\n]*\n", b"", shown) in (data, data + b"\n")
    if name in DOCUMENTS:
        assert shown.count(b"# nanopace: ") == 1
        assert b"not lines of text; use nanopace watch FILE.\n" in shown
        return
    assert b"No training log" not in shown
    reader = watchers[0]._reader
    assert isinstance(reader, LiveReader)
    assert facts_of([complete(run) for run in reader._builder.finish()]) == facts_of(explained(data))


@pytest.mark.parametrize("name", LINES)
def test_at_every_line_it_stands_where_explain_stands(name: str) -> None:
    """Also with rows that a reader holds back. Looking does not change what follows."""
    heard, told = Heard(header=""), list[int]()
    see = heard.watcher.saw_row
    heard.watcher.saw_row = lambda seen: (told.append(seen.row.iteration), see(seen))[1]  # type: ignore[method-assign]
    so_far = b""
    for line in data_of(name).splitlines(keepends=True):
        so_far, heard.now = so_far + line, heard.now + 2.0
        heard.watcher.feed(Piece(line, heard.now, True))
        snapshot, runs = heard.watcher._reader.snapshot(), explained(so_far)
        assert facts_of([] if snapshot is None else [complete(snapshot)]) == facts_of(runs[-1:])
        status = heard.watcher._status()
        if status is None:
            continue
        assert status.left_s is None or 0 <= status.left_s < math.inf
        assert status.next_evaluation is None or status.next_evaluation[0] > status.last.last_iteration
        assert heard.watcher.footer(100)
    heard.watcher.finish(Close(closed=True))
    runs = explained(data_of(name))
    assert told == [row.iteration for run in runs for row in run.logged], "each once, however often it is looked at"
    said, last = heard.watcher._standing.diagnosis, diagnose(runs[-1])
    assert said is not None
    assert said == replace(last, source=replace(last.source, name=said.source.name))
    assert not ALARMS & {event for event, _ in heard.alerts}
    bad = any(row.loss is not None and not math.isfinite(row.loss) for run in runs for row in run.logged)
    assert ("nan" in {event for event, _ in heard.alerts}) == bad
    assert len([text for text in heard.texts if text.startswith("The loss is NaN")]) <= 1


@pytest.mark.parametrize("name", sorted({*DOCUMENTS, "lightning"}))
def test_a_document_is_read_anew_and_its_new_rows_are_told(name: str, tmp_path: Path) -> None:
    pytest.importorskip({"tensorboard": "tensorboard", "wandb": "wandb"}.get(name, "nanopace"))
    path, data = tmp_path / "document", data_of(name)
    whole = open_runs(io.BytesIO(data))[-1]
    told, read = Told(), 0
    document = Document(lambda: str(path), told, told.complaints.append)  # type: ignore[arg-type]
    path.write_bytes(data[:40])
    assert not document.look(1.0)
    for number, part in enumerate(growing(name, data), start=1):
        path.write_bytes(part)
        read += document.look(1000.0 * number)
        assert not document.look(1000.0 * number + 900.0), "nothing has changed"
        path.write_bytes(part[: len(part) // 2 + 1])
        document.look(1000.0 * number + 950.0)  # a half-written file is no reason to end, nor to report it again
    path.write_bytes(data)
    document.look(1e6)
    assert read >= 3
    assert document_format(str(path)) == name
    assert facts_of([document.snapshot()]) == facts_of([whole])  # type: ignore[list-item]
    assert told.rows == [row.iteration for row in whole.logged]
    assert told.evaluations == [each.iteration for each in whole.evaluations]


def growing(name: str, data: bytes) -> Iterator[bytes]:
    """The file as it grows, as the trainer writes it."""
    for part in range(5, 9):
        if name == "hf_trainer_state":
            state = json.loads(data)
            history = state["log_history"]
            yield json.dumps({**state, "log_history": history[: len(history) * part // 8]}).encode()
        else:
            yield data[: len(data) * part // 8]


class Told:
    def __init__(self) -> None:
        self.rows: list[int] = []
        self.evaluations: list[int] = []
        self.complaints: list[InputError] = []

    def saw_row(self, seen: object) -> None:
        self.rows.append(seen.row.iteration)  # type: ignore[attr-defined]

    def saw_evaluation(self, iteration: int) -> None:
        self.evaluations.append(iteration)

    def saw_ending(self, _: str) -> None: ...
