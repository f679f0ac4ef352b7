"""Formats of other packages are added after ours, once, and a broken one affects no other."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import NamedTuple

import pytest

from nanopace.sources.formats import registry
from nanopace.sources.log_format import LogFormat

ONE, OTHER = LogFormat("one", "trainer", "module:Reader"), LogFormat("other", "trainer", "module:Reader")


class Entry(NamedTuple):
    name: str
    load: Callable[[], object]
    value: str = "package:FORMAT"


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_known", {})
    monkeypatch.setattr(registry, "_asked", False)


def installed(monkeypatch: pytest.MonkeyPatch, *entries: Entry) -> None:
    def entry_points(*, group: str) -> tuple[Entry, ...]:
        assert group == "nanopace.formats"
        return entries

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)


def test_the_first_of_a_name_stays() -> None:
    registry.register(ONE)
    registry.register(LogFormat("one", "somebody else", "module:Other"))
    registry.register(OTHER)
    assert registry.known_formats() == (ONE, OTHER)
    assert registry.known_trainers() == "trainer"
    with pytest.raises(TypeError, match="is no LogFormat"):
        registry.register("one")  # type: ignore[arg-type]


def test_packages_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, Entry("one", lambda: ONE))
    assert registry.add_formats_of_packages()
    installed(monkeypatch, Entry("other", lambda: OTHER))
    assert not registry.add_formats_of_packages()
    assert registry.known_formats() == (ONE,)


def test_a_format_that_is_known_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.register(ONE)
    installed(monkeypatch, Entry("other", lambda: OTHER))
    assert registry.find_format("one") is ONE
    assert registry.known_formats() == (ONE,)


def test_a_format_that_is_not_known_is_looked_for_in_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, Entry("one", lambda: ONE))
    assert registry.find_format("one") is ONE


def test_a_package_that_cannot_be_loaded_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> object:
        raise ImportError("no such module")

    installed(monkeypatch, Entry("bad", broken), Entry("none", lambda: 3), Entry("one", lambda: ONE))
    with pytest.warns(UserWarning, match="cannot be loaded") as caught:
        assert registry.add_formats_of_packages()
    assert [str(each.message) for each in caught] == [
        "the log format 'bad' of package:FORMAT cannot be loaded: no such module",
        "the log format 'none' of package:FORMAT cannot be loaded: 3 is no LogFormat",
    ]
    assert registry.known_formats() == (ONE,)


def test_without_packages_there_is_nothing_new(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    assert not registry.add_formats_of_packages()
