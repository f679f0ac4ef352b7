"""Makes a run's config from what was asked for, the corpus and the machine.

Knobs that config files and flags leave open get nanoGPT's defaults. If nothing is asked for, the machine decides: a
model and micro-batch that fit its memory, and as many steps as the corpus, or two minutes on a CPU, allow. The run's
header lists all of it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Set
from dataclasses import dataclass, fields, replace

import torch

from nanopace.config import KNOBS, TrainConfig, knobs_of
from nanopace.corpus.download.named import EMBEDDED
from nanopace.corpus.shards.corpus import Corpus
from nanopace.errors import ConfigError, Message
from nanopace.literals import Value
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.models.recipes import new_model, recipe_defaults, shape_defaults, step_tokens
from nanopace.train.optim.optimizer import make_optimizer, set_learning_rate
from nanopace.train.plan.batch_sizes import fitting_micro_batch
from nanopace.train.plan.device import Machine, autocast, has_fp8, pick_compile, pick_dtype, pick_kernels, takes_fp8
from nanopace.train.plan.size import check_size

_GPT2_VOCABULARY = 50304  # GPT-2's 50257, rounded up to a multiple of 64: a quarter faster on tensor cores
_CPU_SECONDS = 105  # of training: about two minutes with the start and a few samples
_EPOCHS = 4  # reading a text more often teaches little
_LARGE_CORPUS = 50_000_000  # tokens: a GPT-2 would memorise a smaller one
_EVALUATIONS = 5
_HIGHER_RATE = Message("small models take a higher rate than GPT-2")
_MICRO_BATCHES = (64, 32, 16, 8, 4, 2, 1)
_MICRO_STEP = 3  # times as long as a forward pass: the backward pass is two
_UNNOTICED = 0.01  # of the steps' time: a second pass that adds less is made
_OF_A_MICRO_BATCH = (*knobs_of("shape", "recipe", "machine"), "batch_size", "dropout", "fused", "parallel")

Chosen = dict[str, tuple[Value, str]]  # knobs, each with its reason


@dataclass(frozen=True, slots=True)
class Settings:
    config: TrainConfig
    reasons: Mapping[str, str]  # the choices, and why


def choose_settings(
    asked: Mapping[str, Value],
    corpus: Corpus,
    machine: Machine,
    *,
    machine_decides: bool,
    ranks: int = 1,
    passed_over: Mapping[str, Value] | None = None,
) -> Settings:
    """`asked` comes from files, flags or a checkpoint; nanoGPT's defaults or the machine supply the rest.

    `passed_over` are a file's learning rates for another recipe. They are not in `asked`, but are reported.
    """
    dtype, compiles = asked.get("dtype"), asked.get("compile")
    chosen: Chosen = {
        "device": (str(machine.device), machine.reason),
        "dtype": pick_dtype(machine, dtype if isinstance(dtype, str) else None, machine_decides=machine_decides),
        "compile": pick_compile(machine, compiles if isinstance(compiles, bool) else None),
        "dataset": pick_dataset(machine_decides=machine_decides),
        "vocab_size": _vocabulary(corpus),
    }
    if chosen["dtype"][0] != dtype:
        asked = {name: value for name, value in asked.items() if name != "dtype"}  # it cannot be used here
    if machine_decides:
        known = {**{name: chosen[name][0] for name in ("dtype", "compile", "vocab_size")}, **asked}
        known.setdefault("fp8", asked.get("recipe", "gpt2") != "gpt2" and has_fp8(machine.device))
        on_cpu = machine.device.type == "cpu"
        chosen |= _on_a_cpu(known, ranks) if on_cpu else _on_a_card(known, corpus, machine, ranks)
    chosen |= _by_recipe(asked, chosen)
    open_ones = {name: each for name, each in chosen.items() if name not in asked}
    config = TrainConfig(**{**asked, **{name: value for name, (value, _) in open_ones.items()}})  # type: ignore[arg-type]
    _check_shape(config, on_cpu=machine.device.type == "cpu")
    _check(config, corpus, ranks)
    if "fp8" not in asked and config.recipe != "gpt2" and takes_fp8(config, shape_of(config, "gelu"), machine, ranks):
        chosen["fp8"] = open_ones["fp8"] = (True, Message("recipe {recipe}", recipe=config.recipe))
        config = replace(config, fp8=True)
    if config.eval_train == "auto" or (config.eval_train == "steps" and config.eval_only):
        chosen["eval_train"] = open_ones["eval_train"] = pick_eval_train(config)
        config = replace(config, eval_train=str(chosen["eval_train"][0]))
    return Settings(
        config,
        {
            "device": Message.joined(": ", (str(machine.device), machine.reason)),
            **_card(machine, config.dtype),
            **_recipe(config.recipe, passed_over or {}),
            **{name: Message.joined(": ", (str(value), reason)) for name, (value, reason) in open_ones.items()},
            **_defaults(asked.keys() | chosen.keys()),
        },
    )


def pick_dataset(*, machine_decides: bool) -> tuple[str, str]:
    """The dataset if the user names none, and why."""
    if machine_decides:
        return EMBEDDED, Message("the source code of this Python, which needs no download")
    return str(KNOBS["dataset"].default), Message("nanoGPT's default")


def _recipe(recipe: str, passed_over: Mapping[str, Value]) -> dict[str, str]:
    """What the user should know about a recipe other than nanoGPT's, and a config written for another recipe."""
    lines: dict[str, str] = {}
    if recipe != "gpt2":
        lines["recipe"] = Message.joined(": ", (recipe, Message("nanoGPT cannot load this model")))
    if passed_over:
        lines["rates"] = Message(
            "not the config's, which belong to another recipe; pass them as flags to use them: {rates}",
            rates=_listed(passed_over),
        )
    return lines


