"""The processes that train together, as seen by one of them. With a single process, nothing here costs anything.

torchrun passes each process its rank in the environment. torch exchanges the gradients (parallel.py); here the hosts
exchange a few numbers: evaluation losses, times, whether the user asked to stop. Every process makes the same exchanges
in the same order, so all of them reach the same decisions.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from traceback import clear_frames
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store, _world
from torch.distributed.rendezvous import rendezvous

from nanopace.errors import InputError, NanopaceError, UsageError
from nanopace.literals import Value

T = TypeVar("T")

Table = npt.NDArray[np.float64]

_PATIENCE = timedelta(minutes=30)  # one rank may compile, or write to a slow disk, while the others wait


@dataclass(frozen=True, slots=True)
class Ranks:
    rank: int = 0
    size: int = 1
    local_rank: int = 0  # on this machine; the number of its card
    restarts: int = 0  # how often torchrun has restarted these processes
    launched: bool = False  # by torchrun, even if there is only one process

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Ranks:
        """This process's ranks, from torchrun's environment variables."""
        if "RANK" not in environment:
            return cls()
        try:
            found = cls(
                rank=int(environment["RANK"]),
                size=int(environment["WORLD_SIZE"]),
                local_rank=int(environment.get("LOCAL_RANK", "0")),
                restarts=int(environment.get("TORCHELASTIC_RESTART_COUNT", "0")),
                launched=True,
            )
        except (KeyError, ValueError):
            raise UsageError("RANK is set, but not WORLD_SIZE and LOCAL_RANK; torchrun sets them all") from None
        return found

    @property
    def first(self) -> bool:
        """The rank that writes and prints."""
        return self.rank == 0

    def device(self, wanted: str | None) -> str | None:
        """The device to request: each process takes its own card."""
        if self.launched and (wanted == "cuda" or (wanted is None and torch.cuda.is_available())):
            return f"cuda:{self.local_rank}"
        return wanted

    def exchange(self, values: Sequence[float] | Table) -> Table:
        """The numbers of all ranks, one row per rank."""
        own = np.asarray(values, dtype=np.float64)
        if self.size == 1:
            return own[None]
        rows = [torch.empty(own.shape, dtype=torch.float64) for _ in range(self.size)]
        dist.all_gather(rows, torch.from_numpy(own))
        return torch.stack(rows).numpy()

    def average(self, value: Tensor) -> Tensor:
        """The mean over all ranks, computed on the device without waiting."""
        if self.size > 1:
            dist.all_reduce(value)
            value /= self.size
        return value

    def gather(self, thing: T) -> list[T]:
        """The values that all ranks pass, in order of rank."""
        if self.size == 1:
            return [thing]
        things: list[T | None] = [None] * self.size
        dist.all_gather_object(things, thing)
        return things  # type: ignore[return-value]

    def share(self, thing: T) -> T:
        """The value that the first rank passes."""
        if self.size == 1:
            return thing
        box = [thing]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def wait(self) -> None:
        """Wait until all ranks get here."""
        if self.size > 1:
            dist.barrier()

    def agree(self, do: Callable[[], T]) -> T:
        """Run `do` on every rank. If it fails on one, all exit, and the first rank reports that error."""
        result: T | None = None
        error: NanopaceError | None = None
        try:
            result = do()
        except NanopaceError as raised:
            error = raised
        if self.size > 1:
            said = self.gather(None if error is None else error.as_message())
            failed = next((rank for rank, each in enumerate(said) if each is not None), None)
            if failed is not None and error is None:
                error = InputError("rank {rank}: {message}", rank=failed, message=said[failed])
        if error is not None and not self.first:
            raise SystemExit(2)  # the first rank reports it
        if error is not None:
            raise error
        return result  # type: ignore[return-value]


class Silent:
    """The listener of every rank but the first."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


_BACKENDS = ("nccl", "gloo")  # torch knows others by name, but is rarely built with them


@contextmanager
def joined(ranks: Ranks, device: torch.device, backend: str | None) -> Iterator[None]:
    """Join torch's process group. `backend` is the knob; None means NCCL for cards and gloo for CPUs."""
    if backend is not None and backend.lower() not in _BACKENDS:
        raise UsageError("--backend={backend}: unknown; use nccl for cards or gloo for CPUs", backend=backend)
    backend = None if backend is None else backend.lower()
    if not ranks.launched:
        yield
        return
    if backend == "nccl" and device.type != "cuda":
        raise UsageError("--backend=nccl: needs a card for each process; use gloo on {device}", device=device)
    card = device if device.type == "cuda" else None
    import_module("torch.distributed.nn.functional")  # if imported later, its default arguments would hold the group
    dist.init_process_group(
        backend or "gloo" if card is None else f"cpu:gloo,cuda:{backend or 'nccl'}",
        store=_store(ranks),
        rank=ranks.rank,
        world_size=ranks.size,
        device_id=card,
        timeout=_PATIENCE,
    )
    try:
        yield
    except (NanopaceError, SystemExit) as error:
        clear_frames(error.__traceback__)
        _leave()
        raise
    except RuntimeError as error:
        if "peer" not in str(error).lower() and not isinstance(error, dist.DistError):
            raise
        raise UsageError(
            "another process of this run has died; --init_from=resume continues from the last checkpoint, and "
            "torchrun --max-restarts=3 does so automatically"
        ) from None
    _leave()


def _leave() -> None:
    """Drop the last reference to the process group, so that its threads end now. A thread that frees a tensor while
    the interpreter shuts down would abort the process.

    Freeing a tensor needs the GIL. Only the group's wrapper releases it while waiting for the threads, so the wrapper
    must be dropped last, after the models that hold the group.
    """
    groups = [*_world.pg_map]
    dist.destroy_process_group()
    gc.collect()
    groups.clear()


def _store(ranks: Ranks) -> Store:
    """The store through which the ranks find each other. torchrun keeps it across restarts, hence the prefix."""
    store, _, _ = next(iter(rendezvous("env://", timeout=_PATIENCE)))
    return PrefixStore(f"start-{ranks.restarts}", store)


def elastic(given: Mapping[str, Value], ranks: Ranks, has_checkpoint: bool) -> dict[str, Value]:
    """After a restart by torchrun, resume if a checkpoint exists."""
    if not ranks.restarts or not has_checkpoint:
        return dict(given)
    return {**{name: value for name, value in given.items() if name != "which"}, "init_from": "resume"}


def full_tensor(tensor: Tensor) -> Tensor:
    """The tensor itself, gathered first if it is sharded over the ranks."""
    return cast(Tensor, tensor.full_tensor()) if hasattr(tensor, "full_tensor") else tensor
