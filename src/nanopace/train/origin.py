"""Where a run's weights come from: drawn anew, a checkpoint of this run, or a model that somebody trained before."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from nanopace.config import KNOBS, left_out
from nanopace.errors import ConfigError, InputError, UsageError
from nanopace.ledger.events import RunEvent
from nanopace.ledger.file import LEDGER_FILE, EventReader
from nanopace.literals import Value
from nanopace.train.checkpoint_files import Saved, checkpoint_directories, newest_whole
from nanopace.train.convert import open_pretrained
from nanopace.train.device import Machine
from nanopace.train.drawing import Drawing
from nanopace.train.listener import Listener
from nanopace.train.model import GPT, ModelShape
from nanopace.train.pretrained import Pretrained
from nanopace.train.recipes import new_model

_SHAPE = ("n_layer", "n_head", "n_embd", "vocab_size", "block_size", "bias", "recipe", "without")
_TO_GO_ON = {"random", "scaler", "best", "recent", "validation", "training", "corpus"}  # beside weights and averages
_OF_THE_MACHINE = ("device", "dtype", "compile", "memory_limit", "fp8")


def find_saved(out_dir: Path, listener: Listener) -> Saved:
    """The newest whole checkpoint of a run that shall go on. Newer ones are named, with what is wrong with them."""
    saved, refused = newest_whole(out_dir)
    for error in refused:
        listener.note(str(error) if saved is None else f"{error}; going on from {saved.path} instead")
    if saved is None:
        if refused:
            raise InputError(
                "{path}: no checkpoint is whole, see above what is wrong with each; leave out --init_from=resume to "
                "begin anew: what is there is kept under another name",
                path=out_dir,
            )
        raise InputError(
            "{path}: no checkpoint is here to resume from; leave out --init_from=resume to begin a run here, or name "
            "the --out_dir of one",
            path=out_dir,
        )
    if not saved.state.keys() >= _TO_GO_ON:
        raise InputError(
            "{path}: holds weights alone and cannot go on; --init_from={path} with another --out_dir begins a run with "
            "them",
            path=saved.path,
        )
    return saved


def settings_of(saved: Saved, given: Mapping[str, Value], machine: Machine) -> dict[str, Value]:
    """The run's own settings, with what is given now. Another kind of machine chooses for itself again."""
    for name in _SHAPE:
        wanted, has = _wanted(name, given, saved.shape), getattr(saved.shape, name)
        if wanted is not None and wanted != has:
            raise ConfigError(
                "{knob} cannot change in a run that goes on: it is {has}, not {wanted}",
                knob=name,
                has=has,
                wanted=wanted,
            )
    return {**_kept(saved.config, machine), **given, **{name: getattr(saved.shape, name) for name in _SHAPE}}


def from_the_beginning(given: Mapping[str, Value], out_dir: Path, machine: Machine) -> Mapping[str, Value]:
    """What is asked for where a run shall go on that ended before its first checkpoint: the same, from the beginning.

    Its settings are in its ledger. Everywhere else, what is given.
    """
    ledger = out_dir / LEDGER_FILE
    if given.get("init_from") != "resume" or checkpoint_directories(out_dir):
        return given
    if not ledger.exists() or (out_dir / "ckpt.pt").exists():
        return given
    began = _kept(_first_config(ledger), machine)
    for name in ("overwrite", "eval_only"):
        began.pop(name, None)
    if began.get("init_from") == "resume":
        del began["init_from"]
    return {"init_from": "scratch", **began, **{name: value for name, value in given.items() if name != "init_from"}}


def _first_config(ledger: Path) -> Mapping[str, Value]:
    """Of the process that began the run; empty where it is not to be read any more."""
    reader = EventReader()
    with ledger.open("rb") as file:
        events = (event for line in file for event in reader.read(line.decode("utf-8", "replace")))
        first = next((event for event in events if isinstance(event, RunEvent)), None)
    return {} if first is None else {name: value for name, value in first.config.items() if name in KNOBS}


def _kept(config: Mapping[str, Value], machine: Machine) -> dict[str, Value]:
    """The settings that a run had, without those of another kind of machine."""
    kept = dict(config)
    if torch.device(str(kept.get("device", "cpu"))).type != machine.device.type:
        for name in _OF_THE_MACHINE:
            kept.pop(name, None)
    kept.pop("device", None)
    return kept


def _wanted(name: str, given: Mapping[str, Value], shape: ModelShape) -> Value | None:
    """What is given for a knob that the weights settle, in the form that their shape has it; None: nothing."""
    value = given.get(name)
    return ",".join(left_out(shape.recipe, value)) if name == "without" and isinstance(value, str) else value


def find_pretrained(init_from: str) -> Pretrained:
    """A ckpt.pt of nanoGPT, a Hugging Face directory, or a run of ours, by its path."""
    if not Path(init_from).exists():
        raise UsageError(
            "--init_from={init_from}: is neither scratch nor resume, and there is no such file or directory; "
            "a model of the hub has to be downloaded first",
            init_from=init_from,
        )
    return open_pretrained(Path(init_from))


def fitted_settings(pretrained: Pretrained, given: Mapping[str, Value]) -> dict[str, Value]:
    """The model's shape is settled by its weights; only its context may be made shorter, as nanoGPT allows."""
    for name in _SHAPE:
        wanted, has = _wanted(name, given, pretrained.shape), getattr(pretrained.shape, name)
        shorter = name == "block_size" and isinstance(wanted, int) and wanted < pretrained.shape.block_size
        if wanted is not None and wanted != has and not shorter:
            raise ConfigError(
                "{knob} is {has} in {path}, and cannot be {wanted}",
                knob=name,
                has=has,
                path=pretrained.path,
                wanted=wanted,
            )
    return {**{name: getattr(pretrained.shape, name) for name in _SHAPE}, **given}


def build_model(
    shape: ModelShape, source: Saved | Pretrained | None, device: torch.device, *, piecewise: bool = False
) -> GPT:
    """Drawn anew where there is no source. A longer position table than needed is cut.

    It is drawn with the numbers of `device`: on a CPU one seed gives nanoGPT's weights, but that takes it 5 to 9 s for
    GPT-2. `piecewise`: no more than one weight at a time lies on the device, and the model on the host.
    """
    with Drawing(device) if piecewise else device:
        model = new_model(shape)
    if source is not None:
        weights = source.weights() if isinstance(source, Saved) else dict(source.weights)
        positions = "transformer.wpe.weight"
        if positions in weights:
            weights[positions] = weights[positions][: shape.block_size]
        model.load_state_dict(weights)
    return model
