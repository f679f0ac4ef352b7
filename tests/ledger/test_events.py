"""The events are frozen: ledgers written by old trainers must stay readable."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest

from nanopace.ledger.events import EVENTS, MAJOR, VERSION, StepEvent

# Removing a name or changing its meaning needs a new major version; adding one needs a new minor version.
FROZEN = {
    "run": (
        "at_ms started nanopace config ledger monotonic_s python torch code_hash gpu gpu_memory_gb gpu_sms gpu_count"
        " measured_tflops world_size parameters flops_per_token tokens_per_iteration choices corpus tokenizer trainer"
    ),
    "step": "at_ms iteration ms loss tokens lr grad_norm skipped spike slowest_rank lag",
    "span": "at_ms phase iteration ms background what",
    "eval": (
        "at_ms iteration train val metric ms"
        " val_error train_error train_steps windows bits_per_byte change change_error"
    ),
    "checkpoint": "at_ms iteration path stall_ms background_ms bytes",
    "compile": "at_ms ms what iteration",
    "stall": "at_ms iteration ms reason",
    "gpu": "at_ms iteration sm_mhz memory_mhz watts celsius utilization memory_used_gb throttle",
    "note": "at_ms text iteration",
    "sample": "at_ms iteration text",
    "resume": "at_ms iteration checkpoint lost_iterations",
    "micro_batch": "at_ms iteration batch_size accumulation where",
    "rollback": "at_ms iteration failed_at checkpoint data_offset",
    "end": "at_ms reason wall_ms energy_kwh failure saved",
}


def test_the_events_and_their_fields_are_those_of_version_1_6() -> None:
    assert VERSION == "1.6"
    assert MAJOR == 1
    assert {name: " ".join(entry.name for entry in fields(kind)) for name, kind in EVENTS.items()} == FROZEN


def test_an_event_cannot_be_changed() -> None:
    event = StepEvent(1, 2.0)
    with pytest.raises(FrozenInstanceError):
        event.ms = 3.0  # type: ignore[misc]
    assert not hasattr(event, "__dict__")
