"""Their declarations. They are light, since every log is checked against them; readers are imported when needed."""

from __future__ import annotations

from nanopace.sources.log_format import LogFormat

_HERE = "nanopace.sources.formats.trackers"
_CELLS = r'(?:"[^"\n]{0,200}"|[^,"\n]{0,80}),'  # any number of cells, before one that is required


def _has(cell: str) -> str:
    return rf'(?=(?:{_CELLS}){{0,200}}"?{cell}"?(?:,|\s{{0,4}}$))'


LIGHTNING = LogFormat(
    name="lightning",
    trainer="Lightning",
    reader=f"{_HERE}.tables:TableReader",
    row=rf"^{_has('step')}{_has('epoch')}(?=[^\n]{{0,8000}}loss)[\w/ .,\"()-]{{1,8000}}$",
    words=("epoch",),
    anchors=(r",epoch\b", r"\bepoch,", r",\"epoch\"", r"\"epoch\","),
    written_anew=True,
    row_contains_evaluation=False,
)

WANDB_TABLE = LogFormat(
    name="wandb_csv",
    trainer="W&B",
    reader=f"{_HERE}.tables:TableReader",
    row=rf"^(?:\"?Step\"?,(?=[^\n]{{1,20000}} - [^\n]{{0,200}}__MIN)|{_has('_step')}{_has('_(?:timestamp|runtime)')}"
    r"(?=[^\n]{0,20000}loss))",
    words=("__MIN", "_step"),
    row_contains_evaluation=False,
    row_time="all",
)

TENSORBOARD = LogFormat(
    name="tensorboard",
    trainer="TensorBoard",
    reader=f"{_HERE}.tensorboard:TensorboardReader",
    opening=r"\A[\s\S]{0,187}brain\.Event:2",
    row_contains_evaluation=False,  # see running_clock.py
    row_time="all",
)

WANDB = LogFormat(
    name="wandb",
    trainer="W&B",
    reader=f"{_HERE}.wandb_run:WandbReader",
    opening=r"\A:W&B",
    row_contains_evaluation=False,
    row_time="all",
)

FORMATS: tuple[LogFormat, ...] = (LIGHTNING, WANDB_TABLE, TENSORBOARD, WANDB)
