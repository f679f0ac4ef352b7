"""Header lines about the settings that a resumed run changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nanopace.config import KNOBS, TrainConfig, knobs_of
from nanopace.errors import Message
from nanopace.literals import Value, shown
from nanopace.train.checkpoint.layout import Saved

_OF_A_STEP = ("batch_size", "gradient_accumulation_steps")
_OF_THE_ORDER = ("seed", "documents")
# Where a process starts and where it writes are not settings of a run, and the header names its device anyway.
_OF_THE_PROCESS = (*knobs_of("call"), "device")


def differences(saved: Saved, config: TrainConfig) -> dict[str, str]:
    """At most two lines: on the position in the data, and on everything else."""
    data = Message.joined("; ", _of_the_data(saved, config))
    others = set(KNOBS).difference(_OF_A_STEP, _OF_THE_ORDER, _OF_THE_PROCESS)
    changed = _changed(saved, config, [name for name in KNOBS if name in others])
    lines = {"data": data, "changed since the checkpoint": _listed(changed, config)}
    return {name: line for name, line in lines.items() if line}


def _of_the_data(saved: Saved, config: TrainConfig) -> Iterator[str]:
    read = Message("the data continues after the {windows:,} windows already read", windows=saved.windows)
    order = Message("the data continues in another order, and windows of this epoch may come again")
    for names, what in ((_OF_A_STEP, read), (_OF_THE_ORDER, order)):
        changed = _changed(saved, config, names)
        if changed:
            yield Message.joined(": ", (_listed(changed, config), what))


def _listed(changed: Mapping[str, Value], config: TrainConfig) -> str:
    return ", ".join(f"{name} {shown(was)} -> {shown(getattr(config, name))}" for name, was in changed.items())


def _changed(saved: Saved, config: TrainConfig, names: Sequence[str]) -> dict[str, Value]:
    """Their old values. A knob that the checkpoint does not name counts as unchanged: nanoGPT has no vocab_size."""
    return {
        name: saved.config[name]
        for name in names
        if saved.config.get(name, getattr(config, name)) != getattr(config, name)
    }
