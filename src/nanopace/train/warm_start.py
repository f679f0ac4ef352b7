"""Makes a second start faster than the first: keeps compiled kernels and measurements.

Everything is in the user's cache directory, not in /tmp, which a reboot empties. It is safe to delete at any time.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress
from importlib import import_module

import torch

from nanopace.files import write_durably
from nanopace.hardware.calibration import cache_directory, remembered

_COMPILER = "compiler"  # the thread's name


def keep_compiled() -> None:
    """Let torch and Triton keep their compiled kernels there, unless the user chose another directory."""
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_directory() / "inductor"))
    os.environ.setdefault("TRITON_CACHE_DIR", str(cache_directory() / "triton"))


def begin_to_load_the_compiler() -> None:
    """Import its modules in a thread. It takes seconds; meanwhile the model is initialised, mostly outside Python."""
    threading.Thread(target=_load_the_compiler, name=_COMPILER, daemon=True).start()


def wait_for_the_compiler() -> None:
    """Call before its first use: its modules import each other in a circle, which fails in two threads at once."""
    for thread in threading.enumerate():
        if thread.name == _COMPILER:
            thread.join()


def _load_the_compiler() -> None:
    """Import what torch.compile needs anyway. A torch without these modules imports its own later."""
    with suppress(ImportError):
        import_module("torch._dynamo")
        import_module("torch._inductor.compile_fx")


def keep_the_compiler_out_of_optimizers() -> None:
    """Keep torch's optimizers from importing torch._dynamo. They spend 1.5 s on that only to exclude themselves from
    compilation, and we never compile an optimizer. Call this before the first optimizer is made. If a later torch does
    it differently, this has no effect, and the import is back."""
    if "torch._dynamo" in sys.modules:
        return
    for name in ("add_param_group", "zero_grad", "state_dict", "load_state_dict"):
        plain = getattr(getattr(torch.optim.Optimizer, name, None), "__wrapped__", None)
        if plain is not None:
            plain.__dynamo_disable = plain  # torch/_compile.py looks here first for the function to call
    step = torch.optim.Adam.step
    if getattr(step, "__code__", None) and step.__code__.co_name == "_use_grad":
        # The same, without telling the compiler where to break its graphs. AdamW inherits it.
        torch.optim.Adam.step = torch.no_grad()(step.__wrapped__)  # type: ignore[method-assign, attr-defined]


def recall(topic: str, question: str) -> str | None:
    """The remembered answer; None if there is none, or the file cannot be read."""
    return remembered(topic).get(question)


def remember(topic: str, question: str, answer: str) -> None:
    """Keep an answer for the next start. If that fails, the next start measures again."""
    try:
        cache_directory().mkdir(parents=True, exist_ok=True)
        answers = {**remembered(topic), question: answer}
        write_durably(cache_directory() / f"{topic}.json", json.dumps(answers, indent=1).encode())
    except OSError:
        pass
