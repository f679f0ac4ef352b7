"""Checkpoints of a model sharded over several ranks, with torch.distributed.checkpoint.

Each rank writes its part of every tensor to its own safetensors file, with the offsets in torch's metadata; no pickle
is written or read. The directory and its state.json look like any other checkpoint's (layout.py): it is verified,
sampled from and converted the same way, and resumes on any number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from nanopace.errors import reason_of
from nanopace.files import sync_file
from nanopace.train.checkpoint.saver import Checkpointer, FindDir, SaveResult, path_of
from nanopace.train.checkpoint.tensor_file import Written
from nanopace.train.checkpoint.write import finish_checkpoint, measure, new_checkpoint

if TYPE_CHECKING:
    from torch.distributed.checkpoint.api import CheckpointException

T = TypeVar("T")


class NoCheckpointer:
    """For a rank that saves nothing, because only the first rank does, or none."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def save(self, step: int, state: Mapping[str, Any]) -> None:
        pass

    def before_update(self) -> bool:
        return False

    def results(self) -> list[SaveResult]:
        return []

    def notes(self) -> list[str]:
        return []

    def mark_best(self, step: int, loss: float) -> None:
        pass

    def close(self) -> None:
        pass

    def retry_last_save(self, elsewhere: FindDir | None = None) -> None:
        pass


class ShardedCheckpointer(Checkpointer):
    """One on each rank. Their threads use their own process group, which leaves training's free."""

    def _join_ranks(self) -> None:
        from torch.distributed.device_mesh import init_device_mesh

        self._group = dist.new_group(backend="gloo")
        self._host_mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        self._first = dist.get_rank() == 0

    def mark_best(self, step: int, loss: float) -> None:
        if self._first:
            super().mark_best(step, loss)

    def _allocate(self) -> None:
        """This rank's part of each tensor on the host, in the form torch.distributed.checkpoint expects."""
        from torch.distributed.tensor import DTensor

        self._copies: list[tuple[Tensor, Tensor]] = []  # from the device, to the host
        self._staged_state: dict[str, Tensor] = {}
        pinned = self._device.type == "cuda"
        for name, tensor in (item for tensors in self._sources.values() for item in tensors.items()):
            own = tensor.detach()
            part = own.to_local() if isinstance(own, DTensor) else own
            copy = torch.empty_like(part, device="cpu", pin_memory=pinned)
            self._copies.append((part, copy))
            self._staged_state[name] = copy
            if isinstance(own, DTensor):
                self._staged_state[name] = DTensor.from_local(
                    copy, self._host_mesh, own.placements, run_check=False, shape=own.shape, stride=own.stride()
                )

    def _stage(self) -> None:
        for part, copy in self._copies:
            copy.copy_(part, non_blocking=True)

    def _write(self, find_dir: FindDir, step: int, state: Mapping[str, Any]) -> tuple[Path, int]:
        """All ranks write; the first one begins and finishes. If one rank fails, the save fails on all of them."""
        with ExitStack() as stack:

            def begin() -> tuple[Path, Path]:
                path = path_of(find_dir(), step)
                return path, stack.enter_context(new_checkpoint(path))

            path, temporary = self._on_all_ranks(lambda: begin() if self._first else (Path(), Path()))[0]
            parts = self._on_all_ranks(lambda: self._write_parts(temporary))
            written = {name: each for part in parts for name, each in part.items()}
            size = self._on_all_ranks(
                lambda: finish_checkpoint(temporary, path, written, state, self._tokenizer) if self._first else 0
            )[0]
            return path, size

    def _write_parts(self, directory: Path) -> dict[str, Written]:
        """Write and sync this rank's file; return its size and checksum."""
        from torch.distributed.checkpoint.api import CheckpointException
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
        from torch.distributed.checkpoint.state_dict_saver import save

        writer = HuggingFaceStorageWriter(str(directory), save_distributed=True)
        try:
            save(self._staged_state, storage_writer=writer, process_group=self._group)
        except CheckpointException as error:
            raise OSError(_reason(error)) from None
        own = list(directory.glob(f"shard-{dist.get_rank() + 1:05d}-*.safetensors"))
        for file in own:
            sync_file(file)  # torch syncs while the last bytes may still be in Python's buffer
        return {file.name: measure(file) for file in own}

    def _scan_existing(self) -> None:
        if self._first:
            super()._scan_existing()

    def _prune(self) -> None:
        if self._first:
            super()._prune()

    def _on_all_ranks(self, do: Callable[[], T]) -> list[T]:
        """The results of all ranks; if one fails, an OSError on every rank."""
        made: tuple[T | None, str | None]
        try:
            made = do(), None
        except OSError as error:
            made = None, reason_of(error)
        everybody: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(everybody, made, group=self._group)
        failure = next((reason for _, reason in everybody if reason is not None), None)
        if failure is not None:
            raise OSError(failure)
        return [each for each, _ in everybody]


def _reason(error: CheckpointException) -> str:
    """The first failed rank's reason."""
    cause, _ = next(iter(error.failures.values()))
    return str(getattr(cause, "strerror", None) or cause)
