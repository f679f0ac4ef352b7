"""The knobs of a training run, with nanoGPT's names and defaults. How people write them is in config_text.py."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from types import MappingProxyType
from typing import Literal, TypeVar, cast

from nanopace.errors import ConfigError
from nanopace.literals import Value, shown

_V = TypeVar("_V", bound=Value)


Affected = Literal["model", "optimisation"]  # what a knob can have a say in


def _knob(default: _V, why: str, *affects: Affected) -> _V:
    made: _V = field(default=default, metadata={"why": why, "affects": affects})
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
        40, "micro-batches per step, over all cards: a large batch in little memory", "optimisation"
    )
    batch_size: int = _knob(
        12, "sequences per micro-batch: this is what has to fit into the card's memory", "optimisation"
    )
    block_size: int = _knob(1024, "tokens per sequence: the attention's share of the work grows with it", "model")
    # model
    n_layer: int = _knob(12, "depth: parameters and time grow in line with it", "model")
    n_head: int = _knob(12, "attention heads: n_embd / n_head wide each, 64 suits every attention kernel", "model")
    n_embd: int = _knob(768, "width: parameters and time grow with its square", "model")
    vocab_size: int = _knob(
        50304, "GPT-2's 50257 rounded up to a multiple of 64; a dataset's own meta.pkl overrules it", "model"
    )
    dropout: float = _knob(
        0.0, "none for pretraining, where hardly a token is seen twice; 0.1 and more to finetune", "model"
    )
    bias: bool = _knob(False, "biases in linear and norm layers: without them a little faster and no worse", "model")
    # AdamW
    learning_rate: float = _knob(6e-4, "the peak, after warm-up; smaller models bear more", "optimisation")
    max_iters: int = _knob(600000, "steps in all: 300 billion tokens at these defaults", "optimisation")
    weight_decay: float = _knob(0.1, "on matrices only, never on norms and biases", "optimisation")
    beta1: float = _knob(0.9, "memory of the mean gradient, about 10 steps", "optimisation")
    beta2: float = _knob(
        0.95, "memory of its square, about 20 steps; raise it where a step has few tokens", "optimisation"
    )
    grad_clip: float = _knob(1.0, "largest gradient norm, against the odd bad batch; 0 turns it off", "optimisation")
    # learning rate schedule
    decay_lr: bool = _knob(True, "warm up, then fall along a cosine; else the rate is constant", "optimisation")
    warmup_iters: int = _knob(2000, "linear rise, until AdamW's averages have settled", "optimisation")
    lr_decay_iters: int = _knob(600000, "where the cosine ends: best at max_iters", "optimisation")
    min_lr: float = _knob(6e-5, "where it ends up: about a tenth of the peak", "optimisation")
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
    eval_train: str = _knob(
        "auto", "the training loss: of the past 'steps', free, or nanoGPT's, a 'full' second pass; 'auto': by its cost"
    )
    eval_target_error: float = _knob(0.0, "evaluate until the error is this small, such as 0.003; 0: eval_iters says")
    save_interval: int = _knob(0, "iterations between checkpoints; 0: one with each evaluation; -1: none at all")
    keep_last: int = _knob(2, "checkpoints that stay, beside the best one")
    fused: bool = _knob(True, "kernels of our own, where they take the model; False: what torch.compile makes of it")
    fp8: bool = _knob(False, "matrix products after norms in 8 bits, forward only, where the card is faster that way")
    memory: str = _knob("auto", "what is done without to save memory: 'auto', as little as fits; or steps by name")
    memory_limit: str = _knob("", "of the card's memory, such as 12GiB: a small card tried on a large one; '': all")
    parallel: str = _knob("ddp", "several cards: 'ddp', each holds the whole model, or 'fsdp', each a part of it")
    recipe: str = _knob("gpt2", "'gpt2' as nanoGPT trains it, or 'fast': the same loss in less time")
    without: str = _knob("", "ingredients of the recipe that are left out, such as rope,muon: what each is worth")
    matrix_lr: float = _knob(0.02, "Muon's peak, of the matrices in recipe=fast; learning_rate is AdamW's")
    cooldown: float = _knob(0.5, "the last part of max_iters, in which the rates of recipe=fast fall in a line")
    which: str = _knob(
        "", "of the run in init_from: 'best', 'last' or a step; '': best if it saved only those, else last"
    )
    rescue_dir: str = _knob(
        "", "for the last checkpoint if out_dir cannot take it: a directory on another disk; '': none"
    )
    overwrite: bool = _knob(False, "begin anew in an out_dir that holds a run, and remove that run's checkpoints")

    def __post_init__(self) -> None:
        for knob in KNOBS.values():
            value = getattr(self, knob.name)
            fitted = knob.fitted(value)
            if fitted is None:
                raise ConfigError(
                    "{knob} must be {kind}, not {value}", knob=knob.name, kind=knob.kind, value=shown(value)
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
        if self.parallel == "fsdp" and self.dtype == "float16":
            raise ConfigError(
                "parallel=fsdp and dtype=float16 exclude each other: float16 needs its losses scaled, which only ddp "
                "does; or take dtype=bfloat16"
            )
        memory_bytes(self.memory_limit)
        step_of_which(self.which)
        if "gradients" in (memory_steps(self.memory) or ()):
            self._check_release()
        object.__setattr__(self, "without", ",".join(left_out(self.recipe, self.without)))
        if self.recipe != "gpt2":
            self._check_recipe()

    def _check_release(self) -> None:
        if self.gradient_accumulation_steps > 1:
            raise ConfigError(
                "memory=gradients keeps none for a second micro-batch: it takes gradient_accumulation_steps=1, not "
                "{steps}",
                steps=self.gradient_accumulation_steps,
            )
        if self.recipe != "gpt2":
            raise ConfigError(
                "memory=gradients and recipe={recipe} exclude each other: Muon steps with all layers at once; "
                "take recipe=gpt2",
                recipe=self.recipe,
            )

    def _check_recipe(self) -> None:
        if self.parallel == "fsdp":
            raise ConfigError(
                "recipe={recipe} and parallel=fsdp exclude each other: Muon needs every matrix whole; "
                "take parallel=ddp",
                recipe=self.recipe,
            )
        if self.bias:
            raise ConfigError("recipe={recipe} has no biases; leave bias=False", recipe=self.recipe)
        if "rope" in ingredients(self.recipe, self.without) and self.n_embd // self.n_head % 2:
            raise ConfigError(
                "n_embd / n_head must be even with recipe={recipe}, which turns pairs of values: "
                "{n_embd} / {n_head} is not",
                recipe=self.recipe,
                n_embd=self.n_embd,
                n_head=self.n_head,
            )

    @property
    def tokens_per_iteration(self) -> int:
        """Over all cards: accumulation is."""
        return self.gradient_accumulation_steps * self.batch_size * self.block_size

    def as_dict(self) -> dict[str, Value]:
        return {name: getattr(self, name) for name in KNOBS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What config files and flags say, each knob by its last word, and how they said it."""

    given: Mapping[str, Value]
    files: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()  # the knobs of which a flag had the last word
    overruled: Mapping[str, Value] = field(default_factory=dict)  # what the files say of knobs in `flags`
    auto: bool = False  # --auto: the machine decides what is left open
    notes: tuple[str, ...] = ()  # lines for a person: what was passed over in a file, and why that does no harm

    @property
    def machine_decides(self) -> bool:
        """Who asks for something of the training has nanoGPT's defaults for the rest of it, or says --auto."""
        if self.given.get("init_from") == "resume":
            return False  # that was decided when the run began
        return self.auto or not (self.files or any(KNOBS[name].asks_for_a_training for name in self.given))


