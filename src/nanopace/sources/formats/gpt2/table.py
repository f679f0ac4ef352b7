"""Their declarations. They are light, since every log is checked against them; readers are imported when needed."""

from __future__ import annotations

from nanopace.sources.log_format import LogFormat

_HERE = "nanopace.sources.formats.gpt2"
_REAL = r"-?(?:\d{1,9}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?|nan|inf)"

# A step, its loss and a time. llm.c has a total and no colon, modded-nanogpt a total and no mark before the loss. Both
# cases are spelled out, since an expression that ignores case takes several times as long.
_STEP = r"(?<![\w-])[sS](?:tep|TEP)\s{0,8}[:=#]?\s{0,8}\d{1,12}"
_WORD = r"[lL](?:oss|OSS)\s{0,4}"
_BEFORE_LOSS = rf"(?:\s{{0,4}}/\s{{0,4}}\d{{1,12}}(?=\s{{0,8}}[|,][^:=]{{0,60}}{_WORD}[:=]))?\s{{0,12}}"
_LOSS = (
    rf"(?:(?:[|,]{{1,2}}|with\b)\s{{0,12}}(?:[tT]rain(?:ing)?[\s_]{{0,4}})?{_WORD}[:=]?|{_WORD}[:=])"
    rf"\s{{0,12}}{_REAL}(?![\w.])"
)
_TIME = (
    r"(?:(?<![A-Za-z_])(?<![tT]otal\s)(?<![eE]lapsed\s)"
    r"(?:dt|DT|(?:(?:[sS]tep|[iI]ter)[\s_])?(?:[tT]ime|TIME)|[tT]ook)[\s:=]{0,8}"
    r"|[|,]\s{0,8}(?=\S{1,32}\s?ms))\d{1,12}(?:\.\d{1,20})?\s{0,4}(?:ms|s(?:ecs?|econds)?)(?![A-Za-z/])"
)

_MAKEMORE = rf"step \d{{1,12}} \| loss {_REAL} \| step time \d{{1,12}}\.\d{{2}}ms(?!\s{{0,8}}[|,])"  # no further column

BUILD_NANOGPT = LogFormat(
    name="build_nanogpt",
    trainer="build-nanogpt",
    reader=f"{_HERE}.build_nanogpt:BuildNanogptReader",
    # A row with a reward is reinforcement learning.
    row=rf"(?!{_MAKEMORE}){_STEP}{_BEFORE_LOSS}{_LOSS}(?!.{{0,200}}\breward).{{0,200}}?{_TIME}",
    header=r"total desired batch size:?\s{0,4}\d|=> calculated gradient accumulation steps:|^HellaSwag accuracy: \d",
    words=("step", "Step", "STEP", "total desired batch size", "gradient accumulation steps", "HellaSwag accuracy"),
    row_words=("loss", "Loss", "LOSS"),
    anchors=(
        r"[sS](?:tep|TEP)\s{0,8}[:=#]?\s{0,8}\d",
        r"total desired batch",
        r"gradient accumulation",
        r"HellaSwag acc",
    ),
    # An evaluation looks similar: "step 20 | val loss 7.1", "step 20 | loss 7.2 | val loss 7.1", "eval | step 20".
    row_start=r"(?<![\w-])(?<!val: )(?<!val \| )[sS]tep\s{0,8}[:=#]?\s{0,8}(\d{1,12})(?:\s{0,4}/\s{0,4}\d{1,12})?"
    r"\s{0,12}(?:(?:[|,]{1,2}|with\b)\s{0,12})?(?:[tT]rain(?:ing)?[\s_]{0,4})?[lL]oss\b"
    r"(?![^a-z]{1,40}[vV]al(?:idation)?[\s_][lL]oss[\s:=]{0,8}[\d.]{1,24}\s{0,8}$)",
    row_time="iteration_or_all",
    gpt2_shape=True,
    stops_before_max_iters=True,
)

BUILD_NANOGPT_LOG = LogFormat(
    name="build_nanogpt_log",  # log/log.txt: losses without times
    trainer="build-nanogpt",
    reader=f"{_HERE}.loss_logs:BuildNanogptLogReader",
    row=r"^\s{0,8}\d{1,12} (?:train|val|hella) (?:\d{1,4}\.\d{4,9}|nan|inf)(?![\w.])",
    words=(" train ", " val ", " hella "),
    anchors=(r"\d (?:train|val|hella) [\dni]",),
    row_contains_evaluation=False,
)

LLAMA2C = LogFormat(
    name="llama2c",
    trainer="llama2.c",
    reader=f"{_HERE}.llama2c:Llama2cReader",
    row=r"(?<![\w.])\d{1,12} \| loss (?:\d{1,9}\.\d{1,9}|nan|inf) \| lr \d[^\s|]{0,20} \| \d{1,12}\.\d{1,6}\s?ms",
    header=r"breaks down as: \d{1,9} grad accum steps",
    words=(" | loss ", "breaks down as"),
    anchors=(r"\d \| loss [\dni]", "breaks down as"),
    row_start=r"(?<![\w.])(\d{1,12}) \| loss [\dni]",
    mfu_smoothing=0.9,
    printed_peak=312.0,  # an A100's, on any card
    row_loss="micro-batch",
    nanogpt_knobs=True,
    ends_at_max_iters=True,
)

