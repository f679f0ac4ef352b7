"""Ranks that are forked from one process, which has torch imported and has calculated nothing: starts take no seconds.

    python tests/train/several.py RANKS (SCRIPT | nanopace) ARGUMENTS

It does what torchrun does for them, and no more: keeps the store in which they meet, tells each who it is, and waits. A
rank that fails ends the others, and its exit code is ours.
"""

from __future__ import annotations

import os
import runpy
import signal
import struct
import sys
from contextlib import suppress
from datetime import timedelta
from importlib import import_module


def main(count: int, program: str, arguments: list[str]) -> int:
    from torch.distributed import TCPStore

    _load()
    reading, writing = os.pipe()
    ranks = [_fork(rank, count, reading, program, arguments) for rank in range(count)]
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(minutes=5))
    os.write(writing, struct.pack("i", store.port) * count)
    return _wait(set(ranks))


def _load() -> None:
    """All that a rank imports, before the first fork: DDP and FSDP bring the compiler along."""
    for name in (
        "numpy.random",
        "torch._dynamo",
        "torch.distributed.checkpoint.hf_storage",
        "torch.distributed.checkpoint.state_dict_saver",
        "torch.distributed.fsdp",
        "nanopace.cli.commands.train",
        "nanopace.cli.display.display",
        "nanopace.train.run",
    ):
        import_module(name)


def _fork(rank: int, count: int, reading: int, program: str, arguments: list[str]) -> int:
    process = os.fork()
    if process:
        return process
    (port,) = struct.unpack("i", os.read(reading, 4))
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(count),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        TORCHELASTIC_USE_AGENT_STORE="True",  # the store is not the first rank's
    )
    sys.argv = [program, *arguments]
    if program == "nanopace":
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(program, run_name="__main__")
    sys.exit(0)


def _wait(left: set[int]) -> int:
    failed = 0
    while left:
        process, status = os.wait()
        left.discard(process)
        if (code := os.waitstatus_to_exitcode(status)) and not failed:
            failed = code
            for other in left:
                with suppress(ProcessLookupError):
                    os.kill(other, signal.SIGKILL)
    return failed if failed >= 0 else 128 - failed


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
