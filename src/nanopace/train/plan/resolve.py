"""Makes a run's plan: decides and checks everything possible before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from nanopace.config import KNOBS, Asked, TrainConfig
from nanopace.corpus.prepare.prepare import OnProgress, ensure
from nanopace.corpus.shards.corpus import Corpus, find_corpus, open_corpus
from nanopace.errors import InputError, UsageError
from nanopace.hardware.calibration import measured_tflops
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import Saved
from nanopace.train.checkpoint.lock import Claim
from nanopace.train.checkpoint.run_dir import check_free, check_rescue
from nanopace.train.formats.pretrained import Pretrained
from nanopace.train.listener import Listener
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.models.recipes import foreign_settings
from nanopace.train.out_of_memory import waste_less
from nanopace.train.plan.batch_sizes import pick_eval_batch
from nanopace.train.plan.device import Machine, check_fp8, limited, pick_kernels
from nanopace.train.plan.ladder import check_host, kept_steps, pick_steps
from nanopace.train.plan.origin import check_which, find_pretrained, find_saved, fitted_settings, settings_of
from nanopace.train.plan.resume_notes import notes_on, notes_on_bits
from nanopace.train.plan.run_plan import Choice, RunPlan
from nanopace.train.plan.settings import Settings, choose_settings, pick_dataset, shape_of
from nanopace.train.ranks import Ranks


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What the user asked for, and the machine."""

    asked: Asked
    preparing: OnProgress | None
    machine: Machine
    ranks: Ranks
    claim: Claim  # to out_dir


def resolve(request: RunRequest, listener: Listener) -> RunPlan:
    """The first rank decides and the others follow, because settings may depend on measurements."""
    ranks = request.ranks
    decided = ranks.agree(lambda: _resolved(request, listener) if ranks.first else None)
    settings = ranks.share(None if decided is None else Settings(decided.config, decided.config_reasons))
    return ranks.agree(lambda: decided or _resolved(request, listener, settings))


def replan(plan: RunPlan, source: Saved | Pretrained | None, micro_batch: int) -> RunPlan:
    """The plan after a rollback to `source`: with other data from there on, and micro-batches known to fit."""
    steps = pick_steps(plan.config, plan.shape, plan.machine, plan.kernels.value, micro_batch)
    return replace(
        plan, source=source, data_offset=plan.data_offset + 1, micro_batch=micro_batch, memory_steps=Choice(*steps)
    )


def _resolved(request: RunRequest, listener: Listener, settings: Settings | None = None) -> RunPlan:
    """Decide and check everything possible before out_dir is touched."""
    given, machine = request.asked.given, request.machine
    out_dir, init_from = out_dir_of(given), str(given.get("init_from", "scratch"))
    check_which(request.asked, init_from)
    if init_from != "resume" and not given.get("overwrite") and not given.get("eval_only"):
        check_free(out_dir)
    check_rescue(str(given.get("rescue_dir", "")), out_dir)
    source: Saved | Pretrained | None = None
    asked = dict(given)
    if init_from == "resume":
        source = find_saved(out_dir, listener)
        asked = settings_of(source, request.asked, machine)
        for note in (*notes_on(source, request.asked), *notes_on_bits(source, asked, machine)):
            listener.note(note)
    elif init_from != "scratch":
        source = find_pretrained(init_from, str(given.get("which", "")), listener)
        asked = fitted_settings(source, given)
    recipe = str(asked.get("recipe", KNOBS["recipe"].default))
    foreign = foreign_settings(request.asked, recipe, new=source is None)
    asked = _without(foreign, asked, source)
    decides = request.asked.machine_decides
    waste_less(machine.device)
    machine = limited(machine, str(asked.get("memory_limit", "")))
    corpus = open_corpus(ensure(_dataset(asked, machine_decides=decides), request.preparing))
    settings = settings or choose_settings(
        asked, corpus, machine, machine_decides=decides, ranks=request.ranks.size, passed_over=foreign
    )
    shape = shape_of(settings.config, "gelu" if source is None else source.shape.activation)
    check_fp8(settings.config, shape, machine.device, request.ranks.size)
    corpus.check(shape.vocab_size, shape.block_size)
    plan = plan_run(settings, shape, machine, corpus, claim=request.claim, ranks=request.ranks, source=source)
    _check_source(plan)
    return plan


