"""Checkpoints that training hardly notices.

`save` begins to copy weights and averages into pinned memory, on a stream of its own, while the next step already runs.
Only the optimizer changes them, so only it waits, on the card, and only if the copy is not done yet
(`before_update`). A thread then writes the bytes to the disk.

Whatever the disk does, training goes on: a save that failed is a `Result` with its reason, the next one tries again,
and nothing is removed before enough others are known to be whole.
"""

from __future__ import annotations

import json
import math
import queue
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nanopace.corpus.tokenizer import Tokenizer
from nanopace.errors import InputError
from nanopace.files import read_object, write_durably
from nanopace.train.checkpoint_files import MODEL, OPTIMIZER, checkpoint_directories, step_of, verified
from nanopace.train.checkpoint_writing import remove_checkpoint, write_checkpoint
from nanopace.train.optimizer import optimizer_tensors
from nanopace.train.tensor_file import TensorFile

BEST = "best.json"

_LARGEST_BEST = 1 << 16  # bytes


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


@dataclass(frozen=True, slots=True)
class _Best:
    """To be written down behind the checkpoint of its step, once that is whole."""

    step: int
    loss: float


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
        self._best = read_best(out_dir)
        self._best_written = True
        self._whole: set[int] = set()  # the steps whose checkpoints are known to be
        self._newest = 0  # the last step that was written
        self._no_memory: str | None = None
        self._jobs: queue.Queue[_Job | _Best | None] = queue.Queue()
        self._results: queue.Queue[Result] = queue.Queue()
        self._idle = threading.Event()  # memory is there, and nothing is being written from it
        self._thread = threading.Thread(target=self._write_jobs, name="checkpoints", daemon=True)
        self._thread.start()

    @torch.no_grad()
    def save(self, step: int, state: Mapping[str, Any]) -> None:
        """Begin. Waits only where the checkpoint before is still being written."""
        self._idle.wait()
        began = time.monotonic()
        if self._no_memory is not None:
            self._prepare()  # there may be some by now
        if self._no_memory is not None:
            self._results.put(Result(step, self._path(step), 0.0, failure=self._no_memory))
            return
        self._idle.clear()
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
        self._jobs.put(_Best(step, loss))

    def close(self) -> None:
        """Wait until everything is written."""
        self._jobs.put(None)
        self._thread.join()

    # --- what is copied and written; sharded.py does it in another way ---------------------------------------------

    def _allocate(self) -> None:
        """Memory to copy into, in the thread: pinning gigabytes takes seconds."""
        pinned = self._device.type == "cuda"
        self._files = {name: TensorFile(tensors, pinned=pinned) for name, tensors in self._sources.items()}

    def _stage(self) -> None:
        for name, file in self._files.items():
            file.stage(self._sources[name])

    def _write(self, path: Path, state: Mapping[str, Any]) -> int:
        """Returns its bytes."""
        return write_checkpoint(path, self._files, state, self._tokenizer)

    # --- the thread --------------------------------------------------------------------------------------------------

    def _write_jobs(self) -> None:
        """It begins to allocate while the model is still compiled."""
        self._prepare()
        self._idle.set()
        while (job := self._jobs.get()) is not None:
            if isinstance(job, _Best):
                self._keep_best(job)
            else:
                self._results.put(self._result(job))
                self._idle.set()
        with suppress(OSError):
            self._prune()  # a process that was killed between writing and pruning may have left some too many

    def _prepare(self) -> None:
        try:
            self._allocate()
            self._no_memory = None
        except (MemoryError, RuntimeError) as error:
            self._no_memory = _reason(error)

    def _result(self, job: _Job) -> Result:
        path = self._path(job.step)
        try:
            if job.staged is not None:
                job.staged.synchronize()
            size = self._write(path, job.state)
        except Exception as error:  # whatever it is: a thread that has died would save nothing ever after
            return Result(job.step, path, (time.monotonic() - job.began) * 1000, failure=_reason(error))
        self._newest = job.step
        self._whole.add(job.step)
        with suppress(OSError):  # then there is one too many, until the next save
            self._prune()
        if not self._best_written:
            self._write_best()
        return Result(job.step, path, (time.monotonic() - job.began) * 1000, size)

    def _keep_best(self, job: _Best) -> None:
        if self._path(job.step).is_dir():  # else it could not be saved, and the best is still the one before
            self._best = job.step, job.loss
            self._write_best()

    def _write_best(self) -> None:
        assert self._best is not None
        try:
            write_best(self._out_dir, *self._best)
            self._best_written = True
        except Exception as error:  # as above
            self._best_written = False
            self._results.put(Result(self._best[0], self._out_dir / BEST, 0.0, failure=_reason(error)))

    def _prune(self) -> None:
        """Remove the older ones, behind as many whole ones as shall be kept.

        Those of later steps are of a past that training has left: had they been whole, it would have gone on from
        them. They are not counted, and are replaced when training gets there.
        """
        kept = 0
        for directory in checkpoint_directories(self._out_dir):
            step = step_of(directory.name)
            if step > self._newest and not (self._newest == 0 and self._is_whole(directory)):
                continue
            if kept < self._keep_last:
                kept += self._is_whole(directory)
            elif self._best is None or step != self._best[0]:
                remove_checkpoint(directory)

    def _is_whole(self, directory: Path) -> bool:
        """One of an earlier process is read, once, before it may take the place of another."""
        step = step_of(directory.name)
        if step not in self._whole:
            try:
                verified(directory)
            except InputError:
                return False
            self._whole.add(step)
        return True

    def _path(self, step: int) -> Path:
        return self._out_dir / "checkpoints" / f"step-{step:08d}"


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error).partition("\n")[0] or type(error).__name__


def write_best(out_dir: Path, step: int, loss: float) -> None:
    write_durably(out_dir / BEST, json.dumps({"step": step, "val": loss}).encode("ascii") + b"\n")


def read_best(out_dir: Path) -> tuple[int, float] | None:
    """The step of the best checkpoint and its validation loss."""
    try:
        best = read_object(out_dir / BEST, _LARGEST_BEST) or {}
        step, loss = int(best["step"]), float(best["val"])
    except (InputError, ValueError, KeyError, TypeError, OverflowError):
        return None
    return (step, loss) if math.isfinite(loss) else None
