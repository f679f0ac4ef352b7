"""Charts of the card's own sensors: clock, power, temperature and memory over the wall clock."""

from __future__ import annotations

from collections.abc import Sequence

from nanopace.diagnosis.result import Diagnosis
from nanopace.views.page.charts import DASHED, Chart, Mark, Series
from nanopace.views.page.places import clock_places
from nanopace.wording.catalog import Words
from nanopace.wording.template import label

NEAR = 0.5  # of the card's memory: above this, draw its limit
_THROTTLED: tuple[tuple[str, str, Mark, str], ...] = (  # reasons for a lower clock, worst first
    ("thermal", "checkpoint", "triangle", label("held back by heat")),
    ("hw_slowdown", "compile", "cross", label("held back by the hardware")),
    ("power_brake", "compile", "cross", label("held back by the power supply")),
    ("power_cap", "stall", "square", label("at the power limit")),
)


def gpu_charts(run: Diagnosis, words: Words) -> tuple[Chart, ...]:
    """One chart per sensor; the chart of the clock also shows when something throttled it."""
    curves = run.curves
    sensors = (
        ("clock", words.text("GPU clock"), words.text("Clock (MHz)"), "evaluation", curves.gpu_mhz),
        ("power", words.text("GPU power"), words.text("Power (W)"), "checkpoint", curves.gpu_watts),
        ("temperature", words.text("GPU temperature"), words.text("Temperature (°C)"), "compile", curves.gpu_celsius),
        ("memory", words.text("GPU memory"), words.text("Memory (GB)"), "best", curves.gpu_memory_gb),
    )
    return tuple(
        Chart(
            name=f"gpu-{name}",
            title=title,
            x_label=words.text("Wall clock"),
            x_unit="seconds",
            y_label=label,
            y_unit="amount",
            series=(Series(title, curves.gpu_seconds, values, colour, "line"), *_beside(run, name, words)),
            from_zero=name in ("power", "memory"),
            at=clock_places([run]),
            small=True,
        )
        for name, title, label, colour, values in sensors
        if any(value is not None for value in values)
    )


def _beside(run: Diagnosis, sensor: str, words: Words) -> Sequence[Series]:
    if sensor == "clock":
        return _throttled(run, words)
    fact, used = run.facts.get("gpu_memory_gb"), max((gb or 0.0 for gb in run.curves.gpu_memory_gb), default=0.0)
    if sensor != "memory" or fact is None or not isinstance(fact.value, (int, float)) or used < NEAR * fact.value:
        return ()
    ends = (run.curves.gpu_seconds[0], run.curves.gpu_seconds[-1])
    return (Series(words.text("memory of the card"), ends, (fact.value,) * 2, "muted", "line", dash=DASHED),)


def _throttled(run: Diagnosis, words: Words) -> Sequence[Series]:
    curves, found = run.curves, []
    samples = zip(curves.gpu_seconds, curves.gpu_mhz, curves.gpu_throttle, strict=True)
    left = [(x, y, why.split(",")) for x, y, why in samples if why is not None]
    for reason, colour, mark, name in _THROTTLED:  # each sample once, by its worst reason
        held = [(x, y) for x, y, why in left if reason in why]
        left = [each for each in left if reason not in each[2]]
        if held:
            xs, ys = zip(*held, strict=True)
            found.append(Series(words.text(name), xs, ys, colour, mark))
    return found
