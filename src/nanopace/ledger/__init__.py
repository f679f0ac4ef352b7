"""The ledger: the only door between the trainer and the analyst.

The trainer appends events to it and knows nothing of diagnosis; the analyst reads it and never imports torch.
docs/ledger-format.md describes the file.
"""

from nanopace.ledger.events import (
    VERSION,
    CheckpointEvent,
    CompileEvent,
    EndEvent,
    EvalEvent,
    Event,
    GpuEvent,
    MicroBatchEvent,
    NoteEvent,
    ResumeEvent,
    RollbackEvent,
    RunEvent,
    SpanEvent,
    StallEvent,
    StepEvent,
)
from nanopace.ledger.file import EventReader, Ledger, LedgerWriter, read_ledger

__all__ = [
    "VERSION",
    "CheckpointEvent",
    "CompileEvent",
    "EndEvent",
    "EvalEvent",
    "Event",
    "EventReader",
    "GpuEvent",
    "Ledger",
    "LedgerWriter",
    "MicroBatchEvent",
    "NoteEvent",
    "ResumeEvent",
    "RollbackEvent",
    "RunEvent",
    "SpanEvent",
    "StallEvent",
    "StepEvent",
    "read_ledger",
]
