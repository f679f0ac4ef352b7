"""Invalid values of every knob, flag and kind of file: a one-line error, exit code 2, and nothing written to disk."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nanopace import config_text
from nanopace.cli.main import COMMANDS, main, make_parser
from nanopace.config import KNOBS, TrainConfig
from nanopace.config_text import read_config
from nanopace.knob import Knob

from ..train.conftest import TINY, write_corpus
from .conftest import training

Refused = Callable[..., str]

HUGE = "9" * 5000  # more digits than Python turns into a number
WRONG: dict[type, tuple[str, ...]] = {
    int: ("", "eight", "1.5", "nan", "inf", "-1", "1e400", HUGE, "None", "(1, 2)", "True", "１２", "2**63", "1+"),
    float: ("", "fast", "nan", "inf", "-inf", "-1", "1e400", HUGE, "None", "True", "(0.1,)", "1j", "٣"),
    bool: ("", "maybe", "1", "nan", "None", "2", "yes"),
    str: (),
}
WRONG_IN_A_FILE: dict[type, tuple[str, ...]] = {
    int: ("'8'", "1.5", "nan", "-1", "1e400", HUGE, "None", "(1, 2)", "[8]", "True", "10**400", "2**63"),
    float: ("'1'", "nan", "float('inf')", "-1", "1e400", "None", "(0.1,)", "True", "1j"),
    bool: ("1", "'True'", "None", "0.0", "[]"),
    str: ("1", "None", "True", "('a',)", "b'a'", r"'a\0b'"),
}
NOT_EMPTY = ("out_dir", "init_from", "dataset", "backend", "device")


@pytest.fixture(autouse=True)
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("train.log").write_text(training(20))
    return tmp_path


@pytest.fixture
def refused(room: Path, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Runs a command that must be refused, and returns its message."""

    def run(*arguments: str) -> str:
        before = _contents(room)
        capsys.readouterr()
        assert main(arguments) == 2, arguments
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("nanopace: ")
        assert err.endswith("\n")
        assert err.rstrip("\n").isprintable(), err  # one line, and no control characters
        assert len(err) < 6000
        assert _contents(room) == before
        return err

    return run


def _contents(directory: Path) -> dict[str, tuple[int, int]]:
    found = (path.lstat() for path in directory.rglob("*"))
    return dict(zip(map(str, directory.rglob("*")), ((each.st_mtime_ns, each.st_size) for each in found), strict=True))


def wrong(knob: Knob, values: dict[type, tuple[str, ...]] = WRONG) -> tuple[str, ...]:
    more = ("nothing-like-it",) if knob.choices else ()
    empty = ("''", "' '") if values is WRONG_IN_A_FILE else ("", " ")
    more = tuple(map(repr, more)) if values is WRONG_IN_A_FILE else more
    least = "-2" if knob.name == "save_interval" else "-1"  # -1: none are saved
    kinds = (least if value == "-1" else value for value in values[type(knob.default)])
    return (*kinds, *more, *(empty if knob.name in NOT_EMPTY else ()))


@pytest.mark.parametrize("knob", KNOBS.values(), ids=lambda knob: knob.name)
def test_every_knob_as_a_flag(knob: Knob, refused: Refused) -> None:
    for value in wrong(knob):
        assert f"--{knob.name}" in refused("train", f"--{knob.name}={value}")
        assert f"--{knob.name}" in refused("train", f"--{knob.name}", value)
    assert "expected one argument" in refused("train", f"--{knob.name}")


@pytest.mark.parametrize("knob", KNOBS.values(), ids=lambda knob: knob.name)
def test_every_knob_in_a_config_file(knob: Knob, refused: Refused) -> None:
    for value in wrong(knob, WRONG_IN_A_FILE):
        Path("config.py").write_text(f"# a comment\n{knob.name} = {value}\n")
        said = refused("train", "config.py")
        assert said.startswith("nanopace: config.py, line 2: ") or (value == HUGE and "config.py" in said)
        assert knob.name in said or value == HUGE


