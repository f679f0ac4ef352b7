"""The contents of a log, a name or a config cannot control the reader's terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nanopace.cli.main import main

from ..hostile.evil import EVIL, HTML, NAME, TERMINAL, write_all
from ..train.conftest import TINY, write_corpus

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    return write_all(tmp_path)


def harmless(text: str) -> bool:
    """Only printable characters and line ends. A no-break space joins a number and its unit."""
    return all(character.isprintable() or character in "\n\u00a0\u202f" for character in text)


def said(capsys: Capture) -> tuple[str, str]:
    """What was printed, which must be harmless."""
    out, err = capsys.readouterr()
    assert harmless(out)
    assert harmless(err)
    return out, err


def test_the_texts_are_not_harmless() -> None:
    assert not harmless(TERMINAL)
    assert not harmless(NAME)


@pytest.mark.parametrize("flags", [[], ["-v"], ["--lang=de"], ["--width=40"]], ids=str)
def test_a_report(flags: list[str], logs: list[str], capsys: Capture) -> None:
    for name in logs:
        assert main(["explain", name, *flags]) == 0
        assert said(capsys)[1] == ""
    assert main(["explain", *logs, "-v"]) == 0
    assert "<img src=x onerror=window.ran=6>" in capsys.readouterr().out


def test_a_comparison(logs: list[str], capsys: Capture) -> None:
    assert main(["compare", *logs, "-v"]) == 0
    assert said(capsys)[1] == ""


def test_a_directory_names_its_logs(capsys: Capture) -> None:
    assert main(["explain", "."]) == 0
    _, err = said(capsys)
    assert err.count("\n") == 1
    assert "<img src=x onerror=window.ran=6>" in err


def test_json_is_ascii_and_says_what_was_there(logs: list[str], capsys: Capture) -> None:
    for arguments in (["explain", *logs], ["compare", *logs]):
        assert main([*arguments, "--json"]) == 0
        out, _ = capsys.readouterr()
        assert out.isascii()
        assert harmless(out)
        assert NAME in [run["source"]["name"] for run in json.loads(out)["runs"]]


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", EVIL],
        ["explain", NAME, f"--config={EVIL}"],
        ["explain", NAME, f"--gpu={EVIL}"],
        ["explain", NAME, f"--set={EVIL}"],
        ["explain", NAME, f"--set=batch_size={EVIL}"],
        ["explain", NAME, f"--html={EVIL}"],
        ["explain", NAME, f"--lang={EVIL}"],
        ["explain", f"--{EVIL}"],
        ["train", f"--batch_size={EVIL}"],
        ["train", f"--dataset={EVIL}", "--device=cpu"],
        ["train", f"--device={EVIL}"],
        ["train", f"--dtype={EVIL}"],
        ["train", "evil.py"],
        ["train", "evil-name.py"],
        ["sample", EVIL],
        ["convert", EVIL, "written.pt"],
        ["prepare", EVIL],
        ["cards", EVIL],
        [EVIL],
    ],
    ids=lambda arguments: " ".join(arguments)[:30].encode("unicode_escape").decode(),
)
def test_an_error(arguments: list[str], capsys: Capture) -> None:
    Path("evil.py").write_text(f"batch_size = 8\nn_embd = run({EVIL.replace(chr(13), '')!r}, '\x1b[31m\x9b')\n")
    Path("evil-name.py").write_text("batch_size = '\x1b[31m\x9b2J\u202e'\n")
    assert main(arguments) == 2
    out, err = said(capsys)
    assert out == ""
    assert err.count("\n") == 1


def test_a_note(capsys: Capture) -> None:
    """About a skipped line: nothing in it runs, and nothing in it controls the terminal."""
    Path("evil.py").write_text(f"x = run({EVIL.replace(chr(13), '')!r}, '\x1b[31m\x9b')\n")
    assert main(["train", "evil.py"]) == 2  # there is no corpus
    assert "evil.py, line 1: skipped" in said(capsys)[0]


def test_training_and_preparing(capsys: Capture) -> None:
    """A directory may be called anything."""
    evil = (HTML + TERMINAL).replace("/", "")[:100] + "\x1b[31m\x9b\u202e\n"
    write_corpus(Path("corpus"))
    flags = [f"--{name}={value}" for name, value in TINY.items()]
    assert main(["train", *flags, "--dataset=corpus", "--max_iters=2", f"--out_dir={evil}"]) == 0
    said(capsys)
    assert main(["convert", evil, f"{evil}.pt"]) == 0
    Path("notes.txt").write_text("some text\n" * 100)
    assert main(["prepare", "notes.txt", "--tokenizer=bytes", f"--out={evil}-made"]) == 0
    assert main(["prepare", "notes.txt", "--tokenizer=bytes", f"--out={evil}-made"]) == 0
    said(capsys)
