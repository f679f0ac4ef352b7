"""What a run shall be: everything that can be decided and checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nanopace.config import KNOBS, Asked, TrainConfig
from nanopace.corpus.prepare.prepare import OnProgress, ensure
from nanopace.corpus.shards.corpus import Corpus, find_corpus, open_corpus
from nanopace.errors import InputError, UsageError
from nanopace.hardware.calibration import measured_tflops
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import Saved, not_a_state
from nanopace.train.checkpoint.lock import Claim
from nanopace.train.checkpoint.run_dir import check_free, check_rescue
from nanopace.train.formats.pretrained import Pretrained
from nanopace.train.listener import Listener
from nanopace.train.models.recipes import foreign_rates
from nanopace.train.out_of_memory import waste_less
from nanopace.train.plan.device import Machine, check_fp8, limited
from nanopace.train.plan.origin import check_which, find_pretrained, find_saved, fitted_settings, settings_of
from nanopace.train.plan.plan import Plan, make_plan, pick_dataset, shape_of
from nanopace.train.plan.resume_notes import notes_on
from nanopace.train.plan.start import Start
from nanopace.train.ranks import Ranks


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was asked for, and of which machine."""

    asked: Asked
    preparing: OnProgress | None
    machine: Machine
    ranks: Ranks
    claim: Claim  # to out_dir


def settle(wishes: Wishes, listener: Listener) -> Start:
    """The first rank decides, and the others follow: a plan may rest on what was measured."""
    ranks = wishes.ranks
    decided = ranks.agree(lambda: _settled(wishes, listener) if ranks.first else None)
    plan = ranks.share(None if decided is None else decided.plan)
    return ranks.agree(lambda: decided or _settled(wishes, listener, plan))


def _settled(wishes: Wishes, listener: Listener, plan: Plan | None = None) -> Start:
    """Everything that can be decided and checked before out_dir is touched."""
    given, machine, ranks = wishes.asked.given, wishes.machine, wishes.ranks
    out_dir, init_from = out_dir_of(given), str(given.get("init_from", "scratch"))
    check_which(wishes.asked, init_from)
    if init_from != "resume" and not given.get("overwrite") and not given.get("eval_only"):
        check_free(out_dir)
    check_rescue(str(given.get("rescue_dir", "")), out_dir)
    source: Saved | Pretrained | None = None
    asked = dict(given)
    if init_from == "resume":
        source = find_saved(out_dir, listener)
        asked = settings_of(source, wishes.asked, machine)
        for note in notes_on(source, wishes.asked):
            listener.note(note)
    elif init_from != "scratch":
        source = find_pretrained(init_from, str(given.get("which", "")), listener)
        asked = fitted_settings(source, given)
    foreign = foreign_rates(wishes.asked, str(asked.get("recipe", KNOBS["recipe"].default)))
    asked = _without(foreign, asked, source)
    decides = wishes.asked.machine_decides
    waste_less(machine.device)
    machine = limited(machine, str(asked.get("memory_limit", "")))
    corpus = open_corpus(ensure(_dataset(asked, machine_decides=decides), wishes.preparing))
    plan = plan or make_plan(asked, corpus, machine, machine_decides=decides, ranks=ranks.size, passed_over=foreign)
    shape = shape_of(plan.config, "gelu" if source is None else source.shape.activation)
    check_fp8(plan.config, shape, machine.device, ranks.size)
    corpus.check(shape.vocab_size, shape.block_size)
    _check_source(source, corpus, plan.config)
    return Start(
        plan=plan,
        machine=machine,
        corpus=corpus,
        shape=shape,
        source=source,
        claim=wishes.claim,
        out_dir=out_dir,
        ranks=ranks,
        measured_tflops=_measured(plan.config, machine),
    )


def _without(
    foreign: Mapping[str, Value], asked: Mapping[str, Value], source: Saved | Pretrained | None
) -> dict[str, Value]:
    """As if a config had not said what it says for another recipe: a run that goes on keeps what its checkpoint has."""
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
                "nanopace prepare {dataset}, or let the machine choose with --auto",
                dataset=dataset,
            ) from None
    return dataset


def _measured(config: TrainConfig, machine: Machine) -> float | None:
    """In 8 bits `nanopace tune` measures none."""
    return None if config.fp8 else measured_tflops(machine.name or machine.device.type, config.dtype)


def out_dir_of(given: Mapping[str, Value]) -> Path:
    return Path(str(given.get("out_dir", KNOBS["out_dir"].default)))


def _check_source(source: Saved | Pretrained | None, corpus: Corpus, config: TrainConfig) -> None:
    """Weights only mean something with the tokenizer that they were trained with."""
    if source is None:
        return
    theirs = source.tokenizer_hash if isinstance(source, Saved) else source.tokenizer and source.tokenizer.hash
    ours = corpus.tokenizer and corpus.tokenizer.hash
    if theirs and ours and theirs != ours:
        raise InputError(
            "{corpus}: was made with another tokenizer than {path}; prepare it with that one",
            corpus=corpus.directory,
            path=source.path,
        )
    if isinstance(source, Saved) and not config.eval_only:
        if source.state.get("corpus", corpus.fingerprint) != corpus.fingerprint:
            raise InputError(
                "{corpus}: is not the data that {path} was trained on; a run goes on with the same data",
                corpus=corpus.directory,
                path=source.path,
            )
        if source.step > config.max_iters:
            raise UsageError(
                "{path}: the run is finished after {steps} steps; a larger --max_iters goes on",
                path=source.path,
                steps=source.step,
            )
        _expect_the_same(corpus, source)


def _expect_the_same(corpus: Corpus, saved: Saved) -> None:
    """The fingerprint of files without a manifest knows little of what is inside; earlier checkpoints know no more."""
    hashes = saved.state.get("corpus_sha256", {})
    if not isinstance(hashes, dict) or not all(isinstance(each, str) for each in hashes.values()):
        raise not_a_state(saved.path)
    corpus.expect(hashes)