CHOICES: Mapping[str, tuple[str, ...]] = {
    "dtype": ("float32", "bfloat16", "float16"),
    "eval_train": ("auto", "steps", "full"),
    "parallel": ("ddp", "fsdp"),
    "recipe": ("gpt2", "fast"),
}

# What a recipe is made of beyond GPT-2, each of which `without` can leave out; train/recipes.py says what it is.
INGREDIENTS: Mapping[str, tuple[str, ...]] = {
    "gpt2": (),
    "fast": ("muon", "normuon", "trapezoid", "rope", "qk_norm", "relu2", "soft_cap", "value_embeddings"),
}


def left_out(recipe: str, written: str) -> tuple[str, ...]:
    """The ingredients that somebody wrote behind `without`, in the recipe's own order."""
    known = INGREDIENTS[recipe]
    names = {name.strip() for name in written.split(",")} - {""}
    if names and not known:
        raise ConfigError(
            "without={value}: recipe={recipe} has nothing to leave out", value=shown(written), recipe=recipe
        )
    for name in sorted(names - set(known)):
        raise ConfigError(
            "without must name ingredients of recipe={recipe}, not {value}: it has {known}",
            recipe=recipe,
            value=shown(name),
            known=", ".join(known),
        )
    return tuple(name for name in known if name in names)


@cache
def ingredients(recipe: str, without: str) -> frozenset[str]:
    """What is in it. Asked at every step."""
    return frozenset(INGREDIENTS[recipe]) - set(left_out(recipe, without))


MEMORY_STEPS = ("activation", "hidden", "attention", "averages", "gradients")  # in the order of what they cost