def _defaults(already_set: Set[str]) -> dict[str, str]:
    """One line for all knobs of the model and the optimizer that are not set elsewhere."""
    left = {name: knob.default for name, knob in KNOBS.items() if knob.asks_for_a_training and name not in already_set}
    return {"defaults": Message("nanoGPT's for everything else: {knobs}", knobs=_listed(left))} if left else {}


def _listed(knobs: Mapping[str, Value]) -> str:
    return ", ".join(f"{name}={value}" for name, value in knobs.items())


def pick_eval_train(config: TrainConfig) -> tuple[str, str]:
    """Whether evaluations make nanoGPT's second pass, over the training data; it depends on the time that would add.

    The time is computed, not measured. On a CPU, a forward pass takes 0.23 to 0.38 of a micro-step; on a card, an
    evaluation's batches may be larger than training's, and so cheaper.
    """
    if config.eval_only:
        return "full", Message("an evaluation alone has no training steps to report")
    if config.eval_target_error:
        return "steps", Message("a second pass takes as long as eval_target_error demands; --eval_train=full runs it")
    between = min(config.eval_interval, max(1, config.max_iters)) * config.gradient_accumulation_steps
    share = config.eval_iters / (_MICRO_STEP * between)
    percent = round(100 * share) if share >= 0.1 else float(f"{100 * share:.2g}")
    if share < _UNNOTICED:
        return "full", Message("the second pass adds about {percent:.12g}% to the steps", percent=percent)
    return "steps", Message(
        "a second pass would add about {percent:.12g}%; --eval_train=full prints nanoGPT's train loss", percent=percent
    )


def _card(machine: Machine, dtype: str) -> dict[str, str]:
    """The card and the peak that mfu is relative to."""
    if machine.name is None:
        return {}
    peak = machine.peak_flops(dtype)
    if peak is None:
        return {"gpu": Message.joined(": ", (machine.name, Message("unknown peak")))}
    known = Message("{tflops:,.0f} TFLOP/s in {dtype}", tflops=peak / 1e12, dtype=dtype)
    return {"gpu": Message.joined(": ", (machine.name, known))}


