"""Runs commands in this process as if they had been typed: every flag with absurd values, and config files."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
from collections.abc import Callable
from functools import cache
from math import inf
from pathlib import Path
from random import Random

from fuzzing.hostile import NUMBERS, WORDS, spoil
from fuzzing.worker import Wrong

CODES = (0, 2, 130)  # documented exit codes; 141 needs a pipe, and 1 a failing disk or a gate
OF_GATE = (1, 3)
_LINES = (
    *("batch_size = 8", "a = 2**16 // 3", "b = (a, [a, -a])", "max_iters = f'{1}{2}'", "learning_rate = 6e-4 # so"),
    *(
        "if True:\n    n_layer = 3",
        "for i in range(3):\n    n_head = i",
        "dataset = 'a' * 3",
        "x = [1] * 10",
        "import os",
    ),
    *("print('hello')", "n_embd = 768 if n_layer == 3 else 4", "def f():\n    pass", "eval_iters = 10 ** 10 ** 10"),
    *(
        "s = 'a' * 10 ** 9",
        "t = 'x'.join(['a'] * 10)",
        "init_from = 'resume'",
        "n = 1 << 10 ** 6",
        "exec('x')",
        "n = 1 / 0",
    ),
    *(
        "c = (((((1)))))",
        "d = {'a': {1: 2}}",
        "e = -~+1",
        "f = 1j",
        "g = b'x'",
        "h = ...",
        "i = 'é\\ud800'",
        "j = 1 if 1 else 2",
    ),
)


def call(arguments: list[str]) -> None:
    """Run one command in this process; raise Wrong for a printed traceback or an undocumented exit code."""
    from nanopace.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(arguments)
        except SystemExit as asked:  # --help
            code = int(asked.code or 0)
    said = out.getvalue() + err.getvalue()
    if "Traceback (most recent call last)" in said:
        raise Wrong(f"{arguments[0] if arguments else ''} prints a traceback\n{said[-3000:]}")
    if code not in CODES and not (code in OF_GATE and "gate" in arguments):
        raise Wrong(f"{arguments[:1]} exits with code {code}\n{said[-3000:]}")


# --- flags -----------------------------------------------------------------------------------------------------------

_BASES = {
    "explain": ("log.txt",),
    "compare": ("log.txt", "log.txt"),
    "gate": ("log.txt", "log.txt", "--slower=1%"),
    "watch": ("log.txt", "no-second-log"),  # refused after its flags are read: otherwise it would wait for more
    "recommend": ("--gpu=4090",),
    "train": ("config.py", "--max_iters=1", "--no-report"),
    "prepare": ("text/a.txt", "--tokenizer=bytes", "--out=made"),
    "sample": ("out", "--device=cpu", "--num_samples=1", "--max_new_tokens=1"),
    "convert": ("out", "made"),
    "verify": ("out",),
    "cards": (),
    "tune": ("nowhere.py",),  # without an existing config, no trial starts
    "ablate": ("nowhere.py", "config.py"),
}
_AMOUNTS = {  # flags that set the amount of work
    "train": ("_iters", "_interval", "n_layer", "n_embd", "_size", "_steps"),
    "sample": ("--num", "_samples", "--tokens", "_tokens"),
}
_OFTEN = ("explain", "compare", "gate", "recommend", "cards", "tune", "ablate") * 4  # quick ones
_AS_HANDED_OVER = {0: "\x01", 0xD800: "\udc80"}  # the system passes no NUL, and a byte that is not UTF-8 like this
# These use the network, other processes, all of this machine, or a server that runs until Ctrl-C:
_NEVER = ("--download", "--gpus", "--wandb_log", "--auto", "--web", "--open")


@cache
def _flags(command: str) -> tuple[tuple[str, bool], ...]:
    """A command's flags, and whether they take a value."""
    import argparse
    import importlib

    parser = argparse.ArgumentParser(add_help=True)
    importlib.import_module(f"nanopace.cli.commands.{command}").add_arguments(parser)
    flags = [(action.option_strings[-1], action.nargs != 0) for action in parser._actions if action.option_strings]
    return tuple(flag for flag in flags if flag[0] not in _NEVER)


