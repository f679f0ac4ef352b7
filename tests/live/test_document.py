"""A file that is reread: when, how often, and what happens if it cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nanopace.errors import InputError
from nanopace.live import document as module
from nanopace.live.chosen import newest
from nanopace.live.document import Document, document_format
from nanopace.live.last_words import Close
from nanopace.live.passthrough import Piece
from nanopace.live.watcher import Watcher
from nanopace.sources.infer.infer import complete
from nanopace.wording.catalog import words

from .made_up import Deaf


def write(path: Path, entries: int, *, first: int = 0, loss: float = 3.0, max_steps: int = 1000) -> None:
    path.parent.mkdir(exist_ok=True)
    history = [
        {"epoch": 0.1, "loss": loss - at / 1000, "step": 10 * at} for at in range(first + 1, first + entries + 1)
    ]
    path.write_text(json.dumps({"max_steps": max_steps, "log_history": history}))


class Watched:
    def __init__(self, directory: Path) -> None:
        self.said: list[str] = []
        self.complaints: list[InputError] = []

        def find() -> str:
            return newest(str(directory), lambda log: document_format(log) == "hf_trainer_state") or "none"

        self.watcher = Watcher(
            *("run", words(), lambda comment: self.said.append(comment.text), complete),
            reader=lambda observer: Document(find, observer, self.complaints.append),
        )

    def look(self, now: float) -> str:
        before = len(self.said)
        self.watcher.feed(Piece(b"", now, True))
        return "; ".join(text.replace("\u00a0", " ") for text in self.said[before:])


def test_the_newest_checkpoint_is_followed(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    write(tmp_path / "checkpoint-100" / "trainer_state.json", 10)
    assert watched.look(1000.0) == "iteration 100 of 1,000, 10%"
    write(tmp_path / "checkpoint-200" / "trainer_state.json", 20)
    assert watched.look(1400.0) == "iteration 200 of 1,000, 20%"
    write(tmp_path / "checkpoint-300" / "trainer_state.json", 30)
    assert watched.look(1800.0) == "iteration 300 of 1,000, 30%, 46 min 40 s left"
    watched.watcher.finish(Close(closed=False))
    assert any(" · Hugging Face Trainer · 30 rows, " in text.replace("\u00a0", " ") for text in watched.said)


def test_a_file_that_does_not_change_any_more(tmp_path: Path) -> None:
    watched, path = Watched(tmp_path), tmp_path / "trainer_state.json"
    for number in range(4):
        write(path, 10 + number)
        watched.look(1000.0 + 40 * number)
    said = [watched.look(1120.0 + seconds) for seconds in range(4, 900, 4)]
    assert list(filter(None, said)) == ["The file has not changed for 13 min 24 s. The last row was iteration 130."]
    write(path, 20)
    assert watched.look(2020.0).startswith(
        "The file is changing again after 15 min 0 s.; iteration 200 of 1,000, 20%, "
    )


def test_another_run_in_its_place_begins_anew(tmp_path: Path) -> None:
    watched, path = Watched(tmp_path), tmp_path / "trainer_state.json"
    write(path, 50)
    watched.look(1000.0)
    write(path, 20, loss=9.0)
    assert watched.look(1400.0) == "iteration 200 of 1,000, 20%"


def test_what_is_no_document_is_an_error_unless_it_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    write(path, 50)
    whole = path.read_bytes()
    watched = Watched(tmp_path)
    path.write_bytes(whole[:1000])
    watched.look(1000.0)
    with pytest.raises(InputError, match=r"trainer_state\.json: is not complete JSON"):
        watched.look(1010.0)
    watched = Watched(tmp_path)
    path.write_bytes(whole)
    watched.look(1000.0)
    path.write_bytes(whole[:1000])
    watched.look(1100.0)
    write(path, 60)
    assert watched.look(1500.0).startswith("iteration 600 of 1,000")


def test_reading_takes_a_tenth_of_the_time_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, readings, read = [0.0], list[float](), module.open_runs

    def slowly(path: str) -> object:
        readings.append(clock[0])
        clock[0] += 5.0
        return read(path)

    monkeypatch.setattr(module, "open_runs", slowly)
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    path = tmp_path / "trainer_state.json"
    document = Document(lambda: str(path), Deaf(), lambda _: None)
    for entries in range(10, 210):
        write(path, entries)
        clock[0] += 1.0
        document.look(clock[0])
    assert 4 <= len(readings) <= clock[0] / 50 + 1
