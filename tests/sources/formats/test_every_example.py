"""Parsers do not know each other, so no format's rows may look like another's: each example has one format."""

from __future__ import annotations

import re
from contextlib import suppress
from importlib import import_module
from pkgutil import iter_modules

import pytest

from nanopace.diagnosis.diagnose import diagnose
from nanopace.errors import NanopaceError, NotALog
from nanopace.sources.detect import Detector
from nanopace.sources.formats.table import BUILT_IN

from ..reading import read
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
    runs = read(data_of(name))
    assert {run.format for run in runs} == {name}
    for run in runs:
        assert diagnose(run).source.rows == run.logged.lines


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_other_format_has_a_row_in_it(name: str) -> None:
    """A detector without this trainer's formats finds nothing, or the formats whose rows it has adopted."""
    detector = Detector()
    own = next(each for each in BUILT_IN if each.name == name)
    family = {each.name for each in BUILT_IN if each.trainer == own.trainer}
    detector._formats = tuple(each for each in detector._formats if each.name not in family)
    detector.look_at(data_of(name))
    found = detector.format.name if detector.has_row and detector.format is not None else None
    assert found == ALIKE.get(name)


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - BINARY))
@pytest.mark.parametrize("number", [b",", b"9" * 30])
def test_a_number_that_is_none_breaks_no_reader(name: str, number: bytes) -> None:
    """Each number in turn, in one line of each kind: unreadable ones are left out or refused."""
    data = data_of(name)
    for line in {re.sub(rb"\d+", b"0", line): line for line in data.splitlines()}.values():
        for found in list(re.finditer(rb"[\d,.]*\d", line))[:12]:
            spoiled = line[: found.start()] + number + line[found.end() :]
            with suppress(NanopaceError):
                read(data.replace(line, spoiled))


DOCUMENTS = {each.name for each in BUILT_IN if each.opening}
STARTS_WITH_A_ROW = {"lit-gpt", "lingua-metrics", "llama_factory"}
BEFORE_A_ROW = {"hf_console": "***** Running training *****\n  Num examples = 2,400\n"}  # the example has bars there


@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - DOCUMENTS - STARTS_WITH_A_ROW))
def test_a_log_that_died_before_its_first_row_is_the_beginning_of_one(name: str) -> None:
    text = data_of(name).decode()
    told = ""
    for line_end in [at for at, char in enumerate(text) if char == "\n"]:
        try:
            read(text[: line_end + 1])
        except NotALog as error:
            told = str(error)
        else:
            break
    if name in BEFORE_A_ROW:
        with pytest.raises(NotALog) as raised:
            read(BEFORE_A_ROW[name])
        told = str(raised.value)
    assert "the start of a training log" in told or re.search(r"\b(one evaluation|\d+ evaluations), but no row", told)
