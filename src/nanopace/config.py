"""The knobs of a training run, with nanoGPT's names and defaults. config_text.py parses what people write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, TypeVar, cast

from nanopace.errors import ConfigError
from nanopace.knob import Effect, Knob, Part
from nanopace.knob_values import ingredients, left_out, memory_bytes, memory_steps, step_of_which
from nanopace.literals import Value, shown
from nanopace.memory_ladder import keeps_gradients, on_host

_V = TypeVar("_V", bound=Value)


def _knob(default: _V, part: Part, effect: Effect, why: str, **more: Any) -> _V:
    made: _V = field(default=default, metadata={"part": part, "effect": effect, "why": why, **more})
    return made


def _own(default: _V, part: Part, effect: Effect, why: str, **more: Any) -> _V:
    """A knob that nanoGPT does not have."""
    return _knob(default, part, effect, why, nanogpt=False, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """All knobs, checked once. The defaults are nanoGPT's: GPT-2 124M on OpenWebText, on eight A100s."""

    # output
    out_dir: str = _knob("out", "call", "bookkeeping", "where checkpoints and the ledger go", may_be_empty=False)
    eval_interval: int = _knob(
        2000, "run", "bookkeeping", "iterations between evaluations: training pauses for each one", least=1
    )
    log_interval: int = _knob(
        1, "run", "bookkeeping", "iterations between log lines: an evaluation between two lines does not show", least=1
    )
    eval_iters: int = _knob(
        200,
        "run",
        "bookkeeping",
        "batches per split and evaluation: noise falls with the square root, cost grows linearly",
        least=1,
    )
    eval_only: bool = _knob(False, "call", "bookkeeping", "evaluate once and exit: to measure an existing model")
    always_save_checkpoint: bool = _knob(
        True, "run", "bookkeeping", "save after every evaluation, not only after a new best"
    )
    init_from: str = _knob(
        "scratch",
        "call",
        "loss",
        "'scratch', 'resume' from out_dir, or the name of a GPT-2 to fine-tune",
        may_be_empty=False,
    )
    # Weights & Biases
    wandb_log: bool = _knob(False, "site", "bookkeeping", "off: a run needs no account and no network")
    wandb_project: str = _knob("owt", "site", "bookkeeping", "the W&B project for comparable runs")
    wandb_run_name: str = _knob("gpt2", "site", "bookkeeping", "the name of this run in that project")
    # data
    dataset: str = _knob(
        "openwebtext", "run", "loss", "the folder under data/ that holds train.bin and val.bin", may_be_empty=False
    )
    gradient_accumulation_steps: int = _knob(
        40, "training", "speed", "micro-batches per step, across all cards: a large batch in little memory", least=1
    )
    batch_size: int = _knob(
        12, "training", "speed", "sequences per micro-batch: this has to fit in the card's memory", least=1
    )
    block_size: int = _knob(
        1024, "shape", "speed", "tokens per sequence: the attention's share of the work grows with it", least=1
    )
    # model
    n_layer: int = _knob(12, "shape", "speed", "depth: parameters and time grow linearly with it", least=1)
    n_head: int = _knob(
        12, "shape", "speed", "attention heads, each n_embd / n_head wide: 64 suits every attention kernel", least=1
    )
    n_embd: int = _knob(768, "shape", "speed", "width: parameters and time grow with its square", least=1)
    vocab_size: int = _own(
        50304,
        "shape",
        "speed",
        "GPT-2's 50257, rounded up to a multiple of 64; a dataset's own meta.pkl takes precedence",
        least=1,
    )
    dropout: float = _knob(
        0.0,
        "training",
        "speed",
        "none for pretraining, where hardly any token is seen twice; 0.1 or more for fine-tuning",
        least=0,
        below=1,
    )
    bias: bool = _knob(
        False, "shape", "speed", "biases in linear and norm layers: slightly faster and no worse without them"
    )
    # AdamW
    learning_rate: float = _knob(
        6e-4, "training", "loss", "the maximum, after warm-up; smaller models tolerate more", least=0
    )
    max_iters: int = _knob(600000, "training", "loss", "total steps: 300 billion tokens with these defaults", least=0)
    weight_decay: float = _knob(0.1, "training", "loss", "on matrices only, never on norms and biases", least=0)
    beta1: float = _knob(0.9, "training", "loss", "memory of the mean gradient, about 10 steps", least=0, below=1)
    beta2: float = _knob(
        0.95,
        "training",
        "loss",
        "memory of its square, about 20 steps; raise it if a step has few tokens",
        least=0,
        below=1,
    )
    grad_clip: float = _knob(
        1.0, "training", "loss", "maximum gradient norm, against the odd bad batch; 0 turns it off", least=0
    )
    # learning rate schedule
    decay_lr: bool = _knob(
        True, "training", "loss", "warm up, then decay along a cosine; otherwise the rate is constant"
    )
    warmup_iters: int = _knob(2000, "training", "loss", "linear ramp-up, until AdamW's averages have settled", least=0)
    lr_decay_iters: int = _knob(600000, "training", "loss", "where the cosine ends: best at max_iters", least=1)
    min_lr: float = _knob(6e-5, "training", "loss", "where the rate ends up: about a tenth of the maximum", least=0)
    # system
    backend: str = _knob(
        "nccl", "site", "speed", "how several cards communicate: 'nccl' on CUDA, 'gloo' on CPUs", may_be_empty=False
    )
    device: str = _knob("cuda", "machine", "speed", "'cuda', 'cuda:1', 'cpu', or 'mps' on a Mac", may_be_empty=False)
    dtype: str = _knob(
        "bfloat16",
        "machine",
        "speed",
        "'float16' on cards without bfloat16 (it needs loss scaling), 'float32' anywhere",
        choices=("float32", "bfloat16", "float16"),
    )
    compile: bool = _knob(
        True,
        "machine",
        "speed",
        "takes a minute at the start; then fewer, larger kernels: often half the step time",
    )
    # nanopace's own
    seed: int = _own(
        1337,
        "run",
        "loss",
        "seed of the initial weights, the data order and dropout; always 1337 in nanoGPT",
        least=0,
    )
    documents: bool = _own(False, "run", "loss", "windows start where documents start, instead of anywhere")
    eval_train: str = _own(
        "auto",
        "run",
        "bookkeeping",
        "the training loss: of the past 'steps', for free, or from a 'full' second pass as in nanoGPT; 'auto': "
        "depends on its cost",
        choices=("auto", "steps", "full"),
    )
    eval_target_error: float = _own(
        0.0,
        "run",
        "bookkeeping",
        "evaluate until the error is this small, such as 0.003; 0: eval_iters decides",
        least=0,
    )
    save_interval: int = _own(
        0,
        "run",
        "bookkeeping",
        "iterations between checkpoints; 0: one per evaluation; -1: none",
        least=-1,
    )
    sample_interval: int = _own(
        0, "run", "bookkeeping", "iterations between text samples, which go to the ledger; 0: none", least=0
    )
    keep_last: int = _own(2, "run", "bookkeeping", "checkpoints to keep, in addition to the best one", least=1)
    fused: bool = _own(True, "run", "speed", "our own kernels, if they support the model; False: torch.compile")
    fp8: bool = _own(
        False,
        "machine",
        "speed",
        "some matrix products in 8 bits, where that is faster on the card; on by default with recipe=fast",
    )
    deterministic: bool = _own(
        False,
        "run",
        "speed",
        "the same bits every time, also on a card: a resumed run equals one that was never stopped",
    )
    check_every: int = _own(
        0,
        "run",
        "speed",
        "steps between checks for silent corruption: a micro-batch is computed twice and compared; 0: none",
        least=0,
    )
    memory: str = _own(
        "auto",
        "run",
        "speed",
        "what to recompute or shrink to save memory: 'auto', as little as it takes; or steps by name",
    )
    memory_limit: str = _own(
        "",
        "machine",
        "speed",
        "limit on the card's memory, such as 12GiB, to try a small card on a large one; '': none",
    )
    parallel: str = _own(
        "ddp",
        "run",
        "speed",
        "with several cards: 'ddp', each holds the whole model, or 'fsdp', each holds a part of it",
        choices=("ddp", "fsdp"),
    )
    recipe: str = _own(
        "gpt2",
        "recipe",
        "speed",
        "'gpt2', as in nanoGPT, or 'fast': the same loss in less time",
        choices=("gpt2", "fast"),
    )
    without: str = _own(
        "", "recipe", "speed", "ingredients of the recipe to leave out, such as rope,muon, to see what each is worth"
    )
    matrix_lr: float = _own(
        0.02, "run", "loss", "Muon's maximum rate, for the matrices in recipe=fast; learning_rate is AdamW's", least=0
    )
    cooldown: float = _own(
        0.5,
        "run",
        "loss",
        "the last part of max_iters, in which the rates of recipe=fast fall linearly",
        least=0,
        below=1,
    )
    which: str = _own(
        "",
        "call",
        "loss",
        "checkpoint of the run in init_from: 'best', 'last' or a step; '': best if it saved only those, else last",
    )
    rescue_dir: str = _own(
        "",
        "call",
        "bookkeeping",
        "where the last checkpoint goes if out_dir cannot take it: a directory on another disk; '': none",
    )
    overwrite: bool = _own(
        False, "call", "bookkeeping", "start over in an out_dir that holds a run, and remove that run's checkpoints"
    )

    def __post_init__(self) -> None:
        for knob in KNOBS.values():
            value = getattr(self, knob.name)
            fitted = knob.fitted(value)
            if fitted is None:
                raise ConfigError(
                    "{knob} must be {kind}, not {value}", knob=knob.name, kind=knob.kind, value=shown(value)
                )
            object.__setattr__(self, knob.name, fitted)
            if knob.refuses(fitted):
                raise ConfigError(
                    "{knob} must be one of {known}, not {value!r}",
                    knob=knob.name,
                    known=", ".join(knob.choices),
                    value=fitted,
                )
        if self.n_embd % self.n_head:
            raise ConfigError(
                "n_embd must be a multiple of n_head: {n_embd} is not a multiple of {n_head}",
                n_embd=self.n_embd,
                n_head=self.n_head,
            )
        if self.decay_lr and self.min_lr > self.learning_rate:
            raise ConfigError(
                "min_lr must not exceed learning_rate: {min_lr} is greater than {learning_rate}",
                min_lr=self.min_lr,
                learning_rate=self.learning_rate,
            )
        if self.parallel == "fsdp" and self.dtype == "float16":
            raise ConfigError(
                "parallel=fsdp and dtype=float16 cannot be combined: float16 needs loss scaling, which only ddp "
                "does; use parallel=ddp or dtype=bfloat16"
            )
        if self.parallel == "fsdp" and self.sample_interval:
            raise ConfigError(
                "parallel=fsdp and sample_interval cannot be combined: no card holds the whole model; use parallel=ddp"
            )
        if self.check_every and not self.deterministic and not self.device.startswith("cpu"):
            raise ConfigError(
                "check_every needs deterministic=True on a card: otherwise, bits differ even if nothing is wrong"
            )
        memory_bytes(self.memory_limit)
        step_of_which(self.which)
        steps = memory_steps(self.memory) or ()
        if on_host(steps) and {"averages", "gradients"} & set(steps):
            raise ConfigError(
                "memory=host cannot be combined with averages or gradients: host memory has room for both in full; "
                "leave them out"
            )
        if "host_weights" in steps and self.fp8:
            raise ConfigError(
                "memory=host_weights and fp8=True cannot be combined: matrices in 8 bits stay on the card; use "
                "fp8=False"
            )
        if not keeps_gradients(steps):
            self._check_release()
        object.__setattr__(self, "without", ",".join(left_out(self.recipe, self.without)))
        if self.recipe != "gpt2":
            self._check_recipe()

    def _check_release(self) -> None:
        if self.check_every:
            raise ConfigError(
                "memory=gradients and check_every cannot be combined: no gradients are kept to be compared; use "
                "memory=averages or check_every=0"
            )
        if self.gradient_accumulation_steps > 1:
            raise ConfigError(
                "memory=gradients keeps no gradients for a second micro-batch: it needs "
                "gradient_accumulation_steps=1, not {steps}",
                steps=self.gradient_accumulation_steps,
            )
        if self.recipe != "gpt2":
            raise ConfigError(
                "memory=gradients and recipe={recipe} cannot be combined: Muon updates all layers at once; use "
                "recipe=gpt2",
                recipe=self.recipe,
            )

    def _check_recipe(self) -> None:
        if self.parallel == "fsdp":
            raise ConfigError(
                "recipe={recipe} and parallel=fsdp cannot be combined: Muon needs unsharded matrices; use parallel=ddp",
                recipe=self.recipe,
            )
        if self.bias:
            raise ConfigError("recipe={recipe} has no biases; leave bias=False", recipe=self.recipe)
        if "rope" in ingredients(self.recipe, self.without) and self.n_embd // self.n_head % 2:
            raise ConfigError(
                "n_embd / n_head must be even with recipe={recipe}, which rotates pairs of values: {n_embd} / "
                "{n_head} is not",
                recipe=self.recipe,
                n_embd=self.n_embd,
                n_head=self.n_head,
            )

    @property
    def size(self) -> tuple[int, int, int, int]:
        """In the order that the functions of hardware/ take."""
        return self.n_layer, self.n_embd, self.vocab_size, self.block_size

    @property
    def tokens_per_iteration(self) -> int:
        """Across all cards, like gradient_accumulation_steps."""
        return self.gradient_accumulation_steps * self.batch_size * self.block_size

    def as_dict(self) -> dict[str, Value]:
        return {name: getattr(self, name) for name in KNOBS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The knobs set by config files and flags. The last setting of a knob wins."""

    given: Mapping[str, Value]
    files: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()  # knobs last set by a flag
    overruled: Mapping[str, Value] = field(default_factory=dict)  # what the files say about the knobs in `flags`
    auto: bool = False  # --auto: the machine decides everything not set
    notes: tuple[str, ...] = ()  # for users: what was skipped in a file, and why that does no harm

    @property
    def machine_decides(self) -> bool:
        """Whether to choose settings for this machine. Anyone who sets a part of the training gets nanoGPT's defaults
        for the rest, unless they pass --auto."""
        if self.given.get("init_from") == "resume":
            return False  # decided when the run began
        return self.auto or not (self.files or any(KNOBS[name].asks_for_a_training for name in self.given))


KNOBS: Mapping[str, Knob] = MappingProxyType(
    {each.name: Knob(each.name, cast(Value, each.default), **each.metadata) for each in fields(TrainConfig)}
)


def knobs_of(*parts: Part) -> tuple[str, ...]:
    """The names of the knobs in these parts."""
    return tuple(name for name, knob in KNOBS.items() if knob.part in parts)
