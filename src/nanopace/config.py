"""The knobs of a training run, with nanoGPT's names and defaults, and nanoGPT's config files.

nanoGPT executes its config files. We only read them, by ast: `name = value`, where the value is a literal, or
arithmetic on literals and on names set above. Anything else is refused with its line, and nothing is ever run.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar, cast

from nanopace.errors import ConfigError, UsageError
from nanopace.literals import NotLiteralError, Value, evaluate

if TYPE_CHECKING:
    from pathlib import Path  # 5 ms that only the type checker needs

_V = TypeVar("_V", bound=Value)


def _knob(default: _V, why: str) -> _V:
    made: _V = field(default=default, metadata={"why": why})
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """Every knob, checked once. The defaults are nanoGPT's: GPT-2 124M on OpenWebText, on eight A100."""

    # output
    out_dir: str = _knob("out", "the checkpoints go here, and our ledger")
    eval_interval: int = _knob(2000, "iterations between evaluations: training stands still for each of them")
    log_interval: int = _knob(1, "iterations between printed rows: an evaluation between two rows is invisible")
    eval_iters: int = _knob(200, "batches per split and evaluation: noise falls with the root, cost rises in line")
    eval_only: bool = _knob(False, "evaluate once and leave: to measure a model that is already there")
    always_save_checkpoint: bool = _knob(True, "save after every evaluation, not only after a new best")
    init_from: str = _knob("scratch", "'scratch', 'resume' from out_dir, or a GPT-2 by its name to finetune")
    # Weights & Biases
    wandb_log: bool = _knob(False, "off: a run needs no account and no network")
    wandb_project: str = _knob("owt", "the project there that gathers comparable runs")
    wandb_run_name: str = _knob("gpt2", "what this run is called among them")
    # data
    dataset: str = _knob("openwebtext", "the folder under data/ that holds train.bin and val.bin")
    gradient_accumulation_steps: int = _knob(
        40, "micro-batches per step, over all cards: a large batch in little memory"
    )
    batch_size: int = _knob(12, "sequences per micro-batch: this is what has to fit into the card's memory")
    block_size: int = _knob(1024, "tokens per sequence: the attention's share of the work grows with it")
    # model
    n_layer: int = _knob(12, "depth: parameters and time grow in line with it")
    n_head: int = _knob(12, "attention heads: n_embd / n_head wide each, 64 suits every attention kernel")
    n_embd: int = _knob(768, "width: parameters and time grow with its square")
    vocab_size: int = _knob(
        50304, "GPT-2's 50257 rounded up to a multiple of 64; a dataset's own meta.pkl overrules it"
    )
    dropout: float = _knob(0.0, "none for pretraining, where hardly a token is seen twice; 0.1 and more to finetune")
    bias: bool = _knob(False, "biases in linear and norm layers: without them a little faster and no worse")
    # AdamW
    learning_rate: float = _knob(6e-4, "the peak, after warm-up; smaller models bear more")
    max_iters: int = _knob(600000, "steps in all: 300 billion tokens at these defaults")
    weight_decay: float = _knob(0.1, "on matrices only, never on norms and biases")
    beta1: float = _knob(0.9, "memory of the mean gradient, about 10 steps")
    beta2: float = _knob(0.95, "memory of its square, about 20 steps; raise it where a step has few tokens")
    grad_clip: float = _knob(1.0, "largest gradient norm, against the odd bad batch; 0 turns it off")
    # learning rate schedule
    decay_lr: bool = _knob(True, "warm up, then fall along a cosine; else the rate is constant")
    warmup_iters: int = _knob(2000, "linear rise, until AdamW's averages have settled")
    lr_decay_iters: int = _knob(600000, "where the cosine ends: best at max_iters")
    min_lr: float = _knob(6e-5, "where it ends up: about a tenth of the peak")
    # system
    backend: str = _knob("nccl", "how several cards talk: 'nccl' on CUDA, 'gloo' on CPUs")
    device: str = _knob("cuda", "'cuda', 'cuda:1', 'cpu', or 'mps' on a Mac")
    dtype: str = _knob("bfloat16", "'float16' on cards without bfloat16 (it needs loss scaling), 'float32' anywhere")
    compile: bool = _knob(
        True, "a minute at the start, and from then on fewer and larger kernels: often half of the step time"
    )
    # nanopace's own
    seed: int = _knob(1337, "of the initial weights, the order of the data and dropout; nanoGPT's is always 1337")
    documents: bool = _knob(False, "windows begin where documents begin, instead of anywhere")
    eval_train: str = _knob("steps", "the training loss: of the 'steps' themselves, free, or of a 'full' second pass")
    eval_target_error: float = _knob(0.0, "evaluate until the error is this small, such as 0.003; 0: eval_iters says")
    save_interval: int = _knob(0, "iterations between checkpoints; 0: one with each evaluation")
    keep_last: int = _knob(2, "checkpoints that stay, beside the best one")
    memory_limit: str = _knob(
        "", "of the card's memory, such as 12GiB: a small card tried on a large one; '': all"
    )
    parallel: str = _knob("ddp", "several cards: 'ddp', each holds the whole model, or 'fsdp', each a part of it")
    overwrite: bool = _knob(False, "begin anew in an out_dir that holds a run, and remove that run's checkpoints")

    def __post_init__(self) -> None:
        for knob in KNOBS.values():
            value = getattr(self, knob.name)
            fitted = knob.fitted(value)
            if fitted is None:
                raise ConfigError(
                    "{knob} must be {kind}, not {value}", knob=knob.name, kind=knob.kind, value=repr(value)
                )
            object.__setattr__(self, knob.name, fitted)
        if self.n_embd % self.n_head:
            raise ConfigError(
                "n_embd must be a multiple of n_head: {n_embd} is not one of {n_head}",
                n_embd=self.n_embd,
                n_head=self.n_head,
            )
        if self.decay_lr and self.min_lr > self.learning_rate:
            raise ConfigError(
                "min_lr must not be above learning_rate: {min_lr} is above {learning_rate}",
                min_lr=self.min_lr,
                learning_rate=self.learning_rate,
            )
        for name, known in CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                raise ConfigError(
                    "{knob} must be one of {known}, not {value!r}", knob=name, known=", ".join(known), value=value
                )

    @property
    def tokens_per_iteration(self) -> int:
        """Over all cards: accumulation is."""
        return self.gradient_accumulation_steps * self.batch_size * self.block_size

    def as_dict(self) -> dict[str, Value]:
        return {name: getattr(self, name) for name in KNOBS}


