"""Where a run's weights come from: newly drawn, a checkpoint of this run, or a pretrained model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import torch

from nanopace.config import KNOBS, Asked, knobs_of
from nanopace.errors import ConfigError, InputError, Message, UsageError, unreadable
from nanopace.files import read_beginning
from nanopace.knob_values import left_out
from nanopace.ledger.events import RunEvent
from nanopace.ledger.file import LEDGER_FILE, EventReader
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import NANOGPT_FILE, Saved, checkpoint_directories, newest_intact
from nanopace.train.formats.convert import open_pretrained
from nanopace.train.formats.hub import find_model
from nanopace.train.formats.nanogpt_run import open_nanogpt_run
from nanopace.train.formats.pretrained import Pretrained
from nanopace.train.listener import Listener
from nanopace.train.models.gpt2 import GPT, ModelShape
from nanopace.train.models.init_weights import InitOnDevice
from nanopace.train.models.recipes import new_model
from nanopace.train.plan.device import Machine

SHAPE = tuple(each.name for each in fields(ModelShape) if each.name in knobs_of("shape", "recipe"))  # by the weights
_OF_A_LEDGER = 1 << 20  # bytes: the event we need is at the start


def find_saved(out_dir: Path, listener: Listener) -> Saved:
    """The newest intact checkpoint to resume from, ours or nanoGPT's, whichever has more steps.

    Reports the ones that cannot be used, and why.
    """
    ours, newer = newest_intact(out_dir)
    refused = [*newer]
    theirs: Saved | None = None
    if (out_dir / NANOGPT_FILE).exists():
        try:
            theirs = open_nanogpt_run(out_dir / NANOGPT_FILE)
        except InputError as unusable:
            refused.append(unusable)
    saved = further(ours, theirs)
    if saved is None and refused and not newer:
        raise refused[0]  # the error about nanoGPT's file, which says what to do
    for error in refused:
        said = error.as_message()
        if saved is not None:
            said = Message("{error}; resuming from {path} instead", error=error, path=saved.path)
        listener.note(said)
    if saved is None:
        if refused:
            raise InputError(
                "{path}: no checkpoint is intact; what is wrong with each is listed above; leave out "
                "--init_from=resume to start over: what is there is kept under another name",
                path=out_dir,
            )
        raise InputError(
            "{path}: no checkpoint to resume from; leave out --init_from=resume to start a run here, or name the "
            "--out_dir of one",
            path=out_dir,
        )
    if ours is not None and theirs is not None:
        behind = theirs if saved is ours else ours
        which = {"path": saved.path, "step": saved.step, "other": behind.path, "behind": behind.step}
        if saved is ours:
            note = Message("resuming from {path} at step {step:,}; {other} is at step {behind:,}", **which)
        else:
            note = Message(
                "resuming from {path} at step {step:,}; {other} is at step {behind:,}; to resume from that one, move "
                "{file} away",
                file=NANOGPT_FILE,
                **which,
            )
        listener.note(note)
    if not saved.has_averages:
        raise InputError(
            "{path}: holds only weights and cannot be resumed; --init_from={path} with another --out_dir starts a"
            " run from them",
            path=saved.path,
        )
    return saved


def further(ours: Saved | None, theirs: Saved | None) -> Saved | None:
    """The one with more steps; ours if they are equal."""
    if ours is None or theirs is None:
        return ours or theirs
    return theirs if theirs.step > ours.step else ours


def settings_of(saved: Saved, asked: Asked, machine: Machine) -> dict[str, Value]:
    """The run's own settings, overridden by what is given now. Another kind of machine makes its own choices again.

    The shape stays. A config file may disagree, as in nanoGPT, where flags may have changed it (resume_notes.py
    reports it); a flag that disagrees is an error.
    """
    for name, (has, wanted) in other_shape(saved, asked).items():
        if not asked.files or name in asked.flags:
            raise ConfigError(
                "{knob} cannot change when a run is resumed: it is {has}, not {wanted}",
                knob=name,
                has=has,
                wanted=wanted,
            )
    return {**_kept(saved.config, machine), **asked.given, **{name: getattr(saved.shape, name) for name in SHAPE}}


def from_the_beginning(given: Mapping[str, Value], out_dir: Path, machine: Machine) -> Mapping[str, Value]:
    """Resuming a run that ended before its first checkpoint restarts it with the settings in its ledger.

    In any other case, return what is given.
    """
    ledger = out_dir / LEDGER_FILE
    if given.get("init_from") != "resume" or checkpoint_directories(out_dir):
        return given
    if not ledger.exists() or (out_dir / NANOGPT_FILE).exists():
        return given
    began = _first_config(ledger)
    weights = {name: began[name] for name in ("init_from", "which") if name in began}
    if weights.get("init_from", "resume") == "resume":
        weights = {"init_from": "scratch"}
    now = {name: value for name, value in given.items() if name != "init_from"}
    return {**_kept(began, machine), **weights, **now}


def _first_config(ledger: Path) -> Mapping[str, Value]:
    """The config of the process that began the run; empty if the ledger cannot be parsed."""
    reader = EventReader()
    try:
        beginning = read_beginning(ledger, _OF_A_LEDGER).split(b"\n")
    except OSError as error:
        raise unreadable(ledger, error) from None
    events = (event for line in beginning for event in reader.read(line.decode("utf-8", "replace")))
    first = next((event for event in events if isinstance(event, RunEvent)), None)
    return {} if first is None else {name: value for name, value in first.config.items() if name in KNOBS}


def _kept(config: Mapping[str, Value], machine: Machine) -> dict[str, Value]:
    """A run's settings, without those of a single call or of another kind of machine."""
    same = str(config.get("device", "cpu")).partition(":")[0] == machine.device.type
    aside = {*knobs_of("call"), "device"} if same else set(knobs_of("call", "machine"))
    return {name: value for name, value in config.items() if name not in aside}


