"""Saves checkpoints with almost no cost to training.

`save` starts copying weights and averages into pinned memory, on its own stream, while the next step already runs. Only
the optimizer changes them, so only it waits, on the card, and only if the copy is not done yet (`before_update`).
A thread then writes the bytes to disk.

Whatever the disk does, training continues: a failed save is a `SaveResult` with its reason, and the next one tries
again. No checkpoint is removed before enough others are known to be intact, nor while it may be the best. Each write
asks for the directory again, because another run may have taken it (lock.py).

Tensors that are in the host's memory already (train/host) are not copied: they are written from where they are, and the
next update waits until they are.
"""

from __future__ import annotations

import errno
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from nanopace.corpus.tokenizers.tokenizer import Tokenizer
from nanopace.errors import InputError, Message
from nanopace.files import LINK
from nanopace.train.checkpoint.best import BEST, Best, KnownBest, known_best, write_best
from nanopace.train.checkpoint.layout import CHECKPOINTS, MODEL, OPTIMIZER, checkpoint_directories, step_of, verified
from nanopace.train.checkpoint.lock import Claim
from nanopace.train.checkpoint.tensor_file import TensorFile
from nanopace.train.checkpoint.write import remove_checkpoint, write_checkpoint
from nanopace.train.optim.optimizer import optimizer_tensors

T = TypeVar("T")
FindDir = Callable[[], Path]  # where the run may write now; OSError if nowhere


@dataclass(frozen=True, slots=True)
class SaveResult:
    """A save that has ended, successfully or not."""

    step: int
    path: Path
    background_ms: float
    bytes: int = 0
    failure: str | None = None

    @property
    def complaint(self) -> Message:
        """Of a save that failed: what is missing, and why."""
        return Message.joined(": ", (str(self.path), self.failure or ""))


@dataclass(frozen=True, slots=True)
class _SaveJob:
    step: int
    state: Mapping[str, Any]
    staged: torch.cuda.Event | None
    began: float


@dataclass(frozen=True, slots=True)
class _BestJob:
    """Queued after its step's checkpoint, so that best.json never names a missing one."""

    step: int
    loss: float


