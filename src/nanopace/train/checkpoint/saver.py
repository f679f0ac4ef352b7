"""Checkpoints that training hardly notices.

`save` begins to copy weights and averages into pinned memory, on a stream of its own, while the next step already runs.
Only the optimizer changes them, so only it waits, on the card, and only if the copy is not done yet
(`before_update`). A thread then writes the bytes to the disk.

Whatever the disk does, training goes on: a save that failed is a `Result` with its reason, the next one tries again,
and nothing is removed before enough others are known to be whole, nor while it may be the best. Before each write the
directory is asked for anew: it may be another training's by now (lock.py).
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
from nanopace.errors import InputError
from nanopace.train.checkpoint.best import BEST, Known, known_best, write_best
from nanopace.train.checkpoint.layout import CHECKPOINTS, MODEL, OPTIMIZER, checkpoint_directories, step_of, verified
from nanopace.train.checkpoint.lock import Claim
from nanopace.train.checkpoint.tensor_file import TensorFile
from nanopace.train.checkpoint.write import remove_checkpoint, write_checkpoint
from nanopace.train.optim.optimizer import optimizer_tensors

T = TypeVar("T")
Home = Callable[[], Path]  # where a run may write, now; OSError: nowhere


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
        claim: Claim,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        tokenizer: Tokenizer | None,
        keep_last: int,
        device: torch.device,
    ) -> None:
        self._claim, self._tokenizer, self._keep_last, self._device = claim, tokenizer, keep_last, device
        self._sources: dict[str, Mapping[str, Tensor]] = {
            MODEL: dict(model.named_parameters()),
            OPTIMIZER: optimizer_tensors(model, optimizer),
        }
        self._files: dict[str, TensorFile] = {}
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._staged: torch.cuda.Event | None = None
        self._home = claim.home
        self._known = Known()
        self._best_written = True
        self._unsaved_best: _Best | None = None  # of a step that could not be saved
        self._last: tuple[int, Mapping[str, Any]] | None = None  # what was to be saved
        self._whole: set[int] = set()  # the steps whose checkpoints are known to be
        self._newest = 0  # the last step that was written
        self._untidy = False  # which is said once
        self._no_memory: str | None = None
        self._jobs: queue.Queue[_Job | _Best | None] = queue.Queue()
        self._results: queue.Queue[Result] = queue.Queue()
        self._notes: queue.Queue[str] = queue.Queue()
        self._idle = threading.Event()  # memory is there, and nothing is being written from it
        self._thread = threading.Thread(target=self._write_jobs, name="checkpoints", daemon=True)
        self._thread.start()

    @torch.no_grad()
    def save(self, step: int, state: Mapping[str, Any]) -> None:
        """Begin. Waits only where the checkpoint before is still being written."""
        self._idle.wait()
        began = time.monotonic()
        self._last = step, state
        if self._no_memory is not None:
            self._prepare()  # there may be some by now
        if self._no_memory is not None:
            self._results.put(Result(step, path_of(self._claim.home, step), 0.0, failure=self._no_memory))
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
        return _emptied(self._results)

    def notes(self) -> list[str]:
        """Lines that a person should see, since this was last asked."""
        return _emptied(self._notes)

    def mark_best(self, step: int, loss: float) -> None:
        """This one stays, whatever comes after it, until another is better."""
        self._jobs.put(_Best(step, loss))

    def close(self) -> None:
        """Wait until everything is written."""
        self._jobs.put(None)
        self._thread.join()

    @torch.no_grad()
    def again(self, elsewhere: Home | None = None) -> None:
        """The last save once more, here and now: it failed, and `close` was called. The weights are as they were."""
        assert self._last is not None
        step, state = self._last
        if self._no_memory is not None:
            self._prepare()
        if self._no_memory is not None:
            self._results.put(Result(step, path_of(self._claim.home, step), 0.0, failure=self._no_memory))
            return
        self._stage()
        if self._stream is not None:
            torch.cuda.synchronize(self._device)
        job = _Job(step, state, None, time.monotonic())
        if elsewhere is not None:
            self._results.put(self._written(job, elsewhere))
            return
        self._results.put(self._result(job))
        if self._unsaved_best is not None and self._unsaved_best.step == step:
            self._keep_best(self._unsaved_best)

    # --- what is copied and written; sharded.py does it in another way ---------------------------------------------

    def _allocate(self) -> None:
        """Memory to copy into, in the thread: pinning gigabytes takes seconds."""
        pinned = self._device.type == "cuda"
        self._files = {name: TensorFile(tensors, pinned=pinned) for name, tensors in self._sources.items()}

    def _stage(self) -> None:
        for name, file in self._files.items():
            file.stage(self._sources[name])

    def _write(self, home: Home, step: int, state: Mapping[str, Any]) -> tuple[Path, int]:
        """Where it is, and its bytes."""
        path = path_of(home(), step)
        return path, write_checkpoint(path, self._files, state, self._tokenizer)

    # --- the thread --------------------------------------------------------------------------------------------------

    def _write_jobs(self) -> None:
        """It begins to allocate while the model is still compiled."""
        self._prepare()
        self._look_around()
        self._idle.set()
        while (job := self._jobs.get()) is not None:
            if isinstance(job, _Best):
                self._keep_best(job)
            else:
                self._results.put(self._result(job))
                self._idle.set()
        self._tidy()  # a process that was killed between writing and pruning may have left some too many

    def _prepare(self) -> None:
        try:
            self._allocate()
            self._no_memory = None
        except Exception as error:  # whatever it is: a thread that has died would save nothing ever after
            self._no_memory = _reason(error)

    def _look_around(self) -> None:
        """What earlier processes saved is looked through before anything of it may be removed."""
        try:
            self._known = known_best(self._claim.home, self._keep_last, self._is_whole)
        except Exception:  # as above. Nothing can be read, so nothing that is there will be removed
            self._keep_last = sys.maxsize
        self._best_written = self._known.certain
        if self._known.doubt is not None:
            self._notes.put(self._known.doubt)

    def _result(self, job: _Job) -> Result:
        result = self._written(job, self._directory)
        if result.failure is None:
            self._newest = job.step
            self._whole.add(job.step)
            self._tidy()
            if not self._best_written:
                self._write_best()
        return result

    def _written(self, job: _Job, home: Home) -> Result:
        try:
            if job.staged is not None:
                job.staged.synchronize()
            path, size = self._write(home, job.step, job.state)
        except Exception as error:  # as above
            path = path_of(self._claim.home, job.step)
            return Result(job.step, path, (time.monotonic() - job.began) * 1000, failure=_reason(error))
        return Result(job.step, path, (time.monotonic() - job.began) * 1000, size)

    def _directory(self) -> Path:
        """Where to save now. What was known of the directory before is not true of another."""
        home = self._claim.directory()
        if home != self._home:
            self._home, self._known, self._best_written = home, Known(), True
            self._whole.clear()
        if os.path.islink(home / CHECKPOINTS):
            raise OSError(errno.ELOOP, "it is a link, and what it leads to is not touched", str(home / CHECKPOINTS))
        return home

    def _keep_best(self, job: _Best) -> None:
        if not os.path.isdir(path_of(self._claim.home, job.step)):  # it could not be saved: the best is the one before
            self._unsaved_best = job
            return
        self._known = replace(self._known, best=(job.step, job.loss))
        self._write_best()

    def _write_best(self) -> None:
        best = self._known.best
        try:
            if best is not None and path_of(home := self._directory(), best[0]).is_dir():
                write_best(home, *best)
            self._best_written = True
        except Exception as error:  # as above
            self._best_written = False
            step = 0 if best is None else best[0]
            self._results.put(Result(step, self._claim.home / BEST, 0.0, failure=_reason(error)))

    def _tidy(self) -> None:
        """Where that fails there is one too many, until the next save."""
        try:
            self._prune()
        except Exception as error:  # as above
            if not self._untidy:
                self._notes.put(f"could not remove old checkpoints: {_reason(error)}; training goes on and tries again")
            self._untidy = True

    def _prune(self) -> None:
        """Remove the older ones, behind as many whole ones as shall be kept.

        Those of later steps are of a past that training has left: had they been whole, it would have gone on from
        them. They are not counted, and are replaced when training gets there.
        """
        kept, home = 0, self._directory()
        best = self._known.best
        for directory in checkpoint_directories(home):
            step = step_of(directory.name)
            if step > self._newest and not (self._newest == 0 and self._is_whole(directory)):
                continue
            if kept < self._keep_last:
                kept += self._is_whole(directory)
            elif step not in self._known.spared and (best is None or step != best[0]):
                if self._directory() != home:
                    return
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


def path_of(home: Path, step: int) -> Path:
    return home / CHECKPOINTS / f"step-{step:08d}"


def _emptied(things: queue.Queue[T]) -> list[T]:
    taken = []
    while not things.empty():
        taken.append(things.get())
    return taken


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error).partition("\n")[0] or type(error).__name__
