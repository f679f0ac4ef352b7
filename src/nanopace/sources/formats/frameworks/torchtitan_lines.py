"""The lines of torchtitan's log, in the wordings of three years."""

from __future__ import annotations

import re

ROW = re.compile(
    r"(?<!validate )\bstep:\s{1,8}(?P<step>\d{1,12})(?:/\d{1,12}(?: = \d{1,3}\.\d{1,6}%)?)?\s{1,8}"
    r"loss:\s{0,8}(?P<loss>-?(?:\d{1,9}\.\d{1,9}|nan|inf))\s"
    r".{0,300}?\b[tw]ps:\s{0,8}(?P<rate>\d[\d,]{0,15})(?![\d.,e])"
    r"(?:\s{1,8}tflops:\s{0,8}(?P<tflops>\d[\d,]{0,11}\.\d{1,4}))?"
    r"(?P<mfu>\s{1,8}mfu:\s{0,8}(?:(?P<percent>\d{1,6}\.\d{1,4})%|N/A))?",
    re.ASCII,
)
VALIDATION = re.compile(
    r"\bvalidate step:\s{1,8}(\d{1,12})\s{1,8}loss:\s{0,8}(-?(?:\d{1,9}\.\d{1,9}|nan|inf))\s", re.ASCII
)
SAVED = re.compile(r"Finished (?:saving|staging) the checkpoint.{0,60}?\s?in (\d{1,7}\.\d{1,3}) seconds", re.ASCII)
STARTS = re.compile(r"Training starts at step (\d{1,12})", re.ASCII)
HEADER = re.compile(r"torchtitan version: |Starting job: |Building (?:device mesh|\d-D) ", re.ASCII)
MESH = re.compile(r"Building device mesh with parallelism: (.{1,120})", re.ASCII)
DEGREE = re.compile(r"\b(?:pp|dp_replicate|dp_shard|cp|tp)=(-?\d{1,6})", re.ASCII)  # ep has no GPUs of its own
MESH_2024 = re.compile(r"Building \d-D device mesh with \[[^\]]{0,120}\], \[([\d, ]{1,60})\]", re.ASCII)
BATCH = re.compile(
    r"(?:local batch size|(?P<per_step>\d{1,15}) tokens per train step).{0,200}?total steps:? (?P<steps>\d{1,12})",
    re.ASCII,
)
SIZES = tuple(
    re.compile(rf"{name}:? (\d{{1,12}})", re.ASCII)
    for name in ("local batch size", "global batch size", "(?:sequence|maximum context) length")
)
CARD = re.compile(r"\b(?:CUDA|GPU) capacity: (.{1,100}?) (?:\(\d{1,3}\) )?with (\d{1,6}\.\d\d)GiB memory", re.ASCII)
PARAMETERS = re.compile(r"\bModel .{1,120}? size: (\d[\d,]{0,23}) total parameters", re.ASCII)
PEAK = re.compile(r"Peak FLOPS used for computing MFU: (\d\.\d{1,6}e\+\d{1,2})", re.ASCII)