CHOICES: Mapping[str, tuple[str, ...]] = {
    "dtype": ("float32", "bfloat16", "float16"),
    "eval_train": ("steps", "full"),
    "parallel": ("ddp", "fsdp"),
}

_COUNTS = ("eval_interval", "log_interval", "eval_iters", "gradient_accumulation_steps", "batch_size", "block_size")
_SHAPES = ("n_layer", "n_head", "n_embd", "vocab_size", "lr_decay_iters", "keep_last")
_AMOUNTS = ("max_iters", "warmup_iters", "learning_rate", "min_lr", "weight_decay", "grad_clip")
_OWN_AMOUNTS = ("seed", "eval_target_error", "save_interval")
_FRACTIONS = ("dropout", "beta1", "beta2")
_RANGES: Mapping[str, tuple[int, float]] = {
    **dict.fromkeys(_COUNTS + _SHAPES, (1, math.inf)),
    **dict.fromkeys(_AMOUNTS + _OWN_AMOUNTS, (0, math.inf)),
    **dict.fromkeys(_FRACTIONS, (0, 1)),
}


@dataclass(frozen=True, slots=True)
class Knob:
    """One knob: its default, and why it has it."""

    name: str
    default: Value
    why: str

    @property
    def kind(self) -> str:
        """What a value has to be, as a formula that is read alike in every language."""
        if isinstance(self.default, bool):
            return "True/False"
        kind = type(self.default).__name__
        if self.name not in _RANGES:
            return kind
        least, below = _RANGES[self.name]
        return f"{kind} >= {least}" if below == math.inf else f"{kind} >= {least}, < {below}"

    def fitted(self, value: Value) -> Value | None:
        """The value as this knob's type, or None if it cannot be one: 6e5 is a whole number, True is none."""
        wanted = type(self.default)
        if wanted is float and type(value) is int:
            value = float(value)
        elif wanted is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is not wanted:
            return None
        if self.name in _RANGES:
            least, below = _RANGES[self.name]
            return value if isinstance(value, (int, float)) and least <= value < below else None
        return value


KNOBS: Mapping[str, Knob] = MappingProxyType(
    {each.name: Knob(each.name, cast(Value, each.default), each.metadata["why"]) for each in fields(TrainConfig)}
)


# --- config files ----------------------------------------------------------------------------------------------------

_LARGEST_FILE = 1 << 20  # bytes: a config has fifty lines; whatever is larger is something else


