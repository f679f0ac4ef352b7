"""Checkpoints that training hardly notices.

`save` begins to copy weights and averages into pinned memory, on a stream of its own, while the next step already runs.
Only the optimizer changes them, so only it waits, on the card, and only if the copy is not done yet
(`before_update`). A thread then writes the bytes to the disk.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nanopace.corpus.durable import write_durably
from nanopace.corpus.tokenizer import Tokenizer
from nanopace.train.checkpoint_files import (
    MODEL,
    OPTIMIZER,
    checkpoint_directories,
    remove_checkpoint,
    step_of,
    write_checkpoint,
)
from nanopace.train.optimizer import optimizer_tensors
from nanopace.train.tensor_file import TensorFile

BEST = "best.json"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a save."""

    step: int
    path: Path
    background_ms: float
    bytes: int = 0
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    step: int
    state: Mapping[str, Any]
    staged: torch.cuda.Event | None
    began: float


class Checkpointer:
    """Saves one model and its optimizer, again and again, into out_dir/checkpoints."""

    def __init__(
        self,
        out_dir: Path,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        tokenizer: Tokenizer | None,
        keep_last: int,
        device: torch.device,
    ) -> None:
        self._out_dir, self._tokenizer, self._keep_last, self._device = out_dir, tokenizer, keep_last, device
        self._sources: dict[str, Mapping[str, Tensor]] = {
            MODEL: dict(model.named_parameters()),
            OPTIMIZER: optimizer_tensors(model, optimizer),
        }
        self._files: dict[str, TensorFile] = {}
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._staged: torch.cuda.Event | None = None
        self._jobs: queue.Queue[_Job | None] = queue.Queue()
        self._results: queue.Queue[Result] = queue.Queue()
        self._idle = threading.Event()  # memory is there, and nothing is being written from it
        self._thread = threading.Thread(target=self._write_jobs, name="checkpoints", daemon=True)
        self._thread.start()

    @torch.no_grad()
    def save(self, step: int, state: Mapping[str, Any]) -> None:
        """Begin. Waits only where the checkpoint before is still being written."""
        self._idle.wait()
        self._idle.clear()
        began = time.monotonic()
        if self._stream is None:
            self._stage()
        else:
            self._stream.wait_stream(torch.cuda.current_stream(self._device))
            with torch.cuda.stream(self._stream):
                self._stage()
                self._staged = torch.cuda.Event()
                self._staged.record()
        self._jobs.put(_Job(step, state, self._staged, began))

    def before_update(self) -> bool:
        """Call before the weights change. Whether a copy was still to be waited for, which the card does by itself."""
        staged, self._staged = self._staged, None
        if staged is None or staged.query():
            return False
        torch.cuda.current_stream(self._device).wait_event(staged)
        return True

    def results(self) -> list[Result]:
        """Of the saves that ended since this was last asked."""
        ended = []
        while not self._results.empty():
            ended.append(self._results.get())
        return ended

    def mark_best(self, step: int, loss: float) -> None:
        """This one stays, whatever comes after it, until another is better."""
        write_best(self._out_dir, step, loss)

    def close(self) -> None:
        """Wait until everything is written."""
        self._jobs.put(None)
        self._thread.join()

    def _stage(self) -> None:
        for name, file in self._files.items():
            file.stage(self._sources[name])

    def _write_jobs(self) -> None:
        """The thread. Pinning gigabytes takes seconds, so it begins with that, while the model is still compiled."""
        pinned = self._device.type == "cuda"
        self._files = {name: TensorFile(tensors, pinned=pinned) for name, tensors in self._sources.items()}
        self._idle.set()
        while (job := self._jobs.get()) is not None:
            path = self._out_dir / "checkpoints" / f"step-{job.step:08d}"
            try:
                if job.staged is not None:
                    job.staged.synchronize()
                size = write_checkpoint(path, self._files, job.state, self._tokenizer)
                self._prune()
                self._results.put(Result(job.step, path, (time.monotonic() - job.began) * 1000, size))
            except OSError as error:
                reason = error.strerror or str(error)
                self._results.put(Result(job.step, path, (time.monotonic() - job.began) * 1000, failure=reason))
            finally:
                self._idle.set()

    def _prune(self) -> None:
        best = read_best(self._out_dir)
        for directory in checkpoint_directories(self._out_dir)[self._keep_last :]:
            if best is None or step_of(directory.name) != best[0]:
                remove_checkpoint(directory)


def write_best(out_dir: Path, step: int, loss: float) -> None:
    write_durably(out_dir / BEST, json.dumps({"step": step, "val": loss}).encode("ascii") + b"\n")


def read_best(out_dir: Path) -> tuple[int, float] | None:
    """The step of the best checkpoint and its validation loss."""
    try:
        best = json.loads((out_dir / BEST).read_text(encoding="ascii"))
        return int(best["step"]), float(best["val"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
