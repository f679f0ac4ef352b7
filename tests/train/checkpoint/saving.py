"""A checkpointer with a tiny model and no training."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from nanopace.corpus.tokenizers.tokenizer import bytes_tokenizer
from nanopace.train.checkpoint import saver as module
from nanopace.train.checkpoint.layout import checkpoint_directories, step_of
from nanopace.train.checkpoint.lock import Claim
from nanopace.train.checkpoint.saver import Checkpointer, SaveResult
from nanopace.train.checkpoint.write import describe
from nanopace.train.models.gpt2 import GPT
from nanopace.train.warm_start import keep_the_compiler_out_of_optimizers

from .checkpoints import SHAPE


class Saving:
    """A model that has taken one step, and its checkpointer. Nothing here waits forever."""

    def __init__(self, claim: Any, keep_last: int = 1, device: str = "cpu") -> None:
        keep_the_compiler_out_of_optimizers()
        torch.manual_seed(0)
        self.model = GPT(SHAPE)
        optimizer = torch.optim.AdamW(self.model.parameters())
        for each in self.model.parameters():
            each.grad = torch.ones_like(each)
        optimizer.step()
        self.saver = Checkpointer(
            claim,
            self.model,
            optimizer,
            tokenizer=bytes_tokenizer(),
            keep_last=keep_last,
            device=torch.device(device),
        )

    def save(self, *steps: int, best: float | None = None) -> None:
        for step in steps:
            state = describe(SHAPE, step=step, config={}, tokenizer=bytes_tokenizer()) | {"best": None}
            promptly(lambda step=step, state=state: self.saver.save(step, state))
            if best is not None:
                self.saver.mark_best(step, best)

    def close(self) -> list[SaveResult]:
        promptly(self.saver.close)
        return self.saver.results()


def promptly(do: Callable[[], object]) -> None:
    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), "it waits for ever"


@contextmanager
def saving(out: Path, keep_last: int = 1) -> Iterator[Saving]:
    out.mkdir(exist_ok=True)
    with Claim(out) as claim:
        claim.take()
        yield Saving(claim, keep_last)


def steps(out: Path) -> list[int]:
    return sorted(step_of(each.name) for each in checkpoint_directories(out))


def full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


@contextmanager
def clock(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(module.time, "monotonic", iter(seconds).__next__)
        yield
