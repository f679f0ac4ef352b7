"""The progress bars of long commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID


def progress_bar(*columns: ProgressColumn | str) -> Progress:
    """A name, a bar and these columns, on stderr; removed when done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress

    return Progress("{task.description}", BarColumn(), *columns, console=Console(stderr=True), transient=True)


def bar_of_bytes(*more: str) -> Progress:
    """Bytes done, speed and time left. `more`: text columns before the time left."""
    from rich.progress import DownloadColumn, TimeRemainingColumn, TransferSpeedColumn

    return progress_bar(DownloadColumn(), TransferSpeedColumn(), *more, TimeRemainingColumn())


class WithBar:
    """Base class for anything that may show a bar; the bar is removed when its `with` ends."""

    _bar: Progress | None = None
    _task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
