"""The progress bar of whatever is counted in bytes: how many, how fast, how long still."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


def bar_of_bytes(*more: str) -> Progress:
    """On stderr, gone when it is done. `more`: columns of text before the time that is left."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    return Progress(
        *columns, *map(TextColumn, more), TimeRemainingColumn(), console=Console(stderr=True), transient=True
    )
