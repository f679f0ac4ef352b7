"""A directory from somebody else as --out: nothing outside of it is written, and nothing is waited for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanopace.cli.main import main
from nanopace.corpus.prepare.journal import JOURNAL

SECRET = b"not yours" * 10_000  # longer than whatever is written here


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus whose making was interrupted after some tokens, beside somebody's file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "victim").write_bytes(SECRET)
    rows = [json.dumps({"text": f"some text, number {n}"}) + "\n" for n in range(300)]
    (tmp_path / "a.jsonl").write_text("".join(rows[:200]))
    (tmp_path / "b.jsonl").write_text("".join(rows[200:]) + "{\n")
    monkeypatch.setattr("nanopace.corpus.prepare.intake.BATCH", 1000)
    monkeypatch.setattr("nanopace.corpus.prepare.encode._SECONDS_BETWEEN_COMMITS", 0.0)
    assert prepare() == 2  # at the bad line
    assert json.loads((tmp_path / "made" / JOURNAL).read_text())["seen"] > 100
    return tmp_path / "made"


def prepare() -> int:
    return main(["prepare", "a.jsonl", "b.jsonl", "--out=made", "--tokenizer=bytes", "--shard_tokens=2000"])


def changed(directory: Path, change: Callable[[Any], object]) -> None:
    journal = json.loads((directory / JOURNAL).read_text())
    change(journal)
    (directory / JOURNAL).write_text(json.dumps(journal))


def refused(capsys: pytest.CaptureFixture[str], name: str) -> str:
    capsys.readouterr()
    assert prepare() == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert name in err
    assert Path("victim").read_bytes() == SECRET
    return err


def part_of(directory: Path) -> Path:
    return next(directory.glob("train-*.bin.part"))


@pytest.mark.parametrize("which", ["part", "seen.bin"])
@pytest.mark.parametrize("kind", ["link", "dangling", "hard link", "pipe", "device", "directory"])
def test_what_leads_out_is_not_written(which: str, kind: str, begun: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = part_of(begun) if which == "part" else begun / which
    path.unlink()
    match kind:
        case "link":
            path.symlink_to("../victim")
        case "dangling":
            path.symlink_to("../new")
        case "hard link":
            os.link("victim", path)
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case _:
            path.mkdir()
    refused(capsys, path.name)
    assert not Path("new").exists()


@pytest.mark.parametrize("name", ["seen.bin", "train-00000.bin.part", "val-00000.bin.part"])
def test_links_that_wait_for_a_new_corpus(name: str, begun: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in begun.iterdir():
        path.unlink()
    (begun / name).symlink_to("../victim")
    assert "it is a link" in refused(capsys, name)
    for described in (JOURNAL, "corpus.json", "tokenizer.json"):
        (begun / described).unlink(missing_ok=True)
        (begun / described).symlink_to("../victim")
    refused(capsys, JOURNAL)
    Path("b.jsonl").write_text('{"text": "the end"}\n')
    assert main(["prepare", "a.jsonl", "--out=made", "--tokenizer=bytes", "--restart"]) == 0
    assert Path("victim").read_bytes() == SECRET
    assert not any(path.is_symlink() for path in begun.iterdir())


def test_a_later_shard_that_is_a_link(begun: Path, capsys: pytest.CaptureFixture[str]) -> None:
    number = int(part_of(begun).name[6:11])
    Path("b.jsonl").write_text("".join(json.dumps({"text": f"more {n}" * 9}) + "\n" for n in range(300)))
    assert main(["prepare", "a.jsonl", "b.jsonl", "--out=made", "--tokenizer=bytes", "--restart"]) == 0
    for path in begun.iterdir():
        path.unlink()
    (begun / f"train-{number + 1:05}.bin.part").symlink_to("../victim")
    refused(capsys, f"train-{number + 1:05}.bin.part")


NAMES = ["../victim", "/etc/passwd", ".", "..", "", "a\0b", "train-00001.bin", "val-00000.bin", "x" * 300, 5, None, []]


@pytest.mark.parametrize("name", NAMES)
def test_names_in_the_journal(name: object, begun: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed(begun, lambda journal: journal["finished"]["train"][0].update(file=name))
    Path(begun / "train-00000.bin").rename(begun / "train-00000.bin.part")
    assert "prepare.json: is damaged; start anew with --restart" in refused(capsys, JOURNAL)


NUMBERS = [-1, 1e400, float("nan"), 1.5, 10**400, True, "1", None, [], {}, 1 << 64]
FIELDS = [("seen",), ("place", "file"), ("place", "pieces"), ("counts", "documents"), ("begun", "train", "tokens")]


@pytest.mark.parametrize("field", FIELDS, ids="-".join)
def test_numbers_in_the_journal(field: tuple[str, ...], begun: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (begun / JOURNAL).read_text()
    for number in NUMBERS:
        journal = json.loads(whole)
        inner = journal
        for name in field[:-1]:
            inner = inner[name]
        inner[field[-1]] = number
        (begun / JOURNAL).write_text(json.dumps(journal))
        assert "prepare.json: is damaged" in refused(capsys, JOURNAL)


def test_as_many_documents_as_no_input_has(begun: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed(begun, lambda journal: journal.update(seen=1 << 37))
    os.truncate(begun / "seen.bin", 1 << 40)  # sparse
    refused(capsys, JOURNAL)


@pytest.mark.parametrize("name", [JOURNAL, "tokenizer.json", "corpus.json"])
@pytest.mark.parametrize("kind", ["pipe", "device", "sparse", "nested", "wide"])
def test_descriptions_that_are_none(name: str, kind: str, begun: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = begun / name
    path.unlink()
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "sparse":
            path.touch()
            os.truncate(path, 1 << 40)
        case "nested":
            path.write_text('{"a":' * 100_000)
        case _:
            path.write_text("[" + "{}," * 5_000_000 + "{}]")
    refused(capsys, name)