def shape_of(config: TrainConfig, activation: str) -> ModelShape:
    knobs = {each.name: getattr(config, each.name) for each in fields(ModelShape) if each.name != "activation"}
    return ModelShape(**knobs, activation=activation)


def _check_shape(config: TrainConfig, *, on_cpu: bool) -> None:
    if config.parallel != "fsdp":  # where each process holds only a part of it
        check_size(config, on_cpu=on_cpu)


def _check(config: TrainConfig, corpus: Corpus, ranks: int) -> None:
    if config.gradient_accumulation_steps % ranks:
        raise ConfigError(
            "gradient_accumulation_steps must be a multiple of the number of processes, which share its "
            "micro-batches: {steps} is not a multiple of {ranks}",
            steps=config.gradient_accumulation_steps,
            ranks=ranks,
        )
    if corpus.vocab_size is not None and config.vocab_size < corpus.vocab_size:
        raise ConfigError(
            "vocab_size must be at least {least}, the vocabulary size of {corpus}, not {vocab_size}",
            least=corpus.vocab_size,
            corpus=corpus.directory,
            vocab_size=config.vocab_size,
        )


def _vocabulary(corpus: Corpus) -> tuple[int, str]:
    if corpus.vocab_size is None:
        return _GPT2_VOCABULARY, Message("the corpus does not say; like nanoGPT, we assume GPT-2's")
    if corpus.tokenizer is not None and corpus.tokenizer.kind == "gpt2":
        return _GPT2_VOCABULARY, Message("GPT-2's {size}, rounded up to a multiple of 64", size=corpus.vocab_size)
    return corpus.vocab_size, Message("the corpus's own")


