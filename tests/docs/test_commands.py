"""Every command in README and docs works: it is run if that is quick, and otherwise at least parsed.

A `sh` block holds commands, one per line; a `console` block holds a command with its output, which test_outputs.py
runs; a `bash` block is a script to copy. Commands that are only parsed, or not even that, are listed here with the
reason, and a reason that no command needs any more is an error.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nanopace.cli.main import COMMANDS, make_parser, make_top_parser
from nanopace.cli.main import main as nanopace
from nanopace.cli.ordered_flags import spelled_out
from nanopace.clock.clock import Clock
from nanopace.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LABELS = {"sh", "bash", "console", "text", "log", "python", "json", "toml"}

PARSED = {
    "ablate": "trains for minutes",
    "convert": "needs a checkpoint: tests/cli/commands/test_convert.py",
    "doctor": "compiles for seconds: tests/cli/commands/test_doctor.py",
    "prepare": "downloads or takes minutes: tests/cli/commands/test_prepare.py",
    "profile": "trains: tests/cli/commands/test_profile.py",
    "sample": "needs a checkpoint: tests/cli/commands/test_sample.py",
    "train": "trains for hours: tests/cli/commands/test_train.py",
    "tune": "trains for minutes",
    "verify": "needs a checkpoint: tests/cli/commands/test_verify.py",
    "watch": "goes on until the run ends: tests/cli/test_watch.py",
}
OTHERS = {
    "hf": "needs a network",
    "pip": "needs a network",
    "pipx": "needs a network",
    "uvx": "needs a network",
}

_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`(nanopace(?: [^`\n]+)?)`(?!`)")


def blocks(page: Path, label: str) -> list[str]:
    return [text for _, kind, text in _FENCE.findall(page.read_text(encoding="utf-8")) if (kind or "sh") == label]


def commands() -> list[tuple[str, str]]:
    """(page, command) for every line in a `sh` block, without its comment."""
    found = []
    for page in PAGES:
        for block in blocks(page, "sh"):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words:
                    found.append((str(page.relative_to(ROOT)), re.sub(r"\s+#\s.*$", "", line).strip()))
    return list(dict.fromkeys(found))


COMMANDS_SHOWN = commands()


def last_of(command: str) -> list[str]:
    """The words of the last program in a pipe, which is ours."""
    words = shlex.split(command)
    return words[len(words) - words[::-1].index("|") :] if "|" in words else words


def parse(words: list[str]) -> argparse.Namespace | None:
    """Our own parser's result for a command line; None if it only shows help."""
    try:
        top = make_top_parser().parse(words)
        if top.command is None:
            return None
        assert top.command in COMMANDS, f"{top.command}: no such command"
        parser, command = make_parser(top.command)
        flag = getattr(command, "WORDS_ARE", None)
        return parser.parse([*spelled_out(top.rest, flag, parser)] if flag else top.rest)
    except SystemExit:  # --help, --version
        return None


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files named in the commands."""
    place = tmp_path_factory.mktemp("docs")
    shutil.copytree(ROOT / "examples", place / "examples")
    shutil.copytree(ROOT / "configs", place / "configs")
    (place / "config").mkdir()
    for name, example in {
        **dict.fromkeys(("train.log", "new.log", "base.log", "a.log"), "slow-rows.log"),
        **dict.fromkeys(("b.log", "c.log"), "narrow.log"),
        **dict.fromkeys(("a.py", "config/a.py"), "narrow.py"),
        **dict.fromkeys(("b.py", "config/b.py", "config.py"), "wide.py"),
    }.items():
        shutil.copy(place / "examples" / example, place / name)
    rows = (f"step {i} | loss {5 - i / 100:.3f} | dt {101 + i % 3}.50ms | time {0.1015:.4f}\n" for i in range(60))
    (place / "my.log").write_text("".join(rows) + "eval at step 50: val loss 4.4\n")
    lines = (
        "2026-01-02 10:00:{0:02d}.5 INFO [step={0}/90]",
        "    train/CrossEntropyLoss=3.5",
        "    throughput/device/batches_per_second=0.5",
    )
    (place / "olmo.log").write_text("".join(f"{line.format(step)}\n" for step in range(1, 60) for line in lines))
    (place / "train.log.gz").write_bytes(gzip.compress((place / "train.log").read_bytes()))
    shutil.copy(ROOT / "tests" / "trace" / "naive.json.gz", place / "trace.json.gz")
    for out in ("out", "out-gpt2"):
        with Clock(place / out, config={"batch_size": 8}, tokens_per_iteration=8192) as clock:
            for _ in range(40):
                with clock.step() as step:
                    step.loss = 3.0
    return place


@pytest.mark.parametrize(("page", "command"), COMMANDS_SHOWN, ids=[f"{page}: {line}" for page, line in COMMANDS_SHOWN])
def test_a_command(page: str, command: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = last_of(command)
    program = words[0]
    if program == "torchrun":
        words = words[words.index("nanopace") :]
        program = "nanopace"
    if program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert [word for word in words[1:] if "=" not in word and word not in targets] == []
    elif program in ("python", ".venv/bin/pytest"):
        assert (ROOT / next(word for word in words[1:] if "/" in word)).exists()
    elif program != "nanopace":
        assert program in OTHERS, f"{page}: add {program} to OTHERS, with the reason"
    elif len(words) > 1 and words[1] in PARSED:
        assert parse(words[1:])
    else:
        monkeypatch.chdir(place)
        monkeypatch.setenv("LC_ALL", "C")
        if "--write" in words:
            Path(words[words.index("--write") + 1]).unlink(missing_ok=True)
        if "|" in shlex.split(command):
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            done = subprocess.run(command, shell=True, env={**os.environ, "PATH": path}, capture_output=True)
            assert done.returncode == 0, done.stderr
        else:
            assert nanopace(words[1:]) in ((0, 1, 3) if words[1] == "gate" else (0,))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_the_text_are_understood(page: Path) -> None:
    for command in _INLINE.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        words = shlex.split(re.sub(r" (\.\.\.|…)", "", command).replace(" | ", " ").replace("\\|", "|"))[1:]
        if words and words[0] in COMMANDS:
            try:
                parse(words)
            except UsageError as error:  # a text may leave out what everybody knows
                if not re.search(r"required|expected one argument", str(error)):
                    raise
        elif words:
            assert words[0] in ("--help", "--version", "--lang", "COMMAND"), command


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "README.md"], ids=lambda page: page.name)
def test_every_block_says_what_it_is(page: Path) -> None:
    assert {kind for _, kind, _ in _FENCE.findall(page.read_text(encoding="utf-8"))} <= LABELS


@pytest.mark.parametrize("page", ["README.md", "docs/api.md"])
def test_python_runs(page: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    for block in blocks(ROOT / page, "python"):
        exec(compile(block, page, "exec"), {})  # noqa: S102


def test_scripts_are_shell() -> None:
    scripts = [script for page in PAGES for script in blocks(page, "bash")]
    assert scripts
    for script in scripts:
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_no_reason_is_left_over() -> None:
    used = [last_of(command) for _, command in COMMANDS_SHOWN]
    assert set(PARSED) <= {words[1] for words in used if words[0] == "nanopace" and len(words) > 1}
    assert set(OTHERS) <= {words[0] for words in used}
