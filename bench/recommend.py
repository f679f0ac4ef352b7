"""What `nanopace recommend` expects of every speed that was measured, as the table in docs/recommend.md.

python bench/recommend.py
"""

from __future__ import annotations

from nanopace.hardware.cards import find_card
from nanopace.hardware.speed import Point, measured_points, pace

HEADINGS = (
    "card", "trainer", "model", "sequences", "ladder", "expected tokens/s", "range", "measured", "difference", "source",
)  # fmt: skip
VOCAB, LENGTH = 50304, 1024


def main() -> None:
    print(f"| {' | '.join(HEADINGS)} |\n|{'---|' * len(HEADINGS)}")
    for point in measured_points():
        print(f"| {' | '.join(_row(point))} |")


def _row(point: Point) -> tuple[str, ...]:
    sizes = (point.n_layer, point.n_embd, VOCAB, LENGTH, point.batch_size, point.accumulation)
    expected = pace(find_card(point.card), *sizes, trainer=point.trainer, steps=point.steps)
    assert expected is not None
    return (
        point.card,
        {"nanogpt": "nanoGPT"}.get(point.trainer, point.trainer),
        f"{point.n_layer} x {point.n_embd}",
        str(point.batch_size),
        ", ".join(point.steps),
        _thousands(expected.expected),
        f"{_thousands(expected.low)} to {_thousands(expected.high)}",
        _thousands(point.tokens_per_s),
        f"{point.tokens_per_s / expected.expected - 1:+.1%}",
        point.source,
    )


def _thousands(rate: float) -> str:
    return f"{rate / 1000:.1f}k"


if __name__ == "__main__":
    main()