def other_shape(saved: Saved, asked: Asked) -> dict[str, tuple[Value, Value]]:
    """Shape knobs that differ: what the run has, and what is wanted now."""
    both = {name: (getattr(saved.shape, name), _wanted(name, asked.given, saved.shape)) for name in SHAPE}
    return {name: (has, wanted) for name, (has, wanted) in both.items() if wanted is not None and wanted != has}


def _wanted(name: str, given: Mapping[str, Value], shape: ModelShape) -> Value | None:
    """The value given for a shape knob, in the form that ModelShape has it; None if none is given."""
    value = given.get(name)
    return ",".join(left_out(shape.recipe, value)) if name == "without" and isinstance(value, str) else value


def check_which(asked: Asked, init_from: str) -> None:
    """Raise if there are no checkpoints for `which` to choose from. A config file's `which` is ignored if a flag
    overrides its init_from."""
    which = asked.given.get("which")
    overruled = "init_from" in asked.flags and "which" not in asked.flags
    if not which or overruled or init_from not in ("scratch", "resume"):
        return
    if init_from == "scratch":
        raise UsageError(
            "--which={which}: there is no run to choose a checkpoint from; name one: --init_from=out --out_dir=other",
            which=which,
        )
    raise UsageError(
        "--which={which} and --init_from=resume cannot be combined: a run is always resumed from its last "
        "checkpoint; to start a new run from another one: --init_from=out/checkpoints/step-00000150 "
        "--out_dir=other",
        which=which,
    )


def find_pretrained(init_from: str, which: str, listener: Listener) -> Pretrained:
    """Load a nanoGPT ckpt.pt, a Hugging Face directory or a nanopace run by its path; a GPT-2 also by its name."""
    pretrained = open_pretrained(find_model(init_from), which)
    if pretrained.chosen is not None:
        for error in pretrained.chosen.passed_over:
            listener.note(Message("{error}; starting from {path} instead", error=error, path=pretrained.path))
    return pretrained


def fitted_settings(pretrained: Pretrained, given: Mapping[str, Value]) -> dict[str, Value]:
    """The settings, with the shape of the weights; only the context may be shortened, as in nanoGPT."""
    for name in SHAPE:
        wanted, has = _wanted(name, given, pretrained.shape), getattr(pretrained.shape, name)
        shorter = name == "block_size" and isinstance(wanted, int) and wanted < pretrained.shape.block_size
        if wanted is not None and wanted != has and not shorter:
            raise ConfigError(
                "{knob} is {has} in {path} and cannot be {wanted}",
                knob=name,
                has=has,
                path=pretrained.path,
                wanted=wanted,
            )
    return {**{name: getattr(pretrained.shape, name) for name in SHAPE}, **given}


def build_model(
    shape: ModelShape, source: Saved | Pretrained | None, device: torch.device, *, piecewise: bool = False
) -> GPT:
    """The model with the source's weights, or new random ones if there is none. A position table that is too long is
    cut.

    Weights are drawn on `device`. On a CPU, a seed would give nanoGPT's weights, but it takes 5 to 9 s for GPT-2.
    With `piecewise`, only one weight at a time is on the device, and the model is on the host.
    """
    with InitOnDevice(device) if piecewise else device:
        model = new_model(shape)
    if source is not None:
        weights = source.weights() if isinstance(source, Saved) else dict(source.weights)
        positions = "transformer.wpe.weight"
        if positions in weights:
            weights[positions] = weights[positions][: shape.block_size]
        model.load_state_dict(weights)
    return model
