"""Prepares each step's tokens before they are needed.

On CUDA, a thread gathers the windows of the next steps from the shards while the current one trains. It fills pinned
buffers, which the card copies by itself. On a CPU, each step gathers its own: a thread would take time from the step,
and with steps of milliseconds the two would mostly wait for each other. A step's windows are a pure function of the
seed and of how many were read before it (corpus/shards/order.py), so it does not matter when they are gathered or where
a run was resumed.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from typing import Self

import torch
from torch import Tensor

from nanopace.corpus.shards.corpus import Split
from nanopace.corpus.shards.order import Order

_AHEAD = 2  # steps kept ready: one is not enough if gathering takes as long as the fastest step


class Batches:
    """The training tokens from window `first_window` on, in order, one tensor per step."""

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
        part: tuple[int, int] = (0, 1),  # whose share of a step this is: rank and number of ranks
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
        self._damage: BaseException | None = None  # found by the verifying thread
        self._failed: BaseException | None = None
        self._next = first_window
        self._thread = threading.Thread(target=self._gather, name="batches", daemon=True)
        if device.type == "cuda" if beside is None else beside:
            self._thread.start()
        else:
            self._fill()  # for the first step, before its clock starts
        self._proof = threading.Thread(target=self._prove, name="shards", daemon=True)
        if not split.verifies:  # too much to read before the first step, so read it while training runs
            self._proof.start()

    def next(self) -> tuple[Tensor, Tensor]:
        """Inputs and targets of the next step on the device, each (micro-steps, sequences, tokens).

        InputError if the data has changed on disk; earlier batches were correct and are worth a checkpoint.
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
            tokens = ready.to(self._device, torch.long)  # a copy, because the dtype differs
            self._free.put((ready, None))
        return tokens[..., :-1].contiguous(), tokens[..., 1:].contiguous()  # compiled code depends on strides

    def close(self) -> None:
        self._closing = True
        self._free.put(None)
        for thread in (self._thread, self._proof):
            if thread.ident is not None:
                thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _gather(self) -> None:
        """The gathering thread."""
        while self._fill():
            pass

    def _fill(self) -> bool:
        """Gather the next step's windows once a buffer is free; False if there is nothing more to gather.

        An error, such as a missing shard, is raised in `next`."""
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
        """The verifying thread, for data of many gigabytes: checks the shards' hashes, each rank its part."""
        if sys.platform == "linux":  # where each thread has its own priority
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        try:
            self._split.verify(lambda: self._closing, self._part)
        except BaseException as error:
            self._damage = error
