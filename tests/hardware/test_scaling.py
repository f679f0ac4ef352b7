"""What several cards change, computed by hand."""

from __future__ import annotations

from nanopace.hardware.scaling import model_bytes, traffic_bytes


def test_one_card_sends_nothing() -> None:
    assert traffic_bytes(1000, 1, "ddp") == traffic_bytes(1000, 1, "fsdp", 8) == 0
    assert model_bytes(1000, 1, "ddp") == 16_000


def test_ddp_holds_everything_and_sends_gradients_once() -> None:
    assert model_bytes(1000, 8, "ddp") == 16_000
    assert traffic_bytes(1000, 2, "ddp") == 4_000  # half of the gradients in each direction, twice
    assert traffic_bytes(1000, 4, "ddp", 1) == traffic_bytes(1000, 4, "ddp", 16) == 6_000


def test_fsdp_holds_a_part_and_sends_weights_with_every_micro_batch() -> None:
    assert model_bytes(1000, 4, "fsdp", 1) == 4_000
    assert model_bytes(1000, 4, "fsdp", 8) == 8_000  # the full gradients accumulate
    assert traffic_bytes(1000, 4, "fsdp", 1) == 6_000
    assert traffic_bytes(1000, 4, "fsdp", 8) == 27_000