def make_flags(dice: Random) -> bytes:
    command = dice.choice((*_BASES, *_OFTEN))
    arguments = [*_BASES[command]]
    for _ in range(dice.choice((1, 1, 2, 3))):
        flag, valued = dice.choice(_flags(command))
        hostile = dice.choice(NUMBERS if dice.random() < 0.6 else WORDS)
        if flag.endswith(_AMOUNTS.get(command, ())) and _is_much(hostile):
            hostile = "1"  # otherwise it would do all that work
        arguments.append(f"{flag}={hostile}" if valued or dice.random() < 0.1 else flag)
    if dice.random() < 0.1:
        word = dice.choice(WORDS)
        kept = (
            len(_BASES["sample"]) if command == "sample" else int("nowhere.py" in arguments)
        )  # otherwise it would run for long
        word = "." if word == "/" else word  # "/" is the whole disk
        arguments[dice.randrange(kept, len(arguments)) :] = [word]
    if dice.random() < 0.1:
        arguments = ["--lang", dice.choice(("de", "xx", "")), command, *arguments]
        return json.dumps(arguments).encode()
    return json.dumps([command, *arguments]).encode()


def _is_much(value: str) -> bool:
    try:
        return 1 < float(value) < inf
    except ValueError:
        return False


def run_flags(room: Path) -> Callable[[bytes], None]:
    from fuzzing.trees import lay_out
    from fuzzing.world import CANARY, world

    first, here = room / "first", room / "here"
    lay_out(first)
    log = b"".join(b"iter %d: loss 3.5, time %d.00ms, mfu 18.00%%\n" % (n, 100 + n % 3) for n in range(12))
    (first / "log.txt").write_bytes(log)
    shutil.copytree(first, here)

    def check(data: bytes) -> None:
        arguments = json.loads(data)
        os.chdir(here)
        call([word.translate(_AS_HANDED_OVER) for word in arguments])
        if any(word in arguments for word in ("train", "prepare", "convert")) or re.search(
            r"--(html|write|keep)", str(arguments)
        ):
            os.chdir(room)
            if (here / CANARY).read_bytes() != world()[CANARY]:
                raise Wrong(f"{arguments[0]} changed a file that is not its own")
            shutil.rmtree(here, ignore_errors=True)
            shutil.copytree(first, here)

    return check


# --- configs ---------------------------------------------------------------------------------------------------------


def make_config(dice: Random) -> bytes:
    from nanopace.config import KNOBS

    lines = [
        f"{dice.choice(list(KNOBS))} = {dice.choice((*NUMBERS, *map(repr, WORDS)))}" for _ in range(dice.randrange(5))
    ]
    lines += dice.choices(_LINES, k=dice.randrange(1, 5))
    dice.shuffle(lines)
    if dice.random() < 0.02:
        repeated = dice.choice(("{1}", "(", "-", "[", "1+", "a.", "{a!r:{1}}", "not ", "x=", "lambda:", "'a'"))
        lines.append("n = " + dice.choice(("f'%s'", "%s", "(%s1)")) % (repeated * dice.choice((50, 500, 5000))))
    if dice.random() < 0.0005:
        lines.append("n = f'" + "{1}" * 400_000 + "'")
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    return spoil(dice, data) if dice.random() < 0.3 else data


def read_config(data: bytes) -> None:
    from nanopace.config import KNOBS, TrainConfig
    from nanopace.config_text import check_together, read_config_text, read_override
    from nanopace.errors import NanopaceError

    text = data.decode("utf-8", "replace")
    for line in text.split("\n")[:3]:
        with contextlib.suppress(NanopaceError):
            read_override(line)
    found = read_config_text(text, "c.py", to_train=len(data) % 2 == 0)
    given = {knob: value for knob, value in found.items() if knob in KNOBS}
    check_together(given)
    TrainConfig(**given)
