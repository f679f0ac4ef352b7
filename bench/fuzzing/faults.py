"""Runs real commands on a failing disk, or kills them: afterwards all files must be intact, and the command continue.

The faults come from faults.c, which is compiled if there is a C compiler; without one, only signals are tested.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fuzzing.trees import lay_out
from fuzzing.worker import Wrong

LAST = 10  # the last saved step: step max_iters is done, too, as in nanoGPT
RESCUE = "rescue"  # a directory whose disk never fails
_LONGEST_S = 150
_TRAIN = ("train", "config.py", f"--max_iters={LAST - 1}", "--eval_interval=3", "--no-report", "--out_dir=under/out")
_COMMANDS = {
    "train": _TRAIN,
    "prepare": ("prepare", "text/a.txt", "--out=under/data", "--tokenizer=bytes"),
    "convert": ("convert", "out", "under/made"),
}
_CALLS = {
    "write": (0, errno.ENOSPC, errno.EIO, errno.EINTR, errno.EDQUOT),
    "fsync": (errno.EIO, errno.ENOSPC),
    "rename": (errno.ENOSPC, errno.EIO, errno.EACCES),
    "open": (errno.ENOSPC, errno.EMFILE, errno.EACCES, errno.EROFS),
    "mmap": (errno.ENOMEM, errno.EIO),
    "ftruncate": (errno.ENOSPC, errno.EIO),
}
_ENDS = {"SIGKILL": (-signal.SIGKILL,), "SIGTERM": (130, -signal.SIGTERM), "SIGINT": (130, -signal.SIGINT)}


def make_fault(dice: random.Random) -> bytes:
    fault: dict[str, object] = {"do": dice.choice(("train", "train", "train", "prepare", "convert"))}
    if dice.random() < 0.25:
        fault |= {"signal": dice.choice(tuple(_ENDS)), "after_ms": dice.randrange(300, 9000)}
    else:
        call = dice.choice((*_CALLS, "write", "fsync", "rename"))
        after = dice.randrange(60 if call in ("write", "open") else 12)
        fault |= {"call": call, "error": dice.choice(_CALLS[call]), "after": after, "times": dice.choice((1, 3, 10**6))}
    if fault["do"] == "train" and dice.random() < 0.5:
        fault["rescue"] = True
    return json.dumps(fault).encode()


def run_faults(room: Path) -> Callable[[bytes], None]:
    first, here, shim = room / "first", room / "here", _compiled(room)
    lay_out(first)

    def check(data: bytes) -> None:
        fault = json.loads(data)
        if shim is None and "call" in fault:
            return
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(first, here)
        (here / "under").mkdir()
        elsewhere = (f"--rescue_dir={here / RESCUE}",) if fault.get("rescue") else ()
        code, said = _run(here, (*_COMMANDS[fault["do"]], *elsewhere), _faulty(here, fault, shim), fault)
        allowed = (0, 1, 2, *_ENDS.get(fault.get("signal", ""), ()))
        if code not in allowed:
            raise Wrong(f"{fault['do']} exits with status {code}\n{fault}\n{said[-3000:]}")
        if elsewhere:
            _after_rescue(here, code, said)
        {"train": _after_train, "prepare": _after_prepare, "convert": _after_convert}[fault["do"]](here, code, said)

    return check


def _compiled(room: Path) -> Path | None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not sys.platform.startswith("linux"):
        print("no C compiler, or not Linux: sending signals only, no failing system calls", file=sys.stderr)
        return None
    shim = room / "faults.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(shim), str(Path(__file__).with_name("faults.c")), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return shim


def _faulty(here: Path, fault: dict[str, object], shim: Path | None) -> dict[str, str]:
    if "call" not in fault:
        return {}
    given = {f"FAULT_{key.upper()}": str(fault[key]) for key in ("call", "error", "after", "times")}
    return given | {"LD_PRELOAD": str(shim), "FAULT_UNDER": str(here / "under")}


def _run(
    here: Path, arguments: tuple[str, ...], more: dict[str, str], fault: dict[str, object] | None = None
) -> tuple[int, str]:
    with (here / "said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "nanopace", *arguments], cwd=here, stdout=said, stderr=said, env=os.environ | more
        )
        try:
            if fault is not None and "signal" in fault:
                time.sleep(float(str(fault["after_ms"])) / 1000)
                process.send_signal(signal.Signals[str(fault["signal"])])
            code = process.wait(_LONGEST_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Wrong(f"{arguments[0]} hangs under {fault}") from None
    text = (here / "said").read_text(errors="replace")
    # If a signal comes before nanopace is imported, the traceback is Python's own.
    if "Traceback (most recent call last)" in text and (fault is None or "signal" not in fault):
        last = text.strip().splitlines()[-1][:120]
        raise Wrong(f"{arguments[0]} prints a traceback: {last}\n{fault}\n{text[-4000:]}")
    return code, text


def _steps(out: Path) -> list[int]:
    """The steps of the checkpoints; raise Wrong unless all are intact."""
    from nanopace.errors import NanopaceError
    from nanopace.train.checkpoint.layout import checkpoint_directories, verified

    try:
        return [verified(directory).step for directory in checkpoint_directories(out)]
    except NanopaceError as error:
        raise Wrong(f"a checkpoint is damaged: {str(error).rpartition(': ')[2]}\n{error}") from None


def _after_train(here: Path, code: int, said: str) -> None:
    steps = _steps(here / "under/out")
    if code == 0 and (not steps or max(steps) != LAST):
        raise Wrong(f"train exits with status 0, but its last step is not saved\ncheckpoints: {steps}\n{said[-3000:]}")
    again = (*_TRAIN, f"--max_iters={LAST}", "--init_from=resume" if steps else "--overwrite=True")
    code, said = _run(here, again, {})
    if code or max(_steps(here / "under/out"), default=0) != LAST + 1:
        raise Wrong(f"train cannot resume after a fault: status {code}\n{said[-3000:]}")


def _after_rescue(here: Path, code: int, said: str) -> None:
    """The rescue disk never fails: a finished run must have its last step there, if not in its own directory."""
    if (
        code == 1
        and f"trained {LAST} steps" in said
        and LAST not in (*_steps(here / RESCUE), *_steps(here / "under/out"))
    ):
        raise Wrong(f"the last step is not in the rescue directory either\n{said[-3000:]}")


def _after_prepare(here: Path, code: int, _: str) -> None:
    from nanopace.corpus.shards.corpus import open_corpus

    if code != 0:
        code, said = _run(here, _COMMANDS["prepare"], {})
        if code:
            raise Wrong(f"prepare cannot resume after a fault: status {code}\n{said[-3000:]}")
    open_corpus(here / "under/data").check(257, 4)
    for split in ("train", "val"):
        name = f"{split}-00000.bin"
        if (here / "under/data" / name).read_bytes() != (here / "data/own" / name).read_bytes():
            raise Wrong(f"prepare wrote different tokens after a fault: {name}")


def _after_convert(here: Path, code: int, _: str) -> None:
    from nanopace.train.formats.convert import open_pretrained

    made = here / "under/made"
    if code != 0 and not made.exists():
        code, said = _run(here, _COMMANDS["convert"], {})
        if code:
            raise Wrong(f"convert fails after a fault: status {code}\n{said[-3000:]}")
    open_pretrained(made)
