"""A training run as nanoGPT prints it, with whatever should happen to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from nanopace.live.comments import Comment
from nanopace.live.passthrough import Piece
from nanopace.live.watcher import Watcher
from nanopace.sources.infer.infer import complete
from nanopace.wording.catalog import words

HEADER = """\
Overriding config with config/train.py:
eval_interval = 50
log_interval = 1
batch_size = 8
block_size = 1024
n_layer = 12
n_head = 12
n_embd = 768
gradient_accumulation_steps = 1
max_iters = 200
tokens per iteration will be: 8,192
number of parameters: 123.59M
"""


def noise(iteration: int) -> float:
    """Small noise without a trend, the same every time."""
    return ((iteration * 7919) % 101 - 50) / 50


def rows(
    first: int = 0,
    last: int = 100,
    *,
    ms: float = 100.0,
    evaluate: int = 50,
    evaluation_ms: float = 4000.0,
    took: Mapping[int, float] | None = None,
    losses: Mapping[int, str] | None = None,
) -> Iterator[str]:
    """Iterations `first` to `last` - 1, with evaluations included in the time of their rows."""
    for i in range(first, last):
        loss = 3 + 5 / (1 + i / 40) + 0.02 * noise(i)
        time = (took or {}).get(i, ms * (1 + 0.004 * noise(i + 13)))
        if i % evaluate == 0:
            yield f"step {i}: train loss {loss:.4f}, val loss {loss + 0.05:.4f}"
            if i:
                yield "saving checkpoint to out"
            time += evaluation_ms
        shown = (losses or {}).get(i, f"{loss:.4f}")
        yield f"iter {i}: loss {shown}, time {time:.2f}ms, mfu {-100 if i < 5 else 22.44:.2f}%"


class Heard:
    """A watcher, and what it printed."""

    def __init__(
        self, *parts: Iterable[str], header: str = HEADER, live: bool = True, gpu: str | None = None, **more: float
    ) -> None:
        """`parts`: lines after the header."""
        self.said: list[Comment] = []
        self.now = 1000.0
        self.watcher = Watcher(
            "train.log", words(), self.said.append, lambda run: complete(run, None, None, gpu), **more
        )
        for part in (header.splitlines(), *parts):
            self.lines(part, live=live)

    def lines(self, lines: Iterable[str], *, each_s: float = 0.1, live: bool = True) -> None:
        """Each line by itself, a moment after the previous one."""
        for line in lines:
            self.now += each_s
            self.watcher.feed(Piece(f"{line}\n".encode(), self.now, live))

    def wait(self, seconds: float) -> None:
        """Nothing comes."""
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + 1.0)
            self.watcher.feed(Piece(b"", self.now, True))

    @property
    def alerts(self) -> list[tuple[str | None, int | None]]:
        return [(each.event, each.iteration) for each in self.said if each.event is not None]

    @property
    def texts(self) -> list[str]:
        return [each.text.replace("\u00a0", " ") for each in self.said]


class Deaf:
    """Receives everything and does nothing."""

    def __getattr__(self, _: str) -> Callable[..., None]:
        return lambda *_: None