class Checkpointer:
    """Saves one model and its optimizer repeatedly into out_dir/checkpoints."""

    def __init__(
        self,
        claim: Claim,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        tokenizer: Tokenizer | None,
        keep_last: int,
        device: torch.device,
        at_home: Callable[[Tensor], bool] | None = None,
    ) -> None:
        """`at_home`: whether a tensor is in the host's memory; None: none is."""
        self._at_home = at_home
        self._claim, self._tokenizer, self._keep_last, self._device = claim, tokenizer, keep_last, device
        self._sources: dict[str, Mapping[str, Tensor]] = {
            MODEL: dict(model.named_parameters()),
            OPTIMIZER: optimizer_tensors(model, optimizer),
        }
        self._files: dict[str, TensorFile] = {}
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._staged: torch.cuda.Event | None = None
        self._unwritten = False  # whether a save began since the last update
        self._run_dir = claim.run_dir
        self._known = KnownBest()
        self._unwritten_best: Best | None = None  # not in best.json yet
        self._unsaved_best: _BestJob | None = None  # its step could not be saved
        self._last: tuple[int, Mapping[str, Any]] | None = None  # for a retry
        self._intact: set[int] = set()  # steps whose checkpoints have been verified
        self._newest = 0  # the last step this process wrote
        self._prune_failed = False  # reported once
        self._allocation_failure: str | None = None
        self._jobs: queue.Queue[_SaveJob | _BestJob | None] = queue.Queue()
        self._results: queue.Queue[SaveResult] = queue.Queue()
        self._notes: queue.Queue[str] = queue.Queue()
        self._idle = threading.Event()  # the staging memory exists and is not being written out
        self._join_ranks()
        self._thread = threading.Thread(target=self._write_jobs, name="checkpoints", daemon=True)
        self._thread.start()

    @torch.no_grad()
    def save(self, step: int, state: Mapping[str, Any]) -> None:
        """Start a save. Waits only if the previous one is still being written."""
        self._idle.wait()
        began = time.monotonic()
        self._last = step, state
        if not self._has_memory(step):
            return
        self._idle.clear()
        self._unwritten = True
        if self._stream is None:
            self._stage()
        else:
            self._stream.wait_stream(torch.cuda.current_stream(self._device))
            with torch.cuda.stream(self._stream):
                self._stage()
                self._staged = torch.cuda.Event()
                self._staged.record()
        self._jobs.put(_SaveJob(step, state, self._staged, began))

    def before_update(self) -> bool:
        """Call before the weights change. True if the copy is not done yet; then the card waits, not the host, unless
        the host's own memory is still being written."""
        if self._at_home is not None and self._unwritten:
            self._staged, self._unwritten = None, False
            waits = not self._idle.is_set()
            self._idle.wait()
            return waits
        staged, self._staged = self._staged, None
        if staged is None or staged.query():
            return False
        torch.cuda.current_stream(self._device).wait_event(staged)
        return True

    def results(self) -> list[SaveResult]:
        """The saves that ended since the last call."""
        return _drain(self._results)

    def notes(self) -> list[str]:
        """New lines for the user since the last call."""
        return _drain(self._notes)

    def mark_best(self, step: int, loss: float) -> None:
        """Keep this checkpoint until there is a better one."""
        self._jobs.put(_BestJob(step, loss))

    def close(self) -> None:
        """Wait until everything is written."""
        self._jobs.put(None)
        self._thread.join()

    @torch.no_grad()
    def retry_last_save(self, elsewhere: FindDir | None = None) -> None:
        """Retry the failed save of the last step in this thread, after `close`. The weights have not changed."""
        assert self._last is not None
        step, state = self._last
        if not self._has_memory(step):
            return
        self._stage()
        if self._stream is not None:
            torch.cuda.synchronize(self._device)
        job = _SaveJob(step, state, None, time.monotonic())
        if elsewhere is not None:
            self._results.put(self._try_write(job, elsewhere))
            return
        self._results.put(self._run_save(job))
        if self._unsaved_best is not None and self._unsaved_best.step == step:
            self._record_best(self._unsaved_best)

    def _has_memory(self, step: int) -> bool:
        """Whether there is staging memory. Retries a failed allocation; if that fails too, the save has failed."""
        if self._allocation_failure is not None:
            self._try_allocate()
        if self._allocation_failure is None:
            return True
        path = path_of(self._claim.run_dir, step)
        self._results.put(SaveResult(step, path, 0.0, failure=self._allocation_failure))
        return False

    # --- what sharded.py overrides ------------------------------------------------------------------------------------

    def _join_ranks(self) -> None:
        """Called before the thread starts. A single rank has nothing to join."""

    def _allocate(self) -> None:
        """Allocate staging memory. Runs in the thread, because pinning gigabytes takes seconds."""
        pinned = self._device.type == "cuda"
        self._files = {
            name: TensorFile(tensors, pinned=pinned, at_home=self._at_home) for name, tensors in self._sources.items()
        }

    def _stage(self) -> None:
        for name, file in self._files.items():
            file.stage(self._sources[name])

    def _write(self, find_dir: FindDir, step: int, state: Mapping[str, Any]) -> tuple[Path, int]:
        """Write a checkpoint; return its path and its size in bytes."""
        path = path_of(find_dir(), step)
        return path, write_checkpoint(path, self._files, state, self._tokenizer)

    # --- the thread --------------------------------------------------------------------------------------------------

    def _write_jobs(self) -> None:
        """Allocate first, while the model is still compiling, then write until `close`."""
        self._try_allocate()
        self._scan_existing()
        self._idle.set()
        while (job := self._jobs.get()) is not None:
            if isinstance(job, _BestJob):
                self._record_best(job)
            else:
                self._results.put(self._run_save(job))
                self._idle.set()
        self._try_prune()  # a process killed between writing and pruning left too many

    def _try_allocate(self) -> None:
        try:
            self._allocate()
            self._allocation_failure = None
        except Exception as error:  # any error: a dead thread would never save again
            self._allocation_failure = _reason(error)

    def _scan_existing(self) -> None:
        """Verify what earlier processes saved before any of it may be removed."""
        try:
            self._known = known_best(self._claim.run_dir, self._keep_last, self._is_intact)
        except Exception:  # as above; if checkpoints cannot be read, none is removed
            self._keep_last = sys.maxsize
        self._unwritten_best = None if self._known.certain else self._known.best
        if self._known.warning is not None:
            self._notes.put(self._known.warning)

    def _run_save(self, job: _SaveJob) -> SaveResult:
        result = self._try_write(job, self._writable_dir)
        if result.failure is None:
            self._newest = job.step
            self._intact.add(job.step)
            self._try_prune()
            if self._unwritten_best is not None:
                self._write_best(self._unwritten_best)
        return result

    def _try_write(self, job: _SaveJob, find_dir: FindDir) -> SaveResult:
        try:
            if job.staged is not None:
                job.staged.synchronize()
            path, size = self._write(find_dir, job.step, job.state)
        except Exception as error:  # as above
            path = path_of(self._claim.run_dir, job.step)
            return SaveResult(job.step, path, (time.monotonic() - job.began) * 1000, failure=_reason(error))
        return SaveResult(job.step, path, (time.monotonic() - job.began) * 1000, size)

    def _writable_dir(self) -> Path:
        """Where to save now. If the directory is new, forget what was known about the old one's checkpoints."""
        run_dir = self._claim.writable_dir()
        if run_dir != self._run_dir:
            self._run_dir, self._known, self._unwritten_best = run_dir, KnownBest(), None
            self._intact.clear()
        if os.path.islink(run_dir / CHECKPOINTS):
            raise OSError(errno.ELOOP, LINK, str(run_dir / CHECKPOINTS))
        return run_dir

    def _record_best(self, job: _BestJob) -> None:
        if not os.path.isdir(path_of(self._claim.run_dir, job.step)):  # not saved: the previous best stays
            self._unsaved_best = job
            return
        best = job.step, job.loss
        self._known = replace(self._known, best=best)
        self._write_best(best)

    def _write_best(self, best: Best) -> None:
        try:
            if path_of(run_dir := self._writable_dir(), best[0]).is_dir():
                write_best(run_dir, *best)
            self._unwritten_best = None
        except Exception as error:  # as above
            self._unwritten_best = best
            self._results.put(SaveResult(best[0], self._claim.run_dir / BEST, 0.0, failure=_reason(error)))

    def _try_prune(self) -> None:
        """Prune; a failure only leaves an extra checkpoint until the next save."""
        try:
            self._prune()
        except Exception as error:  # as above
            if not self._prune_failed:
                self._notes.put(
                    Message(
                        "could not remove old checkpoints: {reason}; training continues and tries again",
                        reason=_reason(error),
                    )
                )
            self._prune_failed = True

    def _prune(self) -> None:
        """Remove old checkpoints once `keep_last` newer ones are intact.

        Checkpoints of later steps than ours are damaged: the run would have resumed from an intact one. They do not
        count, and are replaced when training reaches those steps.
        """
        kept, run_dir = 0, self._writable_dir()
        best = self._known.best
        for directory in checkpoint_directories(run_dir):
            step = step_of(directory.name)
            if step > self._newest and not (self._newest == 0 and self._is_intact(directory)):
                continue
            if kept < self._keep_last:
                kept += self._is_intact(directory)
            elif step not in self._known.protected and (best is None or step != best[0]):
                if self._writable_dir() != run_dir:
                    return
                remove_checkpoint(directory)

    def _is_intact(self, directory: Path) -> bool:
        """Whether a checkpoint is intact. Each one from an earlier process is verified once."""
        step = step_of(directory.name)
        if step not in self._intact:
            try:
                verified(directory)
            except InputError:
                return False
            self._intact.add(step)
        return True


def path_of(run_dir: Path, step: int) -> Path:
    return run_dir / CHECKPOINTS / f"step-{step:08d}"


def _drain(things: queue.Queue[T]) -> list[T]:
    return [things.get() for _ in range(things.qsize())]


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error).partition("\n")[0] or type(error).__name__
