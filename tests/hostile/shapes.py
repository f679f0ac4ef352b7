"""Printed logs of any length that may trip up a reader; each has about the given number of lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable

Shape = Callable[[int], Iterable[str]]


def row(at: int, ms: float = 100.0, loss: float = 3.0) -> str:
    return f"iter {at}: loss {loss:.4f}, time {ms:.2f}ms, mfu 10.00%"


def chat(at: int, ms: float = 300.0) -> str:
    return (
        f"step {at:05d}/90000 ({at / 900:.2f}%) | loss: 3.000000 | lrm: 1.00 | dt: {ms:.2f}ms | tok/sec: 1,747,000 "
        f"| bf16_mfu: 48.10 | epoch: 1 | total time: {at * ms / 60000:.2f}m | eta: 3.0m"
    )


def pace(at: int, ms: float = 100.0) -> str:
    return f"{row(at, ms)}, 12345 tok/s, 1.0 GB"


def evaluation(at: int) -> str:
    return f"step {at}: train loss 3.0000, val loss 3.1000"


def _apart(printed: Callable[[int, float], str], processes: int) -> Shape:
    return lambda lines: (
        printed(at + processes - number, 100.0 + number)
        for at in range(lines // processes)
        for number in range(processes)
    )


def _runs(printed: Callable[[int], str], header: str | None = None) -> Shape:
    def shape(lines: int) -> Iterable[str]:
        for _ in range(lines // 2):
            if header:
                yield header
            yield printed(0)
            yield printed(1)

    return shape


def _far_back(lines: int) -> Iterable[str]:
    yield from (row(at + 1) for at in range(lines // 2))
    yield from (row(lines // 2 - lines // 4 * (at % 2), 101.0) for at in range(lines // 2))


def _before_each(*before: str, printed: Callable[[int], str] = row) -> Shape:
    return lambda lines: (
        line.format(at=at) if line else printed(at)
        for at in range(1, lines // len(before) + 1)
        for line in (*before, "")
    )


def _between(rows: Callable[[int], str], line: str) -> Shape:
    return lambda lines: [*map(rows, range(5)), *([line] * lines), rows(5)]


def _ahead(*lines_before: str, each: str) -> Shape:
    return lambda lines: [*lines_before, *([each] * lines), *map(row, range(5))]


HEADER = "nanopace 1.0 train: out, 1,024 tokens a step, steps {} to 90000"

SHAPES: dict[str, Shape] = {
    "rows": lambda lines: (row(at, 100 + at % 7) for at in range(lines)),
    "two processes": _apart(row, 2),
    "a hundred processes": _apart(row, 100),
    "two processes of nanochat": _apart(chat, 2),
    "two processes of nanopace": _apart(pace, 2),
    "ranks": lambda lines: (f"[rank{at % 2}]: {row(at // 2)}" for at in range(lines)),
    "runs of two rows": _runs(row),
    "runs of nanochat": _runs(chat),
    "runs of nanopace": _runs(pace, HEADER.format(0)),
    "backwards": lambda lines: (row(lines - at) for at in range(lines)),
    "forth and far back": _far_back,
    "back one by one": lambda lines: (row(min(at, lines + 1 - at), 100 + at % 7) for at in range(1, lines)),
    "one iteration for ever": lambda lines: (row(5, 100 + at % 7) for at in range(lines)),
    "resumed at each row": _before_each("Resuming training from out"),
    "resumed at each row of nanopace": _before_each(HEADER.format("{at}"), printed=pace),
    "evaluated and saved at each row": _before_each(
        "step {at}: train loss 3.0, val loss 3.1", "saving checkpoint to out"
    ),
    "evaluated and set back": lambda lines: (
        line
        for at in range(lines // 4)
        for back in (2, 1)
        for line in (evaluation(at + back), row(at + back, 99 + back))
    ),
    "a config at each row": _before_each("Overriding config with x.py:", "batch_size = 8", "x = f'{{1}}{{1}}'"),
    "blank lines": _between(row, ""),
    "blank lines in nanochat": _between(chat, ""),
    "halves of lines in nanochat": _between(chat, "step 5 of\n\n\n\n"),
    "checkpoints": _between(row, "saving checkpoint to out"),
    "bars": _between(row, "33%|###       | 33/100 [00:01<00:02, 33.00it/s]\r"),
    "f-strings": _ahead("Overriding config with x.py:", each="x = f'" + "{1}" * 30 + "'"),
    "f-strings in flags": _ahead(each="Overriding: batch_size = f'" + "{1}" * 30 + "'"),
    "dicts without end": _ahead(each="{'a': 1,"),
}
