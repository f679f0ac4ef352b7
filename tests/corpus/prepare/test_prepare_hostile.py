"""An untrusted directory as --out: nothing outside it is written, and nothing blocks."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from nanopace.cli.main import main
from nanopace.corpus.prepare.provenance import PROVENANCE
from nanopace.corpus.shards.manifest import MANIFEST, read_manifest

SECRET = b"not yours" * 10_000  # longer than anything written here


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus whose preparation was interrupted after some tokens, next to somebody's file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "victim").write_bytes(SECRET)
    rows = [json.dumps({"text": f"some text, number {n}"}) + "\n" for n in range(300)]
    (tmp_path / "a.jsonl").write_text("".join(rows[:200]))
    (tmp_path / "b.jsonl").write_text("".join(rows[200:]) + "{\n")
    monkeypatch.setattr("nanopace.corpus.prepare.intake.BATCH", 1000)
    assert prepare() == 2  # at the bad line
    assert read_manifest(tmp_path / "made").train
    return tmp_path / "made"


def prepare() -> int:
    return main(["prepare", "a.jsonl", "b.jsonl", "--out=made", "--tokenizer=bytes", "--shard_tokens=2000"])


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
    path.unlink(missing_ok=True)
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
    refused(capsys, path.name if kind == "directory" else "b.jsonl: line 101")  # others are removed as leftovers
    assert not Path("new").exists()


@pytest.mark.parametrize("name", ["train-00000.bin.part", "val-00000.bin.part"])
def test_links_that_wait_for_a_new_corpus(name: str, begun: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in begun.iterdir():
        path.unlink()
    (begun / name).symlink_to("../victim")
    assert "it is a link" in refused(capsys, name)
    for described in (PROVENANCE, "corpus.json", "tokenizer.json"):
        (begun / described).unlink(missing_ok=True)
        (begun / described).symlink_to("../victim")
    refused(capsys, PROVENANCE)
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
def test_names_in_the_manifest(name: object, begun: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = json.loads((begun / MANIFEST).read_text())
    manifest["splits"]["train"][0]["file"] = name
    (begun / MANIFEST).write_text(json.dumps(manifest))
    refused(capsys, "val-00000.bin: is missing" if name == "val-00000.bin" else "corpus.json: is damaged")


@pytest.mark.parametrize("name", [PROVENANCE, "tokenizer.json", "corpus.json"])
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
