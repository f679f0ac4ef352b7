"""The command line as a whole: help, exit codes, one line per error, and what it must not import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nanopace.cli import main as main_module
from nanopace.cli.main import COMMANDS, main
from nanopace.config import KNOBS
from nanopace.version import __version__
from nanopace.wording.numbers import LANGUAGES

from .refused import refused

COMMAND = [sys.executable, "-m", "nanopace"]


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert all(f" {name} {about} " in shown for name, about in COMMANDS.items())


def test_no_command_is_a_question_for_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "commands:" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"nanopace {__version__}\n"


@pytest.mark.parametrize("flag", ["--gpu", "--config", "--set", "--html", "--pattern"])
def test_dashes_are_no_value(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    """argparse takes them for the end of all flags, even after an equals sign."""
    assert f"argument {flag}: expected one argument" in refused(capsys, "explain", "some.log", f"{flag}=--")


# Besides --help, which all of them have. A bare -- precedes a command to start.
OF_LOGS = "co2 config gpu html json lang no-color open pattern price set stage verbose width"
OPTIONS = {
    "train": " ".join(("auto config download gpus lang log_to no-report", *KNOBS)),
    "prepare": "files lang name out restart shard_tokens text_field tokenizer val_fraction vocab_size",
    "sample": "compile device download dtype init_from lang max_new_tokens model no-cache num num_samples out_dir "
    "prompt seed start temperature tokenizer top_k top_p which",
    "convert": "force lang to which",
    "explain": OF_LOGS,
    "compare": OF_LOGS,
    "gate": "config gpu json lang max-overhead max-step-ratio min-mfu pattern set slower stage",
    "watch": "-- config gpu host lang log no-color notify open pattern port price quiet set silent web webhook",
    "recommend": "batch co2 dataset gpu json lang memory model no-color overwrite peak-tflops price tokens width write",
    "tune": "budget json keep lang no-color overwrite width write",
    "ablate": "html json keep lang loss no-color orders repeats steps timeout together try width",
    "verify": "lang which",
    "cards": "lang",
    "completion": "",
    "profile": " ".join(("auto config lang no-color skip steps trace width", *KNOBS)),
    "export": "config lang out project set stage to",
    "doctor": "lang out_dir",
}


@pytest.mark.parametrize("command", list(COMMANDS))
def test_the_options_are_frozen(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Scripts rely on them: a new one is added here, and a removal is announced first."""
    with pytest.raises(SystemExit):
        main([command, "--help"])
    words = capsys.readouterr().out.replace("=", " ").replace("[", " ").replace("]", " ").replace(",", " ").split()
    shown = {word[2:] or word for word in words if word.startswith("--")} - {"help"}
    assert shown == {*OPTIONS[command].split()}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explian"], 'unknown command "explian"; did you mean explain?'),
        (["frobnicate"], f'unknown command "frobnicate"; the commands are {", ".join(COMMANDS)}'),
        (["explain"], "the following arguments are required: LOG (nanopace explain --help)"),
        (["explain", "--frobnicate", "x"], "unrecognized arguments: --frobnicate (nanopace explain --help)"),
        (["train", "--batch_sise=8"], "unrecognized arguments: --batch_sise=8; did you mean --batch_size? (nanopace"),
        (["train", "--batch_size=eight"], "--batch_size: must be int >= 1, not 'eight'"),
        (["explain", "x", "--width", "0"], "argument --width: invalid number of columns: '0'"),
        (["--lang", "tlh", "explain", "x"], "--lang tlh: unknown language; choose from en, de, fr, es"),
        (["explain", "x", "--lang"], "argument --lang: expected one argument"),
        (["explain", "x", "--lan", "de"], "unrecognized arguments: --lan"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, *arguments).startswith(said)


def test_a_log_in_place_of_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "train.log"
    log.touch()
    assert f"try: nanopace explain {log}" in refused(capsys, str(log))


def test_control_c_is_silent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(main_module, "_dispatch", interrupted)
    assert main(["explain", "x"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_reader_that_leaves_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run([*COMMAND, "cards"], stdout=pipe, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (141, b"")


def test_help_names_every_language(capsys: pytest.CaptureFixture[str]) -> None:
    """In both texts: the command's own text cannot import the list."""
    for arguments in ([], ["explain"]):
        with pytest.raises(SystemExit):
            main([*arguments, "--help"])
        assert f"{', '.join(LANGUAGES[:-1])} or {LANGUAGES[-1]}" in capsys.readouterr().out


def test_help_imports_nothing_that_is_slow() -> None:
    """Modules that --help must not import: they would delay every answer."""
    probe = """
import sys
from nanopace.cli.main import main
try:
    main(["--help"])
except SystemExit:
    pass
slow = {"rich", "jinja2", "numpy", "torch", "zstandard", "dataclasses", "inspect", "csv", "ast", "json"}
rooms = {f"nanopace.{room}" for room in ("sources", "diagnosis", "views", "wording", "hardware", "config", "api")}
print(sorted((slow | rooms) & set(sys.modules)), file=sys.stderr)
"""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}  # it imports, too
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, env=bare)
    assert done.stderr == "[]\n"
