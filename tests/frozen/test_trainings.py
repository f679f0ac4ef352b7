"""Losses to the bit, ledgers and log lines of tiny trainings: a refactoring must leave them as they are."""

from __future__ import annotations

import pytest

from . import trainings
from .comparing import FROZEN, same
from .files import unpack

NAMES = sorted(str(path.relative_to(FROZEN)) for path in (FROZEN / "trainings").iterdir())


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return trainings.recorded(unpack(tmp_path_factory.mktemp("trainings")))


def test_none_is_missing(found: dict[str, str]) -> None:
    assert sorted(found) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_training(name: str, found: dict[str, str]) -> None:
    same(found[name], name)
