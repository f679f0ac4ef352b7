"""Their declarations. They are light, since every log is checked against them; readers are imported when needed."""

from __future__ import annotations

from nanopace.record import replace
from nanopace.sources.log_format import LogFormat

_FIELDS = r"(?:\S{1,80} ){0,12}?"  # between the step and the time

MODDED = LogFormat(
    name="modded-nanogpt",
    trainer="modded-nanogpt",
    reader="nanopace.sources.formats.modded.reader:ModdedReader",
    row=rf"(?<!\w)step:\d{{1,12}}/\d{{1,12}} {_FIELDS}(?:train_time|t):\d[\d.]{{0,15}}m?s(?!\w)",
    header=r"^Running [Pp]y[Tt]orch \d\S{0,60} compiled for CUDA",
    words=("step:", "compiled for CUDA"),
    anchors=(r"step:\d", r"compiled for CUDA \d"),
    row_start=rf"(?<!\w)step:(\d{{1,12}})/\d{{1,12}} (?!val_loss)(?={_FIELDS}(?:train_time|t):\d)",  # some print others
    row_contains_evaluation=False,
    row_loss="micro-batch",  # the last one of the first GPU
    row_time="clock",
    clock_ms=1.0,
    ends_at_max_iters=True,
    cools_down=True,
)

GOLF = replace(
    MODDED,
    name="parameter-golf",
    trainer="parameter-golf",
    row=r"(?<!\w)step:\d{1,12}/\d{1,12} val_loss:\S{1,24} val_bpb:\S{1,24} train_time:\d"
    r"|^(?:\d[\d.]{0,20} )?\d{1,12}/\d{1,12} train_loss: \S{1,24} train_time: \d[\d.]{0,12}m tok/s: \d",
    header=r"^\s{0,2}train_batch_tokens: ?\d|^val_bpb:enabled tokenizer",
    words=("step:", "train_loss: ", "train_batch_tokens:", "val_bpb:enabled"),
    anchors=(r"step:\d", r"train_loss: \d", r"train_batch_tokens: ?\d", r"val_bpb:enabled"),
    extends="modded-nanogpt",
    row_start=r"(?:(?<!\w)step:|^(?:\d[\d.]{0,20} )?)(\d{1,12})/\d{1,12} (?:train_)?loss:",
    row_loss="step",
    ends_by_time=True,
)

FORMATS: tuple[LogFormat, ...] = (MODDED, GOLF)