MINGPT = LogFormat(
    name="mingpt",
    trainer="minGPT",
    reader=f"{_HERE}.mingpt:MingptReader",
    row=rf"\biter_dt \d{{1,12}}\.\d{{1,6}}ms; iter \d{{1,12}}: train loss {_REAL}(?![\w.])",
    words=("iter_dt ",),
    row_start=r"\biter_dt [\d.]{1,20}ms; iter (\d{1,12}): train loss ",
    row_contains_evaluation=False,
    compiles=False,
)

MAKEMORE = LogFormat(
    name="makemore",
    trainer="makemore",
    reader=f"{_HERE}.makemore:MakemoreReader",
    row=rf"(?<![\w-]){_MAKEMORE}",
    header=r"^dataset determined that: vocab_size=\d",
    words=(" | step time ", "dataset determined that: "),
    row_start=r"(?<![\w-])step (\d{1,12}) \| loss \S{1,24} \| step time ",
    row_contains_evaluation=False,
    compiles=False,
    stops_before_max_iters=True,
)

_LLMC_STEP = r"step(?<![\w-]step)\s{1,8}\d{1,12}"  # plain letters first: searched five times as fast
LLMC = LogFormat(
    name="llmc",  # the CUDA and the C program
    trainer="llm.c",
    reader=f"{_HERE}.llmc:LlmcReader",
    row=rf"{_LLMC_STEP}(?:/\d{{1,12}} \| (?:train )?loss\s{{1,12}}{_REAL}[^|]{{0,20}}\| norm [^|]{{1,40}}"
    r"\| lr [^|]{1,20}\| \d{1,12}\.\d{1,9} ms"
    rf"|/\d{{1,12}}: train loss {_REAL} [^|]{{0,80}}?\d ms|: train loss {_REAL} \(took \d)",
    header=r"^\| (?:micro batch size B|padded_vocab_size Vp|val_loss_every) ",
    words=("step ", "micro batch size B", "padded_vocab_size", "val_loss_every"),
    row_words=("loss",),
    anchors=(r"step\s{1,8}\d{1,12}(?:/\d|: train)", "micro batch size B", "padded_vocab_size", "val_loss_every"),
    row_start=r"(?<![\w-])step\s{1,8}(\d{1,12})(?:/\d{1,12}(?: \||: train)|: train loss \S{1,24} \(took)",
    row_contains_evaluation=False,
    gpt2_shape=True,
    ends_at_max_iters=True,
    compiles=False,
    stops_before_max_iters=True,
)

LLMC_PYTHON = LogFormat(
    name="llmc_python",  # train_gpt2.py, whose clock keeps running
    trainer="llm.c",
    reader=f"{_HERE}.llmc:LlmcPythonReader",
    row=rf"{_LLMC_STEP}/\d{{1,12}} \| train loss {_REAL} \| norm [^|]{{1,40}}\| lr [^|]{{1,20}}\| \(\d"
    rf"|(?<![\w-])iteration \d{{1,12}}, loss: {_REAL}, time: \d",
    words=("step ", "iteration "),
    row_words=("loss",),
    anchors=(r"step\s{1,8}\d{1,12}/\d", r"iteration \d{1,12}, loss"),
    row_start=r"(?<![\w-])(?:step\s{1,8}|iteration )(\d{1,12})(?:/\d{1,12} \| train loss|, loss:)",
    gpt2_shape=True,
    ends_at_max_iters=True,
    stops_before_max_iters=True,
)

LLMC_LOG = LogFormat(
    name="llmc_log",  # main.log: losses without times
    trainer="llm.c",
    reader=f"{_HERE}.loss_logs:LlmcLogReader",
    row=r"^\s{0,8}s:\d{1,12} (?:trl|tel):(?:\d|nan|inf)",
    words=(" trl:", " tel:"),
    anchors=(r"s:\d{1,12} t[re]l:",),
    row_contains_evaluation=False,
    compiles=False,
)

LLMQ = LogFormat(
    name="llmq",
    trainer="LLM.Q",
    reader=f"{_HERE}.llmq:LlmqReader",
    row=r"\[T\] step\s{1,8}\d{1,12} \[[\s\d.%]{1,12}\] \| time:\s{0,8}\d{1,12}\s{1,2}m?s \|",
    header=r"^\[Speed of Light\]$|^  (?:recompute-[a-z]{2,12}|matmul-dtype)\s{0,20}: ",
    words=("[T] step", "[Speed of Light]", "recompute-", "matmul-dtype"),
    row_words=("[T] step",),
    row_start=r"\[T\] step\s{1,8}(\d{1,12}) ",
    row_contains_evaluation=False,
    ends_at_max_iters=True,
    compiles=False,
)

LLMQ_JSON = LogFormat(
    name="llmq_json",
    trainer="LLM.Q",
    reader=f"{_HERE}.llmq_json:LlmqJsonReader",
    row=r'^\s{0,8}\{"log": "step", "time": ',
    header=r'^\s{0,8}\{"log": "(?:cmd|option|gpu-model|sol)", "time": ',
    words=('{"log": "',),
    row_contains_evaluation=False,
    ends_at_max_iters=True,
    compiles=False,
)

FORMATS: tuple[LogFormat, ...] = (
    *(BUILD_NANOGPT, BUILD_NANOGPT_LOG, LLAMA2C, MINGPT, MAKEMORE),
    *(LLMC, LLMC_PYTHON, LLMC_LOG),
    *(LLMQ, LLMQ_JSON),
)
