"""All parts together: what ends watching, and what does not."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nanopace.live import session as session_module
from nanopace.live.passthrough import Bytes, Piece, Pipe
from nanopace.live.printer import Printer
from nanopace.live.session import Session
from nanopace.live.watcher import Watcher
from nanopace.sources.infer.infer import complete
from nanopace.wording.catalog import words

from .made_up import HEADER, rows

FINISHED = "".join(f"{line}\n" for line in [*HEADER.splitlines(), *rows(0, 201)]).encode()


class Resting:
    """An unfinished log, followed until the user stops or its writer is gone."""

    may_wait = True
    skipped = 0

    def __init__(self, stop: threading.Event, gone_after_s: float, log: bytes = FINISHED) -> None:
        self._stop, self._gone_after_s, self._log = stop, gone_after_s, log

    def history(self) -> Iterator[bytes]:
        yield self._log

    def live(self) -> Iterator[bytes]:
        self._stop.wait(self._gone_after_s)
        yield from ()


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.setattr(session_module, "TICK_S", 0.02)
    monkeypatch.setattr("nanopace.live.watcher.AT_REST_S", 0.1)

    def watch(
        source: Bytes,
        stop: threading.Event | None = None,
        exit_code: Callable[[], int | None] | None = None,
        watcher: type[Watcher] = Watcher,
    ) -> str:
        with (tmp_path / "out").open("wb") as out:
            printer = Printer(out.fileno(), terminal=False, color=False, encoding="utf-8")
            made = Session(source, printer, lambda say: watcher("x", words(), say, complete), words(), footer=False)
            made.run(stop or threading.Event(), exit_code)
        return (tmp_path / "out").read_text()

    return watch


class Failing(Watcher):
    def feed(self, piece: Piece) -> None:
        if piece.data:
            raise ZeroDivisionError("oh")


def test_an_error_of_ours_is_said_and_every_line_still_passes(watch: Callable[..., str], tmp_path: Path) -> None:
    reading, writing = os.pipe()
    block = b"".join(FINISHED[:4000].splitlines(keepends=True)[:-1])

    def train() -> None:
        for _ in range(300):
            os.write(writing, block)
        os.close(writing)

    trainer = threading.Thread(target=train)
    trainer.start()
    with pytest.raises(ZeroDivisionError):
        watch(Pipe(reading), watcher=Failing)
    trainer.join(10)
    assert not trainer.is_alive()
    out, said = (tmp_path / "out").read_bytes(), b"# nanopace: Reading failed: oh. The lines still pass through.\n"
    assert out.count(said) == 1
    assert out.replace(said, b"") == 300 * block


def test_a_finished_log_ends_the_watching(watch: Callable[..., str]) -> None:
    stop = threading.Event()
    out = watch(Resting(stop, 60.0), stop)
    assert stop.is_set()
    assert out.endswith("# nanopace: The run has finished.\n")


def test_a_command_that_has_something_left_to_do_is_waited_for(watch: Callable[..., str]) -> None:
    stop = threading.Event()
    out = watch(Resting(stop, 0.5), stop, lambda: 3)
    assert not stop.is_set()
    assert out.endswith("# nanopace: The run has finished.\n")


def test_whoever_has_seen_enough_hears_nothing_of_an_end(watch: Callable[..., str]) -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    out = watch(Resting(stop, 60.0, FINISHED[:5000]), stop)
    assert "# nanopace: A normal step takes 100 ms" in out
    assert "The log ends" not in out
