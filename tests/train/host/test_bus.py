"""Copies to and from the host's memory, and the time that is waited for them."""

from __future__ import annotations

import time

import pytest
import torch

from nanopace.train.clock.clock import make_clock
from nanopace.train.host.bus import Bus
from nanopace.train.host.pipeline import Home, Piece, Pipeline

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def test_pieces_go_through_the_slots_and_home_again() -> None:
    homes = [torch.full((5,), float(number)) for number in range(8)]
    pipeline = Pipeline(Bus(DEVICE), 256)
    pipeline.run(Piece([Home(home)], lambda copy: copy.add_(100)) for home in homes)  # type: ignore[arg-type]
    seen: list[torch.Tensor] = []
    pipeline.run(Piece([Home(home, store=False)], lambda copy: seen.append(copy.sum())) for home in homes)
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    assert [home.tolist() for home in homes] == [[100.0 + number] * 5 for number in range(8)]
    assert [each.item() for each in seen] == [500.0 + 5 * number for number in range(8)]


def test_a_read_only_piece_leaves_its_home() -> None:
    home, other = torch.zeros(5), torch.ones(5)

    def use(copy: torch.Tensor, made: torch.Tensor) -> None:
        copy.fill_(7)
        made.fill_(3)

    Pipeline(Bus(DEVICE), 512).run([Piece([Home(home, store=False), Home(other, load=False)], use)])
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    assert not home.any()
    assert (other == 3).all()


def test_what_is_waited_for_is_counted_and_bytes_in_both_directions() -> None:
    clock = make_clock(DEVICE, time.monotonic())
    bus = Bus(DEVICE, clock)
    home, card = torch.ones(1 << 16), torch.zeros(1 << 16, device=DEVICE)
    bus.slow_down((1 << 18) / 0.05)
    bus.load([(home, card)])
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    assert "bus" not in clock.totals  # nobody measures yet
    clock.mark("other", 0)
    bus.during("step", 3)
    bus.wait(bus.load([(home, card)]))
    clock.mark("step", 3)
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    pieces = clock.completed_pieces()
    assert sum(each.ms for each in pieces if each.phase == "bus") == pytest.approx(50, abs=25)
    assert {each.phase for each in pieces if each.iteration == 3} == {"step", "bus"}
    bus.slow_down(None)
    bus.store([(card, home)])
    assert bus.moved == (2 << 18, 1 << 18)
