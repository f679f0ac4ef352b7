"""The host's memory: what is handed out, what is refused."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nanopace.errors import UsageError
from nanopace.hardware.memory import GIB
from nanopace.train.host import arena as arena_module
from nanopace.train.host.arena import Arena, available_bytes, check_room, place_of


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40), st.sampled_from([torch.float32, torch.bfloat16]))))
def test_tensors_are_zero_and_do_not_overlap(wanted: list[tuple[int, int, torch.dtype]]) -> None:
    arena = Arena(sum(place_of(torch.Size(each[:2]), each[2]) for each in wanted))
    made = [arena.empty(torch.empty(each[:2], dtype=each[2])) for each in wanted]
    assert not any(bool(each.any()) for each in made)
    for number, each in enumerate(made):
        assert arena.holds(each)
        each.fill_(number + 1)
    assert all(bool((each == number + 1).all()) for number, each in enumerate(made))
    assert arena.free == 0
    assert not arena.holds(torch.empty(3))


def machine(monkeypatch: pytest.MonkeyPatch, **files: str) -> None:
    known = {"meminfo": "/proc/meminfo", "most": "/sys/fs/cgroup/memory.max", "used": "/sys/fs/cgroup/memory.current"}
    texts = {known[name]: text for name, text in files.items()}
    monkeypatch.setattr(arena_module, "_read", lambda path: texts.get(path, ""))


def test_what_is_free_is_the_machine_s_or_the_container_s(monkeypatch: pytest.MonkeyPatch) -> None:
    meminfo = "MemTotal:  64000000 kB\nMemAvailable:  8388608 kB\n"
    machine(monkeypatch, meminfo=meminfo)
    assert available_bytes() == 8 * GIB
    machine(monkeypatch, meminfo=meminfo, most="max\n", used="100\n")
    assert available_bytes() == 8 * GIB
    machine(monkeypatch, meminfo=meminfo, most=f"{3 * GIB}\n", used=f"{GIB}\n")
    assert available_bytes() == 2 * GIB
    machine(monkeypatch)
    assert available_bytes() is None
    check_room(1 << 50)  # unknown: the system may refuse it itself


def test_this_machine_says_it() -> None:
    free = available_bytes()
    assert free is None or 0 < free < 1 << 50
    assert arena_module._read(str(Path("nowhere"))) == ""


def test_full_host_memory_is_refused_before_anything_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, meminfo="MemAvailable:  8388608 kB\n")
    check_room(7 * GIB)
    with pytest.raises(UsageError, match=r"memory=host needs 7.5 GiB of host memory, but only 8.0 GiB are free"):
        Arena(7 * GIB + GIB // 2)


def test_memory_that_the_system_does_not_give(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> mmap.mmap:
        raise OSError(12, "Cannot allocate memory")

    machine(monkeypatch)
    monkeypatch.setattr(mmap, "mmap", refuse)
    with pytest.raises(UsageError, match="which the system refuses"):
        Arena(100)
