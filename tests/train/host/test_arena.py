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
    group = "/sys/fs/cgroup/memory"
    known = {"meminfo": "/proc/meminfo", "most": f"{group}.max", "used": f"{group}.current", "stat": f"{group}.stat"}
    older = {"limit": "memory.limit_in_bytes", "usage": "memory.usage_in_bytes", "older_stat": "memory.stat"}
    known |= {name: f"{group}/{file}" for name, file in older.items()}
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
    machine(monkeypatch, meminfo=meminfo, limit=f"{3 * GIB}\n", usage=f"{GIB}\n")
    assert available_bytes() == 2 * GIB
    machine(monkeypatch)
    assert available_bytes() is None
    check_room(1 << 50)  # unknown: the system may refuse it itself


def test_files_that_a_container_has_read_are_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system drops them when something else needs their room, so they are not in the machine's count either."""
    stat = f"anon {GIB // 2}\nactive_file {GIB // 4}\ninactive_file {GIB}\nworkingset_refault_file 7\n"
    machine(monkeypatch, most=f"{3 * GIB}\n", used=f"{2 * GIB}\n", stat=stat)
    assert available_bytes() == 2 * GIB + GIB // 4
    own = f"active_file 1\ninactive_file 1\nhierarchical_memory_limit {3 * GIB}\n"
    inside = f"total_active_file {GIB}\ntotal_inactive_file {GIB // 2}\n"
    machine(monkeypatch, limit=f"{3 * GIB}\n", usage=f"{2 * GIB}\n", older_stat=own + inside)
    assert available_bytes() == 2 * GIB + GIB // 2


def test_this_machine_says_it() -> None:
    free = available_bytes()
    assert free is None or 0 < free < 1 << 50
    assert arena_module._read(str(Path("nowhere"))) == ""


def test_full_host_memory_is_refused_before_anything_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, meminfo="MemAvailable:  8388608 kB\n")
    check_room(7 * GIB)
    with pytest.raises(UsageError, match=r"memory=host needs 7.5 GiB of host memory, but only 8.0 GiB are free"):
        check_room(7 * GIB + GIB // 2)


def test_room_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """When an arena is made, the model that moves into it is still elsewhere, and out_dir has been written to."""
    machine(monkeypatch, meminfo="MemAvailable:  8 kB\n")
    assert len(Arena(100)) == 100


def test_memory_that_the_system_does_not_give(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> mmap.mmap:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", refuse)
    with pytest.raises(UsageError, match="which the system refuses"):
        Arena(100)


def test_a_kernel_without_huge_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain(mmap.mmap):
        def madvise(self, *_: int) -> None:
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(mmap, "mmap", Plain)
    assert not Arena(256).empty(torch.empty(3)).any()


def test_an_error_of_pinning_is_nobody_else_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA keeps it for whoever asks next: the launch of a kernel, which would then fail."""
    pending: list[str] = []

    class Runtime:
        @staticmethod
        def cudaHostRegister(*_: int) -> int:  # noqa: N802
            pending.append("out of memory")
            return 2

    def launch(*_: object, **__: object) -> None:
        if pending:
            raise RuntimeError(f"CUDA error: {pending.pop()}")

    monkeypatch.setattr(torch.cuda, "cudart", lambda: Runtime)
    monkeypatch.setattr(torch, "zeros", launch)
    assert not Arena(256, torch.device("cuda")).pinned
    assert not pending