def read_config(path: str | Path) -> dict[str, Value]:
    """The knobs that a config file sets, by name. Names that nanoGPT does not know are kept too."""
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST_FILE + 1)
    except FileNotFoundError:
        raise ConfigError("{path}: no such config file", path=path) from None
    except IsADirectoryError:
        raise ConfigError("{path}: is a directory, not a config file", path=path) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError("{path}: cannot be read: {reason}", path=path, reason=reason) from None
    if len(data) > _LARGEST_FILE:
        raise ConfigError("{path}: too large for a config file", path=path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("{path}, line {line}: is not UTF-8 text", path=path, line=line) from None
    return read_config_text(text, str(path))


def read_config_text(text: str, name: str) -> dict[str, Value]:
    """The knobs that the text of a config file sets. `name` is what errors call it."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    found: dict[str, object] = {}
    for statement in _parsed(text, name).body:
        match statement:
            case ast.Expr(value=ast.Constant(value=str())):
                continue  # a docstring
            case ast.Assign(targets=[ast.Name(id=target)], value=expression):
                try:
                    value = evaluate(expression, found)
                except NotLiteralError as reason:
                    raise _refused(name, text, reason.line) from None
                found[target] = _checked(target, value, name, statement.lineno)
            case _:
                raise _refused(name, text, statement.lineno)
    return {target: value for target, value in found.items() if isinstance(value, (bool, int, float, str))}


def _parsed(text: str, name: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an odd escape in somebody's text, which is not ours to say
            return ast.parse(text)
    except SyntaxError as error:
        raise ConfigError(
            "{path}, line {line}: is not Python: {reason}", path=name, line=error.lineno or 1, reason=error.msg
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ConfigError(
            "{path}: is not a config file: {reason}", path=name, reason=str(error) or "too nested"
        ) from None


def _refused(name: str, text: str, line: int) -> ConfigError:
    code = text.split("\n")[line - 1].strip()
    return ConfigError(
        "{path}, line {line}: only name = literal is read, and nothing is executed: {code}",
        path=name,
        line=line,
        code=code if len(code) <= 60 else code[:59] + "…",
    )


def _checked(target: str, value: object, name: str, line: int) -> object:
    knob = KNOBS.get(target)
    if knob is None or not isinstance(value, (bool, int, float, str)):
        return value
    fitted = knob.fitted(value)
    if fitted is None:
        raise ConfigError(
            "{path}, line {line}: {knob} must be {kind}, not {value}",
            path=name,
            line=line,
            knob=target,
            kind=knob.kind,
            value=repr(value),
        )
    return fitted


# --- overrides -------------------------------------------------------------------------------------------------------


def read_override(text: str) -> tuple[str, Value]:
    """'batch_size=8', as --set takes it, as ('batch_size', 8)."""
    name, equals, written = (part.strip() for part in text.partition("="))
    if not equals or not name:
        raise UsageError("--set {text}: must be knob=value, such as batch_size=8", text=text)
    if name not in KNOBS:
        raise _unknown_knob(name)
    return name, read_knob(name, written, flag=f"--set {name}")


def read_knob(name: str, written: str, flag: str) -> Value:
    """A knob's value from the command line. What is no literal is a text. `flag` is what an error calls it."""
    knob = KNOBS[name]
    value = knob.fitted(_literal_or_text(written, knob))
    if value is None:
        raise UsageError("{flag}: must be {kind}, not {value}", flag=flag, kind=knob.kind, value=repr(written))
    return value


def _literal_or_text(written: str, knob: Knob) -> Value:
    if isinstance(knob.default, bool) and written.lower() in ("true", "false"):
        return written.lower() == "true"
    try:
        value = evaluate(ast.parse(written, mode="eval").body, {})
    except (SyntaxError, ValueError, RecursionError, MemoryError, NotLiteralError):
        return written
    if isinstance(value, (bool, int, float, str)) and isinstance(value, str) == isinstance(knob.default, str):
        return value
    return written  # wandb_run_name=7 is the text "7"


def _unknown_knob(name: str) -> UsageError:
    from difflib import get_close_matches  # 10 ms, and only a typing error needs it

    near = get_close_matches(name, KNOBS, n=1, cutoff=0.5)
    if near:
        return UsageError("--set {knob}: no such knob; did you mean {near}?", knob=name, near=near[0])
    return UsageError("--set {knob}: no such knob; nanoGPT's names are known, such as batch_size", knob=name)
