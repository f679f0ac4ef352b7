"""Every numeric field of every event and of a printed row, with impossible figures: no view breaks."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from nanopace import compare, diagnose, open_runs, render
from nanopace.errors import InputError
from nanopace.ledger.events import EVENTS
from nanopace.wording.numbers import LANGUAGES

# As written in the file: JSON allows more than Python would write.
FIGURES = (
    *("0", "-0.0", "1", "-1", "5e-324", "-5e-324", "1e-300", "1e15", "3e12", "1e29", "1e30", "1e100", "1e154"),
    *("1e200", "1e308", "-1e308", "1e400", "-1e400", '"nan"', '"inf"', '"-inf"', "NaN", "Infinity", "true", "null"),
    *(f"{2**31}", f"{2**53}", f"{2**63 - 1}", f"{2**63}", f"{10**18}", f"{10**30}", f"{10**400}", "[]", "{}", '""'),
)
NUMERIC = ("Count", "Number", "Milliseconds")
KNOBS = (
    *("batch_size", "block_size", "gradient_accumulation_steps", "n_layer", "n_head", "n_embd", "vocab_size"),
    *("max_iters", "lr_decay_iters", "warmup_iters", "learning_rate", "eval_interval", "eval_iters", "log_interval"),
)
CONFIG = {"batch_size": 12, "block_size": 1024, "n_layer": 12, "n_head": 12, "n_embd": 768, "max_iters": 40}
USUAL: dict[str, object] = {
    "iteration": 20,
    "ms": 90.0,
    "phase": "data",
    "reason": "gc",
    "text": "a note",
    "batch_size": 6,
    "accumulation": 2,
    "failed_at": 21,
}
# A sentence may say that a loss was "NaN or infinite", in four languages; no figure may be one.
_IMPOSSIBLE = re.compile(
    r"(?<![\w.-])-?(?:inf|nan|Infinity|NaN(?!\s+(?:or infinite|oder unendlich|ou infini|o infinit)))(?![\w-])"
    r"|\d{40}|e\+\d\d"
)


def _event(kind: str, **values: object) -> str:
    return json.dumps({"event": kind, **values}, separators=(",", ":"))


def _ledger(changed: str) -> list[str]:
    """A small run with one event of each kind, with `changed` in its place."""
    run = _event(
        "run", ledger="1.3", started="", nanopace="1", config=CONFIG, parameters=124_000_000, tokens_per_iteration=12288
    )
    lines = [run, _event("compile", ms=5000.0), _event("eval", iteration=0, train=9.0, val=9.1, ms=800.0)]
    for step in range(40):
        lines.append(_event("step", iteration=step, ms=100.0 + step % 3, loss=9 - step / 10, tokens=12288))
        if step == 20:
            lines += [changed, _event("eval", iteration=20, train=7.0, val=7.1, ms=800.0)]
            lines.append(_event("gpu", iteration=20, watts=390.0, sm_mhz=1400.0, at_ms=2500.0))
    return lines


def _changed() -> Iterator[tuple[str, list[str]]]:
    """Each field of each event with each figure; new fields and events are included automatically."""
    for kind, event in EVENTS.items():
        numeric = [each.name for each in fields(event) if str(each.type).removesuffix(" | None") in NUMERIC]
        usual = {each.name: USUAL[each.name] for each in fields(event) if each.name in USUAL}
        for name, figure in itertools.product(numeric, FIGURES):
            values = {**usual, "started": "", "nanopace": "1", "config": CONFIG} if kind == "run" else usual
            line = _event(kind, **values, **{name: "HERE"} if name not in values else {})
            line = re.sub(rf'"{name}":("HERE"|[\d.]+)', lambda _, n=name, f=figure: f'"{n}":{f}', line)  # type: ignore[misc]
            lines = _ledger(line)
            yield f"{kind}.{name}={figure[:12]}", [line, *lines[1:]] if kind == "run" else lines


def _knobs() -> Iterator[tuple[str, list[str]]]:
    for knob, figure in itertools.product(KNOBS, FIGURES):
        lines = _ledger(_event("note", text=""))
        config = json.dumps({**CONFIG, knob: "HERE"}).replace('"HERE"', figure)
        yield f"{knob}={figure[:12]}", [lines[0].replace(json.dumps(CONFIG, separators=(",", ":")), config), *lines[1:]]


def _printed() -> Iterator[tuple[str, list[str]]]:
    """nanoGPT's rows: a fork's output is not JSON, and can be as extreme."""
    figures = (
        "0.00",
        "9" * 18 + ".00",
        "9" * 40 + ".00",
        "1e308",
        "1e-300",
        "inf",
        "nan",
        "-1.00",
        "0." + "0" * 300 + "1",
    )
    for place, figure in itertools.product(("iter", "loss", "ms", "mfu"), figures):
        usual = {"iter": "20", "loss": "3.0000", "ms": "100.00", "mfu": "10.00"}
        rows = [{**usual, "iter": str(step), **({place: figure} if step in (20, 21) else {})} for step in range(40)]
        yield (
            f"printed {place}={figure[:12]}",
            ["iter {iter}: loss {loss}, time {ms}ms, mfu {mfu}%".format(**row) for row in rows],
        )


def _check(path: Path, lines: list[str], language: str, *, page: bool) -> None:
    """Every view is complete, or one line says why there is none."""
    path.write_text("\n".join(lines) + "\n")
    try:
        diagnoses = [diagnose(run) for run in open_runs(path)]
    except InputError:
        return
    together = compare(diagnoses[0], diagnoses[-1])
    for data in (render(diagnoses, format="json"), render(together, format="json")):
        json.loads(data, parse_constant=_refuse)
    for text in (render(diagnoses, lang=language), render(together, lang=language)):
        assert not _IMPOSSIBLE.search(text), text
    if page:
        assert "</html>" in render(diagnoses, format="html", lang=language)
        assert "</html>" in render(together, format="html", lang=language)


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def _cases() -> list[tuple[str, list[str]]]:
    return [*_changed(), *_knobs(), *_printed()]


def test_the_four_lines_that_overflowed(tmp_path: Path) -> None:
    run = _event("run", ledger="1.3", started="", nanopace="0", config={})
    steps = [f'{{"event":"step","iteration":{step},"ms":1e308,"loss":3.0}}' for step in range(3)]
    _check(tmp_path / "run.jsonl", [run, *steps], "en", page=True)
    steps += [f'{{"event":"step","iteration":{step},"ms":100.0,"loss":1e308}}' for step in range(3, 9)]
    for language in LANGUAGES:
        _check(tmp_path / "run.jsonl", [run, *steps], language, page=True)


@pytest.mark.parametrize("knob", ["block_size", "gradient_accumulation_steps"])
def test_a_knob_that_overflowed(tmp_path: Path, knob: str) -> None:
    _check(tmp_path / "run.jsonl", dict(_knobs())[f"{knob}=1e308"], "en", page=True)


@pytest.mark.usefixtures("untraced")
@pytest.mark.slow
def test_every_field_with_one_figure_that_no_trainer_writes(tmp_path: Path) -> None:
    """A different one for each field; the next test tries them all."""
    for number, (_name, lines) in enumerate(_cases()[:: len(FIGURES) + 1]):
        _check(tmp_path / "run.jsonl", lines, LANGUAGES[number % len(LANGUAGES)], page=number % 4 == 0)


@pytest.mark.usefixtures("untraced")
@pytest.mark.slow
def test_every_figure_that_no_trainer_writes(tmp_path: Path) -> None:
    """A sample of a few thousand, the same every time."""
    cases = random.Random(28).sample(_cases(), 500)
    for number, (_name, lines) in enumerate(cases):
        _check(tmp_path / "run.jsonl", lines, LANGUAGES[number % len(LANGUAGES)], page=number % 7 == 0)
