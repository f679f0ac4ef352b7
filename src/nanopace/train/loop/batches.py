"""The tokens of each step, ready before they are asked for.

On CUDA a thread gathers the windows of the next steps from the shards while the current one trains. It fills pinned
buffers, which the card copies by itself. On a CPU each step gathers its own: a thread would take its time from the
step, and where a step takes milliseconds the two would mostly wait for each other. Which windows a step gets is a pure
function of the seed and of how many were read before it (corpus/shards/order.py), so it does not matter who
gathers them when, or where a run was resumed.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from nanopace.corpus.shards.corpus import Split
from nanopace.corpus.shards.order import Order

_AHEAD = 2  # steps that wait ready: one is not enough where gathering takes as long as the fastest step


class Batches:
    """The training tokens from the window `first_window` on, one tensor a step, in order."""

    def __init__(
        self,
        split: Split,
        order: Order,
        *,
        micro_steps: int,
        batch_size: int,
        block_size: int,
        device: torch.device,
        first_window: int,  # of the first step, over all ranks
        part: tuple[int, int] = (0, 1),  # which rank's share of a step this is, and of how many
        beside: bool | None = None,  # whether a thread gathers; None: only on CUDA
    ) -> None:
        self.order = order
        self._split, self._device = split, device
        self._part = part
        self._shape = (micro_steps, batch_size, block_size + 1)
        self._ready: queue.Queue[Tensor | BaseException] = queue.Queue()
        self._free: queue.Queue[tuple[Tensor, torch.cuda.Event | None] | None] = queue.Queue()
        for _ in range(_AHEAD):
            self._free.put((torch.empty(self._shape, dtype=torch.int32, pin_memory=device.type == "cuda"), None))
        self._closing = False
        self._damage: BaseException | None = None  # what the thread beside has found
        self._failed: BaseException | None = None
        self._next = first_window
        self._thread = threading.Thread(target=self._gather, name="batches", daemon=True)
        if device.type == "cuda" if beside is None else beside:
            self._thread.start()
        else:
            self._fill()  # the first step's, before its clock starts
        self._proof = threading.Thread(target=self._prove, name="shards", daemon=True)
        if not split.verifies:  # too much to read before the first step, so read it while training runs
            self._proof.start()

    def next(self) -> tuple[Tensor, Tensor]:
        """Inputs and targets of the next step on the device, each (micro-steps, sequences, tokens).

        An InputError if the data is not what it was; what was given before that is right, and worth a checkpoint.
        """
        self._failed = self._failed or self._damage
        if self._failed is not None:
            raise self._failed
        if self._thread.ident is None and self._ready.empty():
            self._fill()
        ready = self._ready.get()
        if isinstance(ready, BaseException):
            self._failed = ready
            raise ready
        if self._device.type == "cuda":
            tokens = ready.to(self._device, non_blocking=True)
            copied = torch.cuda.Event()
            copied.record()
            self._free.put((ready, copied))
            tokens = tokens.long()
        else:
            tokens = ready.to(self._device, torch.long)  # a copy, as the type is another
            self._free.put((ready, None))
        return tokens[..., :-1].contiguous(), tokens[..., 1:].contiguous()  # strides are part of what is compiled for

    def close(self) -> None:
        self._closing = True
        self._free.put(None)
        for thread in (self._thread, self._proof):
            if thread.ident is not None:
                thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _gather(self) -> None:
        """The thread."""
        while self._fill():
            pass

    def _fill(self) -> bool:
        """Gather the next step's windows, once a buffer is free; False: there is nothing more to gather.

        What goes wrong here, a shard that vanished for instance, is raised where it is waited for."""
        windows = self._shape[0] * self._shape[1]
        part, parts = self._part
        try:
            if (free := self._free.get()) is None:
                return False
            buffer, copied = free
            if copied is not None:
                copied.synchronize()
            starts = self.order.starts(self._next + part * windows, windows)
            self._split.gather(starts, self._shape[2], buffer.view(windows, -1).numpy())
            self._ready.put(buffer)
            self._next += parts * windows
        except BaseException as error:
            self._ready.put(error)
            return False
        return True

    def _prove(self) -> None:
        """The other thread, for data of many gigabytes: checks the shards' hashes, each rank its part."""
        if sys.platform == "linux":  # there a thread has a priority of its own
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        try:
            self._split.verify(lambda: self._closing, self._part)
        except BaseException as error:
            self._damage = error