def plan_run(
    settings: Settings,
    shape: ModelShape,
    machine: Machine,
    corpus: Corpus,
    *,
    claim: Claim,
    ranks: Ranks,
    source: Saved | Pretrained | None = None,
) -> RunPlan:
    """How to train these settings on this machine."""
    config = settings.config
    saved = source if isinstance(source, Saved) else None
    micro_batch = config.batch_size if saved is None else _fitting_micro_batch(saved, config)
    kernels = Choice(*pick_kernels(config, shape, machine.device, ranks.size))
    steps = Choice(
        *(kept_steps(saved, config, kernels.value) or pick_steps(config, shape, machine, kernels.value, micro_batch))
    )
    check_host(config, shape, kernels, steps.value)
    return RunPlan(
        config=config,
        config_reasons=settings.reasons,
        shape=shape,
        machine=machine,
        ranks=ranks,
        corpus=corpus,
        fingerprint=corpus.fingerprint,
        source=source,
        claim=claim,
        data_offset=0 if saved is None else int(saved.state.get("data_offset", 0)),
        micro_batch=micro_batch,
        kernels=kernels,
        memory_steps=steps,
        eval_batch=Choice(*pick_eval_batch(shape, config.batch_size, machine.device)),
        measured_tflops=_measured(config, machine),
    )


def _fitting_micro_batch(saved: Saved, config: TrainConfig) -> int:
    """The micro-batch that fitted before; batch_size if that has changed."""
    fitted = int(saved.state.get("micro_batch", config.batch_size))
    same = saved.config.get("batch_size") == config.batch_size
    return fitted if same and fitted > 0 and config.batch_size % fitted == 0 else config.batch_size


def _without(
    foreign: Mapping[str, Value], asked: Mapping[str, Value], source: Saved | Pretrained | None
) -> dict[str, Value]:
    """Drop a config's learning rates for another recipe; a resumed run keeps its checkpoint's."""
    kept = source.config if isinstance(source, Saved) else {}
    rest = {name: value for name, value in asked.items() if name not in foreign}
    return {**rest, **{name: kept[name] for name in foreign if name in kept}}


def _dataset(asked: Mapping[str, Value], *, machine_decides: bool) -> str:
    named = asked.get("dataset")
    if named is not None:
        return str(named)
    dataset, _ = pick_dataset(machine_decides=machine_decides)
    if not machine_decides:
        try:
            find_corpus(dataset)
        except InputError:
            raise UsageError(
                "{dataset}: nanoGPT's default dataset is not here; name yours with --dataset, make this one with "
                "nanopace prepare {dataset}, or let nanopace choose with --auto",
                dataset=dataset,
            ) from None
    return dataset


def _measured(config: TrainConfig, machine: Machine) -> float | None:
    """The peak measured by `nanopace tune`; None with fp8, because it does not measure products in 8 bits."""
    return None if config.fp8 else measured_tflops(machine.name or machine.device.type, config.dtype)


def out_dir_of(given: Mapping[str, Value]) -> Path:
    return Path(str(given.get("out_dir", KNOBS["out_dir"].default)))


def _check_source(plan: RunPlan) -> None:
    """Raise if the tokenizer differs, which makes weights useless, or a run would resume on other data."""
    source, corpus, config = plan.source, plan.corpus, plan.config
    if source is None:
        return
    theirs = source.tokenizer_hash if isinstance(source, Saved) else source.tokenizer and source.tokenizer.hash
    ours = corpus.tokenizer and corpus.tokenizer.hash
    if theirs and ours and theirs != ours:
        raise InputError(
            "{corpus}: was made with a different tokenizer than {path}; prepare it with that one",
            corpus=corpus.directory,
            path=source.path,
        )
    if isinstance(source, Saved) and not config.eval_only:
        if source.state.get("corpus", plan.fingerprint) != plan.fingerprint:
            raise InputError(
                "{corpus}: is not the data that {path} was trained on; a run can only be resumed on the same data",
                corpus=corpus.directory,
                path=source.path,
            )
        if source.step > config.max_iters:
            raise UsageError(
                "{path}: the run already finished after {steps} steps; raise --max_iters to continue it",
                path=source.path,
                steps=source.step,
            )
        # Without a manifest, the fingerprint says little about the contents. Old checkpoints have no hashes.
        corpus.expect(source.state.get("corpus_sha256", {}))
