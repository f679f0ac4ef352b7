"""Their declarations. They are light, since every log is checked against them; readers are imported when needed."""

from __future__ import annotations

from nanopace.sources.log_format import LogFormat

_HERE = "nanopace.sources.formats.hugging_face"

TRAINER_STATE = LogFormat(
    name="hf_trainer_state",
    trainer="Hugging Face Trainer",
    reader=f"{_HERE}.trainer_state:TrainerStateReader",
    opening=r'\A(?:\xef\xbb\xbf)?\s{0,80}(?:\{(?:[^\0}]|\}(?!\s{0,9}\{)){0,8000}?"log_history"\s{0,8}:\s{0,8}\['
    r'|\[\s{0,80}\{(?=[^{}]{0,4000}"step"\s{0,8}:)(?=[^{}]{0,4000}"epoch"\s{0,8}:)[^{}]{0,4000}"(?:eval_)?loss"\s{0,8}:)',
    row_contains_evaluation=False,
    row_loss="smoothed",
    row_time="all",
    ends_at_max_iters=True,
)

CONSOLE = LogFormat(
    name="hf_console",
    trainer="Hugging Face Trainer",
    reader=f"{_HERE}.console:ConsoleReader",
    row=r"\{'(?:loss|eval_loss|train_runtime)': [^{}]{1,4000}?'epoch': "
    r"|\{(['\"])loss\1: [^{}]{1,4000}?\1(?:global_step(?:/max_steps)?|step)\1: ",
    header=r"\*{5} Running training \*{5}",
    words=("{'loss'", "{'eval_loss'", "{'train_runtime'", '{"loss"', "Running training"),
    anchors=(r"\{['\"](?:eval_)?loss['\"]: ", r"\{'train_runtime': ", r"\*{5} Running training"),
    row_contains_evaluation=False,  # see running_clock.py
    row_loss="smoothed",
    ends_at_max_iters=True,
    row_time="all",
)

LLAMA_FACTORY = LogFormat(
    name="llama_factory",
    trainer="LLaMA-Factory",
    reader=f"{_HERE}.llama_factory:LlamaFactoryReader",
    row=r'^\s{0,8}\{"current_steps": \d{1,12}, "total_steps": \d{1,12}, ',
    words=("current_steps",),
    row_start=r'^\s{0,8}\{"current_steps": (\d{1,12}), "total_steps": \d{1,12}, "loss": [^n]',
    row_contains_evaluation=False,  # see running_clock.py
    row_loss="smoothed",
    ends_at_max_iters=True,
    row_time="all",
)

_BETWEEN = r"\s{0,20}[\t|]\s{0,20}"  # cells
SHOWN_TABLE = LogFormat(
    name="hf_table",  # in a notebook
    trainer="Hugging Face Trainer",
    reader=f"{_HERE}.shown_table:ShownTableReader",
    row=r"(?:^|[\t|])\s{0,20}"
    rf"(?:(?:Step|Epoch){_BETWEEN}Training Loss|Training Loss{_BETWEEN}Epoch{_BETWEEN}Step)\s{{0,20}}(?:$|[\t|])",
    header=r"\[\s{0,12}\d{1,12}/\d{1,12} [\d:]{4,15}(?: < [^\]<]{1,60}?)?, Epoch [\d.]{1,9}/\d{1,9}\]",
    words=("Training Loss", ", Epoch "),
    row_words=("Training Loss",),
    row_contains_evaluation=False,
    row_loss="smoothed",
    ends_at_max_iters=True,
)

FORMATS: tuple[LogFormat, ...] = (TRAINER_STATE, CONSOLE, LLAMA_FACTORY, SHOWN_TABLE)
