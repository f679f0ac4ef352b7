"""What `from nanopace import ...` offers: a log becomes a Run, a Run a Diagnosis, a Diagnosis a text or a page.

run = open_run("train.log", gpu="4070")
print(render(diagnose(run)))
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO, Literal, cast

from nanopace.diagnosis.result import Diagnosis
from nanopace.errors import ConfigError, InputError, UsageError
from nanopace.run import Run

if TYPE_CHECKING:
    from pathlib import Path

    from nanopace.diagnosis.comparison import Comparison
    from nanopace.literals import Value

    Source = str | Path | BinaryIO
    Result = Diagnosis | Comparison


def open_run(
    source: Source,
    *,
    config: str | Path | None = None,
    set: Mapping[str, Value] | None = None,
    gpu: str | None = None,
    pattern: str | Sequence[str] = (),
    run: int | None = None,
) -> Run:
    """Return the run in a log. `source` is a path, "-" for standard input, or a binary file.

    `config` (the run's nanoGPT config file, read but never executed), `set` (knobs by name) and `gpu` (the card that
    ran) supply what the log does not say. `pattern` describes the rows of any other log, as --pattern does
    (docs/pattern.md). `run` picks one of several runs, counting from 1.
    """
    runs = open_runs(source, config=config, set=set, gpu=gpu, pattern=pattern)
    if run is None and len(runs) > 1:
        raise InputError(
            "{source}: contains {count} runs; pick one with run=1 to run={count}", source=source, count=len(runs)
        )
    number = 1 if run is None else run
    if not 1 <= number <= len(runs):
        raise InputError(
            "{source}: there is no run {number}; it contains {count}", source=source, number=number, count=len(runs)
        )
    return runs[number - 1]


def open_runs(
    source: Source,
    *,
    config: str | Path | None = None,
    set: Mapping[str, Value] | None = None,
    gpu: str | None = None,
    pattern: str | Sequence[str] = (),
) -> list[Run]:
    """Return all runs in a log, in order. The arguments are those of `open_run`."""
    from nanopace.sources.runs import open_runs as read

    overrides = _fitted(set or {})
    if gpu is not None:
        from nanopace.hardware.cards import find_cards, split_count

        find_cards(split_count(gpu)[1])
    patterns = (pattern,) if isinstance(pattern, str) else tuple(pattern)
    return read(source, config=config, overrides=overrides, gpu=gpu, patterns=patterns)


def diagnose(run: Run, *, price: float | str | Sequence[float | str] = (), co2: float | str | None = None) -> Diagnosis:
    """Explain a run: its slow rows, every second of the wall clock, throughput, mfu, loss, and advice.

    With `price`, what it costs: 0.35 or "$2.49/h" for a GPU hour, "0.30 EUR/kWh" for electricity, or both in a list.
    `co2` is in grams per kWh.
    """
    from nanopace.diagnosis.billing import billed
    from nanopace.diagnosis.diagnose import diagnose
    from nanopace.price_text import shared_prices

    prices = [price] if isinstance(price, (float, int, str)) else price
    given = shared_prices(map(_written, prices), [] if co2 is None else [_written(co2)])
    return billed(diagnose(run), given)


def _written(amount: float | str) -> str:
    """An amount as a person would type it: 0.1 + 0.2 is 0.3."""
    return amount if isinstance(amount, str) else f"{amount:.6f}"


def compare(a: Run | Diagnosis, b: Run | Diagnosis) -> Comparison:
    """Compare run `b` with run `a`."""
    from nanopace.diagnosis.compare.compare import compare

    return compare(*(diagnose(each) if isinstance(each, Run) else each for each in (a, b)))


def render(
    result: Result | Sequence[Diagnosis] | Sequence[Comparison],
    *,
    format: Literal["text", "html", "json"] = "text",
    lang: str | None = None,
    width: int = 80,
) -> str:
    """Return a report on one or more Diagnoses, or on one or more Comparisons. JSON is the same in every language."""
    results = cast("Sequence[Result]", result if isinstance(result, Sequence) else [result])
    diagnoses, comparisons = _sorted(results)
    if format == "json":
        from nanopace.views.json import compare_json, explain_json

        return explain_json(diagnoses) if diagnoses else compare_json(comparisons)

    from nanopace.wording.catalog import words

    if format == "html":
        from nanopace.views.page.page import compare_page, explain_page

        return explain_page(diagnoses, words(lang)) if diagnoses else compare_page(comparisons, words(lang))
    if format == "text":
        from nanopace.views.terminal.report import print_report

        out = io.StringIO()
        print_report(diagnoses or comparisons, words(lang), out=out, width=width, color=False)
        return out.getvalue()
    raise UsageError("format must be text, html or json, not {format!r}", format=format)


def _sorted(results: Sequence[Result]) -> tuple[list[Diagnosis], list[Comparison]]:
    """Return the diagnoses and the comparisons. One of the two lists is always empty."""
    diagnoses = [each for each in results if isinstance(each, Diagnosis)]
    if diagnoses and len(diagnoses) == len(results):
        return diagnoses, []
    from nanopace.diagnosis.comparison import Comparison  # only comparisons need this import

    comparisons = [each for each in results if isinstance(each, Comparison)]
    if not comparisons or len(comparisons) < len(results):
        raise UsageError("render takes one Diagnosis or more, or one Comparison or more")
    return [], comparisons


def _fitted(overrides: Mapping[str, Value]) -> dict[str, Value]:
    """Convert each knob's value to its type. Raise an error for an unknown knob or a value that does not fit."""
    from nanopace.config import KNOBS

    fitted: dict[str, Value] = {}
    for name, value in overrides.items():
        knob = KNOBS.get(name)
        if knob is None:
            raise UsageError("{knob}: unknown setting; use nanoGPT's names, such as batch_size", knob=name)
        known = knob.fitted(value)
        if known is None:
            raise ConfigError("{knob} must be {kind}, not {value}", knob=name, kind=knob.kind, value=repr(value))
        fitted[name] = known
    return fitted
