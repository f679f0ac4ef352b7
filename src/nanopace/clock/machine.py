"""Describes where the loop runs: rank, card, versions. Whatever cannot be found out is left unknown."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

_GIB = 1 << 30


def torch_of_the_loop() -> Any:
    """torch, if the loop has imported it."""
    return sys.modules.get("torch")


def card_in_use(torch: Any) -> int | None:
    """The index of the current card, once the loop uses one."""
    if torch is None or not torch.cuda.is_initialized():
        return None
    return int(torch.cuda.current_device())


def rank_and_world(torch: Any) -> tuple[int, int | None]:
    """From torch.distributed, or the environment variables of torchrun and others. A single process is rank 0."""
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank()), int(distributed.get_world_size())
    return _number("RANK") or 0, _number("WORLD_SIZE")


def introduction(torch: Any) -> dict[str, Any]:
    """Facts for the ledger's run event."""
    _, world = rank_and_world(torch)
    facts: dict[str, Any] = {"python": platform.python_version(), "world_size": world}
    if torch is not None:
        facts["torch"] = str(torch.__version__)
    card = card_in_use(torch)
    if card is not None:
        about = torch.cuda.get_device_properties(card)
        facts["gpu"] = str(about.name)
        facts["gpu_memory_gb"] = round(about.total_memory / _GIB, 3)
        facts["gpu_sms"] = int(about.multi_processor_count)
        if (world or 1) > 1:
            facts["gpu_count"] = world
        elif torch.cuda.device_count() == 1:
            facts["gpu_count"] = 1  # with several, nobody knows how many the loop uses
    return facts


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else None
