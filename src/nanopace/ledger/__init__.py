"""The ledger: the only link between the trainer and the analyst.

The trainer appends events and knows nothing about diagnosis. The analyst reads them and never imports torch.
docs/ledger-format.md describes the file.
"""

from nanopace.ledger.events import (
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
    SampleEvent,
    SpanEvent,
    StallEvent,
    StepEvent,
)
from nanopace.ledger.file import LedgerWriter, read_ledger

__all__ = [
    "CheckpointEvent",
    "CompileEvent",
    "EndEvent",
    "EvalEvent",
    "Event",
    "GpuEvent",
    "LedgerWriter",
    "MicroBatchEvent",
    "NoteEvent",
    "ResumeEvent",
    "RollbackEvent",
    "RunEvent",
    "SampleEvent",
    "SpanEvent",
    "StallEvent",
    "StepEvent",
    "read_ledger",
]