@pytest.mark.parametrize("knob", KNOBS)
def test_the_nearest_name_is_suggested(knob: str, refused: Refused) -> None:
    slip = knob[:1] + knob[2:]
    assert f"did you mean --{knob}?" in refused("train", f"--{slip}=1")
    assert f"did you mean --{knob}?" in refused("train", f"--{slip}", "1")
    Path("config.py").write_text(
        f"weight_decay = 0.1\n\n{slip} = {KNOBS[knob].default!r}\n".replace("weight", "w", knob == "weight_decay")
    )
    assert f"config.py, line 3: unknown setting {slip}; did you mean {knob}?" in refused("train", "config.py")


@pytest.mark.parametrize(
    "text",
    [
        "learning_rates = 3e-4\nlearning_rate = learning_rates * 2",  # used
        "min_learning_rate = 1e-5\nlearning_rate = 1e-3",  # next to the knob itself
        "n_kv_head = 2\nnum_gpus = 8\ntokens = 5\nlr = 1",  # from a fork
    ],
)
def test_a_helper_is_no_slip(text: str) -> None:
    Path("config.py").write_text(text)
    assert read_config("config.py", to_train=True)
    assert read_config("config.py")


def test_a_slip_in_the_config_of_a_log_is_a_fork_s_own_name(capsys: pytest.CaptureFixture[str]) -> None:
    Path("config.py").write_text("n_layers = 12\nn_embeds = 768\n")
    assert main(["explain", "train.log", "--config", "config.py"]) == 0
    assert capsys.readouterr().err == ""


def test_a_value_that_would_fill_the_memory_when_shown(refused: Refused) -> None:
    """Every line doubles the value of the line before."""
    doubling = "\n".join(f"x{n + 1} = (x{n}, x{n})" for n in range(60))
    Path("config.py").write_text(f"x0 = (1, 1)\n{doubling}\nbatch_size = x60\n")
    assert "line 62: batch_size must be int >= 1, not ((" in refused("train", "config.py")