def _on_a_card(asked: Mapping[str, Value], corpus: Corpus, machine: Machine, ranks: int) -> Chosen:
    """GPT-2 if there is enough text, else half its depth and width; then the largest micro-batch up to 64 that fits."""
    large = corpus.train.tokens >= _LARGE_CORPUS
    shape = {"n_layer": 12, "n_head": 12, "n_embd": 768} if large else {"n_layer": 6, "n_head": 6, "n_embd": 384}
    shape["block_size"] = 1024 if large else 512
    per_step, dropout = (1 << 19, 0.0) if large else (1 << 16, 0.1)
    if asked.get("recipe", "gpt2") != "gpt2":
        per_step = step_tokens(_EPOCHS * corpus.train.tokens)
    config = _partial_config(asked, {**shape, "dropout": dropout})
    block_size, fitting = config.block_size, 8
    if machine.memory_gb is not None:
        kernels, _ = pick_kernels(config, shape_of(config, "gelu"), machine.device, ranks)
        fitting = fitting_micro_batch(config, kernels, machine.memory_gb)
    most = max(1, per_step // block_size)
    micro_batch = next((each for each in _MICRO_BATCHES if each <= min(fitting, most)), 1)
    batch_size = int(asked.get("batch_size", micro_batch))
    accumulation = ranks * max(1, round(most / batch_size / ranks))
    tokens = int(asked.get("gradient_accumulation_steps", accumulation)) * batch_size * block_size
    steps = max(200, _EPOCHS * corpus.train.tokens // tokens)
    fits = Message("the amount of memory is unknown")
    if machine.memory_gb is not None:
        fits = Message("{count} would fit in {memory:.0f} GiB", count=fitting, memory=machine.memory_gb)
    why = Message("for {tokens:,.1f}M training tokens", tokens=corpus.train.tokens / 1e6)
    by_heart = Message("so little text is soon learned by heart")
    if large:
        by_heart = Message("hardly any token is seen more than {times} times", times=_EPOCHS)
    rate = (6e-4, Message("nanoGPT's, for GPT-2")) if large else (1e-3, _HIGHER_RATE)
    step = Message("{tokens:,} tokens per step", tokens=accumulation * batch_size * block_size)
    return {
        **{name: (value, why) for name, value in shape.items()},
        "dropout": (dropout, by_heart),
        "batch_size": (batch_size, fits),
        "gradient_accumulation_steps": (accumulation, step),
        **_rates(asked, *rate),
        **_schedule(asked, int(steps), Message("{times} passes over the training tokens", times=_EPOCHS)),
    }


def _on_a_cpu(asked: Mapping[str, Value], ranks: int) -> Chosen:
    """A model that learns something in two minutes, and as many steps as fit in that time."""
    shape = {"n_layer": 4, "n_head": 4, "n_embd": 128, "block_size": 128}
    batch_size = 8
    config = _partial_config(asked, {**shape, "batch_size": batch_size})
    _check_shape(config, on_cpu=True)
    step_seconds = _probe(config)
    accumulation = int(asked.get("gradient_accumulation_steps", ranks))
    steps = max(20, int(_CPU_SECONDS * ranks / (step_seconds * accumulation)))
    return {
        **{name: (value, Message("small enough for a CPU")) for name, value in shape.items()},
        "batch_size": (batch_size, Message("small, for more steps in the same time")),
        "gradient_accumulation_steps": (
            ranks,
            Message("one micro-batch per process") if ranks > 1 else Message("one micro-batch, for more steps"),
        ),
        **_rates(asked, 3e-3, _HIGHER_RATE),
        "eval_iters": (25, Message("few, to keep evaluations short")),
        "log_interval": (10, Message("enough to watch it learn")),
        **_schedule(
            asked, steps, Message("about two minutes at {ms:,.0f} ms per step, as measured", ms=step_seconds * 1000)
        ),
    }


def _partial_config(asked: Mapping[str, Value], chosen: Mapping[str, Value]) -> TrainConfig:
    """Enough of a config to determine a micro-batch's memory and time."""
    given = {name: asked[name] for name in _OF_A_MICRO_BATCH if name in asked}
    return TrainConfig(**{**chosen, **given})  # type: ignore[arg-type]


def _rates(asked: Mapping[str, Value], peak: float, why: str) -> Chosen:
    lowest = float(f"{float(asked.get('learning_rate', peak)) / 10:.6g}")
    return {"learning_rate": (peak, why), "min_lr": (lowest, Message("a tenth of learning_rate"))}


def _by_recipe(asked: Mapping[str, Value], chosen: Chosen) -> Chosen:
    """The recipe's own defaults; none for gpt2."""
    recipe = str(asked.get("recipe", KNOBS["recipe"].default))
    max_iters, n_embd = (
        int(asked.get(name, chosen.get(name, (KNOBS[name].default, ""))[0])) for name in ("max_iters", "n_embd")
    )
    return {
        name: (value, Message("recipe {recipe}", recipe=recipe))
        for name, value in {**shape_defaults(recipe, n_embd), **recipe_defaults(recipe, max_iters)}.items()
    }


def _schedule(asked: Mapping[str, Value], steps: int, why: str) -> Chosen:
    steps -= steps % _EVALUATIONS  # so that the last evaluation is at the end
    most = int(asked.get("max_iters", steps))
    return {
        "max_iters": (steps, why),
        "lr_decay_iters": (max(1, most), Message("the end of the run")),
        "warmup_iters": (min(100, most // 10), Message("a tenth of the run, at most 100")),
        "eval_interval": (max(1, most // _EVALUATIONS), Message("a fifth of the run")),
    }


def _probe(config: TrainConfig, steps: int = 5) -> float:
    """Seconds per micro-step, measured over a few of them."""
    with torch.random.fork_rng(devices=[]):
        model = new_model(shape_of(config, "gelu"))
        optimizer = make_optimizer(model, config, torch.device("cpu"))
        set_learning_rate(optimizer, 0.0)
        tokens = torch.zeros((config.batch_size, config.block_size), dtype=torch.long)
        times = []
        for _ in range(1 + steps):
            begin = time.perf_counter()
            with autocast(config, tokens.device):
                loss = model(tokens, tokens)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])
