"""Makes a second start faster than the first: keeps compiled kernels and measurements.

Everything is in the user's cache directory, not in /tmp, which a reboot empties. It may be removed at any time.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import torch

from nanopace.files import write_durably
from nanopace.hardware.calibration import cache_directory

_COMPILER = "compiler"  # the thread's name
_LARGEST_FILE = 1 << 20  # bytes: some hundred answers


def keep_compiled() -> None:
    """Have torch and Triton keep their compiled kernels there, unless somebody chose a place."""
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_directory() / "inductor"))
    os.environ.setdefault("TRITON_CACHE_DIR", str(cache_directory() / "triton"))


def begin_to_load_the_compiler() -> None:
    """Its modules take seconds to import; meanwhile the model is drawn and attention tried, mostly outside Python."""
    threading.Thread(target=_load_the_compiler, name=_COMPILER, daemon=True).start()


def wait_for_the_compiler() -> None:
    """Before the first use of it: its modules import each other in a circle, which two threads at once run into."""
    for thread in threading.enumerate():
        if thread.name == _COMPILER:
            thread.join()


def _load_the_compiler() -> None:
    """What torch.compile will import anyway. Where a torch has other modules, it imports them when it needs them."""
    with suppress(ImportError):
        import_module("torch._dynamo")
        import_module("torch._inductor.compile_fx")


def keep_the_compiler_out_of_optimizers() -> None:
    """torch's optimizers import torch._dynamo, 1.5 s of Python, only to tell it to stay away from them. What we compile
    is a model and never an optimizer, so nobody misses it. To be called before the first optimizer is made. Should
    torch do it in another way one day, nothing here takes effect, and the import is back."""
    if "torch._dynamo" in sys.modules:
        return
    for name in ("add_param_group", "zero_grad", "state_dict", "load_state_dict"):
        plain = getattr(getattr(torch.optim.Optimizer, name, None), "__wrapped__", None)
        if plain is not None:
            plain.__dynamo_disable = plain  # who is to be called instead: torch/_compile.py asks that first
    step = torch.optim.Adam.step
    if getattr(step, "__code__", None) and step.__code__.co_name == "_use_grad":
        # What that does, but for telling the compiler where to break its graphs. AdamW inherits it.
        torch.optim.Adam.step = torch.no_grad()(step.__wrapped__)  # type: ignore[method-assign, attr-defined]


def recall(topic: str, question: str) -> str | None:
    """The remembered answer; None if there is none, or the file cannot be read."""
    return _answers(topic).get(question)


def remember(topic: str, question: str, answer: str) -> None:
    """Keep an answer for the next start. If that fails, the next start measures again."""
    try:
        cache_directory().mkdir(parents=True, exist_ok=True)
        answers = {**_answers(topic), question: answer}
        write_durably(_file(topic), json.dumps(answers, indent=1).encode())
    except OSError:
        pass


def _answers(topic: str) -> dict[str, str]:
    try:
        with open(_file(topic), "rb") as file:
            answers = json.loads(file.read(_LARGEST_FILE))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(answers, dict):
        return {}
    return {question: answer for question, answer in answers.items() if isinstance(answer, str)}


def _file(topic: str) -> Path:
    return cache_directory() / f"{topic}.json"
