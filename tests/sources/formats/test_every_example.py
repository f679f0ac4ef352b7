"""Parsers do not know each other, so nobody's rows may look like somebody else's: each example is its own format's."""

from __future__ import annotations

import io
from importlib import import_module
from pkgutil import iter_modules

import pytest

from nanopace.diagnosis.diagnose import diagnose
from nanopace.sources.detect import Detector
from nanopace.sources.formats.table import BUILT_IN
from nanopace.sources.runs import open_runs

from . import examples

OURS = {"nanogpt", "nanochat", "nanopace", "ledger", "clock"}  # have tests of their own
ALIKE = {"autoresearch": "nanochat", "parameter-golf": "modded-nanogpt"}  # print the rows of those, and more
BINARY = {"tensorboard", "wandb"}  # written by their libraries, in tests/sources/formats/trackers

EXAMPLES: dict[str, str | bytes] = {}
for module in iter_modules(examples.__path__):
    EXAMPLES |= import_module(f"{examples.__name__}.{module.name}").EXAMPLES


def data_of(name: str) -> bytes:
    text = EXAMPLES[name]
    return text if isinstance(text, bytes) else text.encode()


def test_every_format_has_an_example() -> None:
    assert {each.name for each in BUILT_IN} - OURS - BINARY <= set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_of_its_own_format(name: str) -> None:
    runs = open_runs(io.BytesIO(data_of(name)))
    assert {run.format for run in runs} == {name}
    for run in runs:
        assert diagnose(run).source.rows == run.logged.lines


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_other_format_has_a_row_in_it(name: str) -> None:
    """A detector that does not know this trainer's formats finds nothing, or those whose rows it has taken over."""
    detector = Detector()
    own = next(each for each in BUILT_IN if each.name == name)
    family = {each.name for each in BUILT_IN if each.trainer == own.trainer}
    detector._formats = tuple(each for each in detector._formats if each.name not in family)
    detector.look_at(data_of(name))
    found = detector.format.name if detector.has_row and detector.format is not None else None
    assert found == ALIKE.get(name)
