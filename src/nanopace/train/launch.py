"""`nanopace train --gpus N`: starts and supervises processes on this machine with torch's agent, as torchrun does."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence

import torch

from nanopace.errors import UsageError
from nanopace.train.loop.interrupt import HANGUP

_SAVING = "600"  # seconds a process may take to save after Ctrl-C


def launch(count: int, device: str | None, arguments: Sequence[str]) -> int:
    """Run `nanopace` with these arguments in `count` processes and return their exit code. Only rank 0 prints."""
    if "RANK" in os.environ:
        raise UsageError("--gpus={count}: torchrun has already started these processes; leave out --gpus", count=count)
    cards = torch.cuda.device_count()
    if device != "cpu" and count > cards:
        raise UsageError(
            "--gpus={count}: torch finds {cards} CUDA cards here; use --device=cpu to try it without any",
            count=count,
            cards=cards,
        )
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    logging.disable(logging.CRITICAL)  # the first process has already reported the error
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // count)))
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", _SAVING)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=count,
        run_id="nanopace",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
    )
    if HANGUP is not None and signal.getsignal(HANGUP) == signal.SIG_IGN:  # nohup: the agent would handle it again
        config.signals_to_handle = "SIGTERM,SIGINT,SIGQUIT"
    try:
        elastic_launch(config, sys.executable)("-m", "nanopace", *arguments)
    except ChildFailedError as error:
        code = error.get_first_failure()[1].exitcode
        return code if code > 0 else 2
    except SignalException:
        return 130
    return 0