def test_of_a_file_full_of_names_the_first_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing each with every knob would take a minute for a megabyte of them."""
    compared: list[str] = []
    monkeypatch.setattr(config_text, "nearest", lambda name, known, cutoff: compared.append(name))  # noqa: ARG005
    Path("config.py").write_text("".join(f"learning_{number} = 1\n" for number in range(5_000)))
    assert len(read_config("config.py", to_train=True)) == 5_000
    assert len(compared) == 1_000


def test_a_whole_number_where_nanogpt_wants_a_fraction() -> None:
    """nanoGPT fails with an empty AssertionError."""
    config = _train("--learning_rate=1", "--dropout=0", "--min_lr=0", "--max_iters=0")
    assert config == 0


@pytest.mark.parametrize(
    ("flags", "both"),
    [
        (["--n_head=3"], ("n_embd", "n_head")),
        (["--min_lr=1"], ("min_lr", "learning_rate")),
        (["--overwrite=True", "--init_from=resume"], ("overwrite", "init_from")),
        (["--vocab_size=100"], ("vocab_size", "corpus")),
        (["--block_size=1500"], ("block_size", "corpus")),
        (["--n_layer=1000000000"], ("n_layer", "computer")),
        (["--n_embd=2**50"], ("n_embd", "computer")),
        (["--vocab_size=2**62"], ("vocab_size", "computer")),
        (["--block_size=2**62"], ("block_size", "computer")),
        (["--batch_size=2**62"], ("batch_size", "computer")),
        (["--gradient_accumulation_steps=2**62"], ("gradient_accumulation_steps", "computer")),
        (["--device=tpu"], ("device", "cuda")),
        (["--backend=nonsense"], ("backend", "gloo")),
        (["--init_from=nowhere.pt"], ("init_from", "nowhere.pt")),
        (["--init_from=resume", "--out_dir=nowhere"], ("init_from", "nowhere")),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("from_file", [False, True])
def test_what_cannot_be_together(flags: list[str], both: tuple[str, str], from_file: bool, refused: Refused) -> None:
    write_corpus(Path("corpus"))
    Path("config.py").write_text("")
    said = refused("train", *(["config.py"] if from_file else []), *_tiny(), *flags)
    assert all(name in said for name in both)


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        ["--warmup_iters=2000", "--eval_interval=100000", "--dtype=bfloat16", "--wandb_project=", "--wandb_run_name="],
        ["--warmup_iters=20", "--lr_decay_iters=10", "--dtype=float16", "--always_save_checkpoint=False"],
        ["--warmup_iters=1", "--lr_decay_iters=1", "--always_save_checkpoint=False", "--save_interval=1"],
        ["--seed=2**62", "--keep_last=2**62", "--eval_iters=2**40", "--log_interval=2**62"],
        ["--decay_lr=False", "--min_lr=1", "--eval_only=True"],
    ],
    ids=" ".join,
)
def test_what_nanogpt_trains_with_is_not_refused(flags: list[str]) -> None:
    assert _train(*flags) == 0


def _tiny() -> list[str]:
    return [*(f"--{name}={value}" for name, value in TINY.items()), "--max_iters=2", "--dataset=corpus", "--no-report"]


def _train(*flags: str) -> int:
    write_corpus(Path("corpus"))
    return main(["train", *_tiny(), *flags])


# --- the flags of every command --------------------------------------------------------------------------------------

NEEDED = {
    "explain": ["train.log"],
    "compare": ["train.log", "train.log"],
    "train": [],
    "recommend": ["--gpu=4070"],
    "ablate": ["nothing-here", "nothing-here"],
    "cards": [],
    "doctor": [],
    "gate": ["train.log", "train.log", "--slower=1%"],
    "profile": ["--trace=trace.json"],
    "export": ["train.log", "--to=csv"],
    "convert": ["nothing-here", "written.pt"],
}  # else: no such file
# "": just wrong
ANY_TEXT = (
    *("start", "model", "gpu", "text_field", "name", "out", "html", "config", "set", "tokenizer", "write", "keep"),
    "project",
)


def _actions(command: str) -> Iterator[argparse.Action]:
    parser, _ = make_parser(command)
    yield from (action for action in parser._actions if action.option_strings and action.dest not in ("help", *KNOBS))


FLAGS = [(command, action.option_strings[-1]) for command in COMMANDS for action in _actions(command)]


@pytest.mark.parametrize(("command", "flag"), FLAGS, ids=lambda each: each)
def test_every_flag_of_every_command(command: str, flag: str, refused: Refused) -> None:
    action = next(each for each in _actions(command) if flag in each.option_strings)
    needed = NEEDED.get(command, ["nothing-here"])
    if action.nargs == 0:
        assert "ignored explicit argument" in refused(command, *needed, f"{flag}=1")
        return
    assert "expected one argument" in refused(command, *needed, flag)
    values = [] if action.dest in ANY_TEXT else ["x", "nan", "-1", "0.0.0", "1e400", HUGE, "None", "٣x"]
    values += [] if action.dest == "start" else [""]
    for value in values:
        assert flag in refused(command, *needed, f"{flag}={value}")


@pytest.mark.parametrize(("command", "flag"), [each for each in FLAGS if len(each[1]) > 6])
def test_a_flag_with_a_letter_too_few(command: str, flag: str, refused: Refused) -> None:
    slip = flag[:3] + flag[4:]
    assert f"did you mean {flag}?" in refused(command, *NEEDED.get(command, ["nothing-here"]), f"{slip}=1")


@pytest.mark.parametrize(
    "arguments",
    [
        ["prepare", "notes.txt", "--name=../elsewhere"],
        ["prepare", "notes.txt", "--name=/elsewhere"],
        ["prepare", "notes.txt", "--name=.."],
        ["prepare", "notes.txt", "--val_fraction=1"],
        ["prepare", "notes.txt", "--tokenizer=bpe", "--vocab_size=99999999999"],
        ["prepare", "notes.txt", "--tokenizer=bpe", "--vocab_size=2"],
        ["prepare", "notes.txt", "--tokenizer=bytes", "--vocab_size=300"],
        ["prepare", "notes.txt", "--files=1"],
        ["sample", "notes.txt", "--temperature=inf"],
        ["explain", "train.log", "--html=train.log"],
        ["explain", "train.log", "--gpu=Voodoo 2"],
        ["explain", "train.log", "--set=batch_size=0"],
        ["compare", "train.log", "train.log", "--gpu=C=4070"],
        ["train", "--gpus=0"],
        ["train", f"--gpus={HUGE}"],
        ["cards", "Voodoo 2"],
        ["recommend", "--gpu=4070", "--write=train.log"],
        ["recommend", "--gpu=4070", "--model=n_layer=1e9,n_head=1,n_embd=1"],
        ["recommend", "--gpu=4070", "--dataset=\x1b[31m"],
        ["recommend", f"--memory={HUGE}", "--peak-tflops=1"],
    ],
    ids=" ".join,
)
def test_values_that_only_one_command_knows(arguments: list[str], refused: Refused) -> None:
    Path("notes.txt").write_text("some text\n" * 50)
    refused(*arguments)


# --- files -----------------------------------------------------------------------------------------------------------

READERS = {
    "explain": ["explain", "{}"],
    "compare": ["compare", "{}", "train.log"],
    "compare second": ["compare", "train.log", "{}"],
    "explain --config": ["explain", "train.log", "--config={}"],
    "train": ["train", "{}"],
    "train --init_from": ["train", "--init_from={}", "--device=cpu", "--dataset=corpus"],
    "train --dataset": ["train", "--dataset={}", "--device=cpu"],
    "prepare": ["prepare", "{}", "--tokenizer=bytes"],
    "sample": ["sample", "{}"],
    "sample --prompt": ["sample", "nothing-here", "--prompt=FILE:{}"],
    "sample --tokenizer": ["sample", "nothing-here", "--tokenizer={}"],
    "convert": ["convert", "{}", "written.pt"],
}
ODD = {
    "missing": "nothing-here",
    "empty name": "",
    "long": "x" * 5000,
    "control characters": "a\nb\x1b[31m\x9b2J\u202e",
    "not UTF-8": "\udcff\udcfe",
    "directory": "folder",
    "empty": "empty",
    "binary": "binary",
    "unreadable": "/proc/self/mem",
}
FINE = {("explain --config", "empty"), ("train", "empty")}  # a config that changes nothing


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("reader", READERS)
def test_every_command_and_a_file_that_it_cannot_read(reader: str, odd: str, refused: Refused) -> None:
    Path("folder").mkdir()
    Path("empty").touch()
    Path("binary").write_bytes(bytes(range(256)) * 20)
    write_corpus(Path("corpus"))
    if (reader, odd) in FINE:
        return
    refused(*(part.format(ODD[odd]) for part in READERS[reader]))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("reader", READERS)
def test_a_file_without_permission(reader: str, refused: Refused) -> None:
    write_corpus(Path("corpus"))
    Path("locked").write_text("iter 0: loss 1.0, time 1.00ms\n")
    Path("locked").chmod(0)
    with contextlib.ExitStack() as stack:
        stack.callback(Path("locked").chmod, 0o600)
        refused(*(part.format("locked") for part in READERS[reader]))


def test_what_a_checkpoint_says_of_its_knobs_is_checked_too() -> None:
    """JSON and pickles can hold numbers that do not fit in a float."""
    assert KNOBS["learning_rate"].fitted(10**400) is None
    assert KNOBS["batch_size"].fitted(1e300) is None
    assert KNOBS["batch_size"].fitted(1 << 63) is None
    assert TrainConfig(batch_size=(1 << 63) - 1).batch_size == (1 << 63) - 1
