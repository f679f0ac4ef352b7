"""Header lines on the settings that a resumed run has changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nanopace.config import KNOBS, TrainConfig, knobs_of
from nanopace.literals import Value, shown
from nanopace.train.checkpoint.layout import Saved

_OF_A_STEP = ("batch_size", "gradient_accumulation_steps")
_OF_THE_ORDER = ("seed", "documents")
# Where a process begins and where it writes are no settings of a run, and the header names its device.
_OF_THE_PROCESS = (*knobs_of("call"), "device")


def differences(saved: Saved, config: TrainConfig) -> dict[str, str]:
    """Two lines: on the position in the data, and on everything else."""
    data = "; ".join(_of_the_data(saved, config))
    others = set(KNOBS).difference(_OF_A_STEP, _OF_THE_ORDER, _OF_THE_PROCESS)
    changed = _changed(saved, config, [name for name in KNOBS if name in others])
    listed = ", ".join(f"{name} {shown(was)} -> {shown(getattr(config, name))}" for name, was in changed.items())
    lines = {"data": data, "changed since the checkpoint": listed}
    return {name: line for name, line in lines.items() if line}


def _of_the_data(saved: Saved, config: TrainConfig) -> Iterator[str]:
    for names, what in (
        (_OF_A_STEP, f"the data goes on after the {saved.windows:,} windows that were read"),
        (_OF_THE_ORDER, "the data goes on in another order, and windows of this epoch may come again"),
    ):
        changed = _changed(saved, config, names)
        if changed:
            said = (f"{name} is {getattr(config, name)} now and was {was}" for name, was in changed.items())
            yield f"{', '.join(said)}: {what}"


def _changed(saved: Saved, config: TrainConfig, names: Sequence[str]) -> dict[str, Value]:
    """Their old values. A knob that the checkpoint does not name counts as unchanged: nanoGPT has no vocab_size."""
    return {
        name: saved.config[name]
        for name in names
        if saved.config.get(name, getattr(config, name)) != getattr(config, name)
    }