def memory_steps(written: str) -> tuple[str, ...] | None:
    """The steps that the knob memory names, in their order, '' for none; None for auto."""
    if written == "auto":
        return None
    named = {each.strip() for each in written.split(",")} - {""}
    if not named <= set(MEMORY_STEPS):
        raise ConfigError(
            "memory must be auto, or some of {known}, not {value}", known=", ".join(MEMORY_STEPS), value=shown(written)
        )
    if "gradients" in named:
        named.add("averages")  # the optimizer that updates weight by weight has them
    return tuple(each for each in MEMORY_STEPS if each in named)


_BYTES = {"MB": 10**6, "GB": 10**9, "TB": 10**12, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def memory_bytes(written: str) -> int | None:
    """An amount of memory such as 12GiB, as memory_limit takes it; None where nothing is written."""
    if not written:
        return None
    found = re.fullmatch(r"([0-9]{1,7}(?:\.[0-9]{1,3})?) ?([MGT]i?B)", written)
    if found is None or not float(found[1]):
        raise ConfigError("memory_limit must be an amount such as 12GiB or 12288MiB, not {value}", value=shown(written))
    return int(float(found[1]) * _BYTES[found[2]])


def step_of_which(written: str) -> int | None:
    """The step that the knob which names; None where it says best, last or nothing."""
    if written in ("", "best", "last"):
        return None
    if not re.fullmatch(r"[0-9]{1,18}", written):
        raise ConfigError("--which must be best, last or a step such as 150, not {value}", value=shown(written))
    return int(written)


_COUNTS = ("eval_interval", "log_interval", "eval_iters", "gradient_accumulation_steps", "batch_size", "block_size")
_SHAPES = ("n_layer", "n_head", "n_embd", "vocab_size", "lr_decay_iters", "keep_last")
_AMOUNTS = ("max_iters", "warmup_iters", "learning_rate", "min_lr", "weight_decay", "grad_clip")
_OWN_AMOUNTS = ("seed", "eval_target_error", "matrix_lr")
_FRACTIONS = ("dropout", "beta1", "beta2", "cooldown")
_NEVER_EMPTY = ("out_dir", "init_from", "dataset", "backend", "device")
_RANGES: Mapping[str, tuple[int, float]] = {
    **dict.fromkeys(_COUNTS + _SHAPES, (1, math.inf)),
    **dict.fromkeys(_AMOUNTS + _OWN_AMOUNTS, (0, math.inf)),
    **dict.fromkeys(_FRACTIONS, (0, 1)),
    "save_interval": (-1, math.inf),
    **dict.fromkeys(("num_samples", "max_new_tokens"), (1, math.inf)),  # these are of `nanopace sample`
    **dict.fromkeys(("temperature", "top_k"), (0, math.inf)),
}
_LARGEST_INT = 1 << 63  # what torch, numpy and a ledger can count to


@dataclass(frozen=True, slots=True)
class Knob:
    """One knob: its default, why it has it, and what it has a say in."""

    name: str
    default: Value
    why: str
    affects: frozenset[Affected] = frozenset()

    @property
    def asks_for_a_training(self) -> bool:
        """Who gives it has a certain training in mind. The other knobs say where, on what and how it is told of."""
        return not self.affects.isdisjoint(("model", "optimisation"))

    @property
    def kind(self) -> str:
        """What a value has to be, as a formula that is read alike in every language."""
        if isinstance(self.default, bool):
            return "True/False"
        kind = type(self.default).__name__
        if self.name not in _RANGES:
            return f"{kind} != ''" if self.name in _NEVER_EMPTY else kind
        least, below = _RANGES[self.name]
        return f"{kind} >= {least}" if below == math.inf else f"{kind} >= {least}, < {below}"

    def fitted(self, value: Value) -> Value | None:
        """The value as this knob's type, or None if it cannot be one: 6e5 is a whole number, True is none."""
        wanted = type(self.default)
        if wanted is float and type(value) is int:
            value = float(value) if abs(value) < _LARGEST_INT else math.inf
        elif wanted is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is not wanted:
            return None
        if isinstance(value, str):  # a zero byte can be in no name of a file
            return None if "\0" in value or (self.name in _NEVER_EMPTY and not value.strip()) else value
        if self.name in _RANGES:
            least, below = _RANGES[self.name]
            return value if least <= value < below and (wanted is float or value < _LARGEST_INT) else None
        return value


KNOBS: Mapping[str, Knob] = MappingProxyType(
    {
        each.name: Knob(each.name, cast(Value, each.default), each.metadata["why"], frozenset(each.metadata["affects"]))
        for each in fields(TrainConfig)
    }
)
