"""What is different in a run that goes on with other settings than it had, in a line of the header each."""

from __future__ import annotations

from collections.abc import Iterator

from nanopace.config import KNOBS, TrainConfig
from nanopace.literals import shown
from nanopace.train.checkpoint_files import Saved

_OF_A_STEP = ("batch_size", "gradient_accumulation_steps")
_OF_THE_ORDER = ("seed", "documents")
# Where a process begins and where it writes are no settings of a run, and the header names its device.
_OF_THE_PROCESS = ("init_from", "out_dir", "overwrite", "device")


def differences(saved: Saved, config: TrainConfig) -> dict[str, str]:
    """By what they are about: the position in the data, and everything else."""
    data = "; ".join(_of_the_data(saved, config))
    others = set(KNOBS).difference(_OF_A_STEP, _OF_THE_ORDER, _OF_THE_PROCESS)
    changed = [name for name in KNOBS if name in others and _was(saved, name) != getattr(config, name)]
    listed = ", ".join(f"{name} {shown(_was(saved, name))} -> {shown(getattr(config, name))}" for name in changed)
    lines = {"data": data, "changed since the checkpoint": listed}
    return {name: line for name, line in lines.items() if line}


def _of_the_data(saved: Saved, config: TrainConfig) -> Iterator[str]:
    for names, what in (
        (_OF_A_STEP, f"the data goes on after the {saved.windows:,} windows that were read"),
        (_OF_THE_ORDER, "the data goes on in another order, and windows of this epoch may come again"),
    ):
        changed = [name for name in names if _was(saved, name) != getattr(config, name)]
        if changed:
            said = (f"{name} is {getattr(config, name)} now and was {_was(saved, name)}" for name in changed)
            yield f"{', '.join(said)}: {what}"


def _was(saved: Saved, name: str) -> object:
    """A checkpoint of an earlier version knows nothing of later knobs, and did as their defaults do."""
    return saved.config.get(name, KNOBS[name].default)
