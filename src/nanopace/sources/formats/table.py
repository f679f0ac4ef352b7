"""The formats that nanopace reads.

To add one, write a reader in the package of its family, and declare it in that package's table. See
docs/adding-a-format.md.
"""

from __future__ import annotations

from nanopace.record import replace
from nanopace.sources.formats.frameworks import table as frameworks
from nanopace.sources.formats.gpt2 import table as gpt2
from nanopace.sources.formats.hugging_face import table as hugging_face
from nanopace.sources.formats.modded import table as modded
from nanopace.sources.formats.trackers import table as trackers
from nanopace.sources.log_format import LogFormat

_HERE = "nanopace.sources.formats"
_BULK = "nanopace.sources.bulk"

_NANOGPT_ROW_START = (
    r"[iI]ter(?:ation)?\s{0,20}(\d{1,12})(?:\s{0,4}/\s{0,4}\d{1,12})?\s{0,4}[:|]\s{0,20}"
    r"(?:train(?:ing)?[\s_]{0,4})?loss"
    r"(?![^a-z]{1,40}val(?:idation)?[\s_]loss[\s:=]{0,8}[\d.]{1,24}\s{0,8}$)"  # else it is an evaluation
)

NANOGPT = LogFormat(
    name="nanogpt",
    trainer="nanoGPT",
    reader=f"{_HERE}.nanogpt:NanogptReader",
    bulk_reader=f"{_BULK}.nanogpt:feed_bulk",
    row=r"[iI]ter(?:ation)?\s*\d+(?:/\d+)?\s*[:|]\s*(?:train(?:ing)?[\s_]*)?loss[\s:=]{0,40}-?(?:\d+\.\d+|nan|inf)"
    r".{0,200}?(?:time|(?<!iter_)dt)[\s:=]{0,40}\d[\d.]{0,18}\s*(?:ms|s(?:ecs?|econds)?(?![A-Za-z]))",
    header=r"(?:[sS]tep|[iI]ter)\s*\d+[:;,]\s*[tT]rain\s+loss[\s:]|number\s+of\s+parameters:\s*[\d.]+M|tokens\s+per\s+iteration\s+will",
    words=("iter", "Iter", "step", "parameters:"),
    row_words=("loss",),
    anchors=(r"[iI]ter(?:ation)?\s*\d", r"[sS]tep\s*\d", r"number\s+of\s+parameters", r"tokens\s+per\s+iter"),
    row_start=_NANOGPT_ROW_START,
    mfu_smoothing=0.9,
    printed_peak=312.0,  # an A100's, on any card
    row_loss="micro-batch",
    row_time="iteration_or_all",
    nanogpt_knobs=True,
    nanogpt_defaults=True,
    gpt2_shape=True,
    ends_at_max_iters=True,
)

NANOCHAT = LogFormat(
    name="nanochat",
    trainer="nanochat",
    reader=f"{_HERE}.nanochat:NanochatReader",
    bulk_reader=f"{_BULK}.nanochat:feed_bulk_nanochat",
    row=r"step\s*\d+(?:/\d+)?\s*\([\d.]{1,9}%\)\s*\|\s*loss:[^|]{1,40}\|"
    r"(?:(?:[^|]{1,40}\|)?\s*lrm:|\s*dt:[^|]{1,40}\|\s*tok/sec:[^|]{1,40}\|\s*bf16_mfu:\s*[\d.]{1,9}%)",
    header=r"Step\s*\d+\s*\|\s*(?:Validation|CORE)|Estimated\s+FLOPs\s+per\s+token|Tokens\s*/\s*micro-batch",
    words=("step", "Step", "FLOPs", "micro-batch"),
    row_words=("lrm:", "bf16_mfu:"),
    anchors=(r"[sS]tep\s*\d", r"FLOPs\s+per", "micro-batch"),
    row_start=r"\bstep\s{0,8}(\d{1,12})(?:/\d{1,12})?\s{0,4}\([\d.]{1,9}%\)",
    row_contains_evaluation=False,
    zero_mfu_is_unknown=True,
    row_loss="smoothed",
    has_stages=True,
    stops_before_max_iters=True,
    cools_down=True,
)

NANOPACE = LogFormat(
    name="nanopace",  # what our trainer prints
    trainer="nanopace",
    reader=f"{_HERE}.nanopace_log:NanopaceReader",
    row=r"iter \d+: loss \S{1,24}, time [\d.]+ms, mfu (?:[\d.]+%|n/a), \d+ tok/s, ",
    header=r"^\s*nanopace \d\S{0,40} train: ",
    words=("iter", "nanopace"),
    row_words=("loss",),
    anchors=(r"[iI]ter(?:ation)?\s*\d", r"nanopace \d"),
    extends="nanogpt",
    row_start=_NANOGPT_ROW_START,
    row_contains_evaluation=False,
    printed_peak="card",
    nanogpt_knobs=True,
    gpt2_shape=True,
)

LEDGER = LogFormat(
    name="ledger",
    trainer="nanopace",
    reader=f"{_HERE}.ledger:LedgerReader",
    bulk_reader=f"{_BULK}.ledger:feed_bulk_ledger",
    row=r'^\s*\{\s*"event"\s*:\s*"run"',
    words=("event",),
    anchors=('"event"',),
    row_contains_evaluation=False,
    nanogpt_knobs=True,
    gpt2_shape=True,
)

CLOCK = replace(
    LEDGER,
    name="clock",
    trainer="nanopace Clock",  # whatever loop uses it
    row=r'^\s*\{\s*"event"\s*:\s*"run"\s*,\s*"ledger"\s*:\s*"[\d.]{1,20}"\s*,\s*"trainer"\s*:',
    extends="ledger",
    nanogpt_knobs=False,
)

# What a user describes with --pattern. It is never detected, so it is not listed below.
PATTERN = LogFormat(name="pattern", trainer="", reader=f"{_HERE}.pattern_reader:PatternReader")
PATTERN_ELAPSED = LogFormat(name="pattern_elapsed", trainer="", reader=PATTERN.reader, row_time="all")

BUILT_IN = (
    *(NANOGPT, NANOCHAT, NANOPACE, LEDGER, CLOCK),
    *modded.FORMATS,
    *gpt2.FORMATS,
    *hugging_face.FORMATS,
    *frameworks.FORMATS,
    *trackers.FORMATS,
)
