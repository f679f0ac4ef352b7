"""Their declarations. They are light, since every log is checked against them; readers are imported when needed."""

from __future__ import annotations

from nanopace.record import replace
from nanopace.sources.log_format import LogFormat

_HERE = "nanopace.sources.formats.frameworks"
_LOSS = r"-?(?:\d{1,9}\.\d{1,9}|nan|inf)"
_TITAN_STEP = r"(?<!validate )\bstep:\s{1,8}(\d{1,12})(?:/\d{1,12}(?: = \d{1,3}\.\d{1,6}%)?)?\s{1,8}loss:"

TORCHTITAN = LogFormat(
    name="torchtitan",
    trainer="torchtitan",
    reader=f"{_HERE}.torchtitan:TorchtitanReader",
    row=rf"{_TITAN_STEP}\s{{0,8}}{_LOSS}\s.{{0,300}}?\b[tw]ps:\s{{0,8}}\d",
    header=r"\[titan\] \d{4}-\d\d-\d\d |torchtitan version: ",
    words=("step:", "titan"),
    row_words=("loss:",),
    anchors=(_TITAN_STEP, r"\[titan\] \d", "torchtitan version: "),
    row_start=rf"{_TITAN_STEP}(?!\s{{0,8}}-)",  # ranks without the loss print -1
    row_contains_evaluation=False,
    row_time="mean",
)

_MEGATRON_ROW = (
    r"\biteration\s{1,12}\d{1,12}\s?/\s{0,12}\d{1,12}\s?\|.{0,300}?elapsed time per iteration \((?:ms|s)\): "
)

MEGATRON = LogFormat(
    name="megatron",
    trainer="Megatron",
    reader=f"{_HERE}.megatron:MegatronReader",
    row=rf"\b\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{{1,6}})?\]\s{{1,4}}{_MEGATRON_ROW}",
    words=("iteration",),
    row_words=("elapsed time per iteration",),
    anchors=(r"\biteration\s{1,12}\d{1,12}\s?/\s{0,12}\d", "using world size: "),
    row_start=r"\biteration\s{1,12}(\d{1,12})\s?/\s{0,12}\d{1,12}\s?\|",
    row_contains_evaluation=False,
    row_time="mean",
    compiles=False,
)

MEGATRON_2021 = replace(
    MEGATRON,
    name="megatron-2021",  # its clock runs on during evaluations and checkpoints: Megatron-LM until 2023, and forks
    row=_MEGATRON_ROW,
    header=r"\busing world size: \d{1,7}, data-parallel",
    words=("iteration", "using world size: "),
    row_contains_evaluation=True,
)

_LITGPT_ROW = r"\biter {1,9}\d{1,12}(?: \|)? step {1,9}\d{1,12}"

LITGPT = LogFormat(
    name="litgpt",
    trainer="litgpt",
    reader=f"{_HERE}.litgpt:LitgptReader",
    row=rf"{_LITGPT_ROW} \| loss train: {{1,4}}{_LOSS},? .{{0,40}}?\biter time: ",
    header=r"^Time to instantiate model: \d|\bTrainArgs\(save_interval=",
    words=("iter time", "Time to instantiate model: ", "TrainArgs("),
    row_words=("iter time",),
    row_start=r"\biter {1,9}(\d{1,12})(?: \|)? step {1,9}\d{1,12}(?::| \|) loss",
    row_contains_evaluation=False,
)

LIT_GPT = replace(
    LITGPT,
    name="lit-gpt",  # from 2023; its loss is that of a micro-batch
    row=rf"{_LITGPT_ROW}: loss {_LOSS},.{{0,60}}? iter time: ",
    header="",
    words=("iter time",),
    row_words=(),
    row_loss="micro-batch",
)

LINGUA = LogFormat(
    name="lingua",
    trainer="lingua",
    reader=f"{_HERE}.lingua:LinguaReader",
    row=r"\bstep: \d{1,12} {1,4}acc: \d{1,9} {1,4}loss: .{0,120}?\bwps: ",
    header=r"\bINFO\s{1,8}\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6} - .{1,20} - (?:Starting job: |Model size: \d)",
    words=("acc:", "Starting job: ", "Model size: "),
    row_words=("acc:",),
    row_start=r"\bstep: (\d{1,12}) {1,4}acc: \d{1,9} {1,4}loss: ",
    row_time="mean",
    row_loss="micro-batch",
)

LINGUA_METRICS = LogFormat(
    name="lingua-metrics",  # metrics.jsonl
    trainer="lingua",
    reader=f"{_HERE}.lingua:LinguaMetricsReader",
    row=r'"global_step": ?\d{1,12}\b.{0,2000}?"speed/curr_iter_time": ?\d',
    words=("speed/curr_iter_time",),
    row_time="mean",
    row_loss="micro-batch",
)

AUTORESEARCH = LogFormat(
    name="autoresearch",
    trainer="autoresearch",
    reader=f"{_HERE}.autoresearch:AutoresearchReader",
    row=r"step\s*\d{1,9} \(\d{1,3}(?:\.\d{1,2})?%\) \| loss: [^|]{1,40}\|.{0,200}?\| remaining: \d",
    header=r"^Time budget: \d{1,9}s$|^Model config: \{'sequence_len': \d",
    words=("remaining: ", "Time budget: ", "Model config: "),
    extends="nanochat",  # its rows begin the same way
    row_start=r"\bstep (\d{1,9}) \(\d{1,3}(?:\.\d{1,2})?%\) \|",
    row_contains_evaluation=False,
    row_loss="smoothed",
)

FORMATS: tuple[LogFormat, ...] = (
    *(TORCHTITAN, MEGATRON, MEGATRON_2021),
    *(LITGPT, LIT_GPT, LINGUA, LINGUA_METRICS, AUTORESEARCH),
)
