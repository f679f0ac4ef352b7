"""Compares `nanopace recommend`'s expected speeds with all measured ones; prints the table in docs/recommend.md.

python bench/recommend.py
"""

from __future__ import annotations

from nanopace.hardware.speed import Point, measured_points, pace_of

HEADINGS = (
    "card", "trainer", "model", "sequences", "ladder", "expected tokens/s", "range", "measured", "difference", "source",
)  # fmt: skip


def main() -> None:
    print(f"| {' | '.join(HEADINGS)} |\n|{'---|' * len(HEADINGS)}")
    for point in measured_points():
        print(f"| {' | '.join(_row(point))} |")


def _row(point: Point) -> tuple[str, ...]:
    expected = pace_of(point)
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
