"""What to know about a recommendation's figures: codes and numbers, which wording/reasons.py turns into sentences."""

from __future__ import annotations

from nanopace.hardware.card_classes import CLASSES
from nanopace.hardware.memory import GIB
from nanopace.hardware.scaling_law import ALMOST_FRESH, too_often, worth_in_passes
from nanopace.hardware.speed import BUS_GB_S, Range
from nanopace.memory_ladder import keeps_gradients
from nanopace.tune.divisors import divisors
from nanopace.tune.recommend.budget import is_short
from nanopace.tune.recommend.datasets import Dataset
from nanopace.tune.recommend.recommend import TWO_WEEKS_S, Recommendation
from nanopace.tune.recommend.with_fast import SOONER

Note = tuple[str, dict[str, object]]
_MUCH_SLOWER = 0.8  # than later logs
_EXACT = 10  # passes: below this, a tenth of one matters
_OTHER_FORMATS = {"fp16": "figures_fp16", "fp32": "figures_fp32"}
_NO_LOSS = {
    "vocabulary": "loss_vocabulary",
    "passes": "loss_passes",
    "tokens": "loss_tokens",
    "parameters": "loss_parameters",
}


def headline(found: Recommendation) -> list[Note]:
    """Notes shown with the figures themselves: whether the host's memory is needed, their number format, how often text
    is repeated, and why no loss is given."""
    said: list[Note] = []
    if found.host_bytes:
        said.append(("host_needed", {"host_gib": round(found.host_bytes / GIB, 1)}))
    if found.precision in _OTHER_FORMATS:
        said.append((_OTHER_FORMATS[found.precision], {}))
    if found.epochs is not None and found.epochs > ALMOST_FRESH:
        numbers: dict[str, object] = {
            "passes": round(found.epochs, 1) if found.epochs < _EXACT else round(found.epochs),
            "worth": round(worth_in_passes(found.epochs), 1),
            "dataset": found.dataset,
            "enough": None if found.enough_tokens is None else str(found.enough_tokens),
            "iterations": found.enough_iters,
        }
        said.append(("overfits" if too_often(found.epochs) else "repeated", numbers))
    if found.loss_unknown is not None:
        said.append((_NO_LOSS[found.loss_unknown], {}))
    return said


def notes(found: Recommendation) -> list[Note]:
    """Notes, most important first."""
    said: list[Note] = []
    if found.tokens_per_s is None:
        apple = any(choice.reason == "dtype_apple" for choice in found.knobs)
        said.append(("no_apple" if apple else "peak_unknown", {}))
    else:
        seen = CLASSES[found.card_class].seen
        said.append(("speed" if found.measured else "speed_few" if seen else "unmeasured", {"seen": seen}))
    said.append(("memory", {}))
    possible = any(choice.knob == "recipe" for choice in found.knobs)  # our kernels, on this card
    if len(found.rungs) == 2:
        said.append(("no_kernels_dropout" if possible else "no_kernels", {}))
    elif found.tokens_per_s is not None and found.card_class != "hopper":
        said.append(("kernels_unmeasured", {}))
    theirs, old = found.nanogpt_tokens_per_s, found.nanogpt_early_tokens_per_s
    if theirs is not None and old is not None and _reaches_down(theirs, old):
        said.append(("early_logs", {"tokens_per_s": old.expected}))
    if not keeps_gradients(found.ladder):
        said.append(("released", {}))
    if found.host_bytes:
        said.append(("host", {"bus_rate": BUS_GB_S}))
    largest = found.rungs[-1].micro_batch
    numbers: dict[str, object]
    if not found.nanogpt_fits:
        sequences = found.batch_size * found.accumulation
        batch = max((each for each in divisors(sequences) if each <= largest), default=0)
        numbers = {"batch": str(batch), "accumulation": str(sequences // batch)} if batch else {}
        said.append(("nanogpt_smaller" if batch else "nanogpt_never", numbers))
    if is_short(Dataset(found.dataset, found.dataset_tokens), found.model):
        numbers = {"dataset": found.dataset, "text_tokens": found.dataset_tokens, "model": found.model.name}
        said.append(("little_text" if found.loss_unknown == "vocabulary" else "fine_tune", numbers))
    several = len(found.together) > 1
    if found.seconds is not None and found.seconds.expected > TWO_WEEKS_S:
        said.append(("long" if several else "long_alone", {}))
    if found.fast_seconds is not None:
        said.append(("fast", {"least": SOONER[0], "most": SOONER[1]}))
    if possible:
        said.append(("fast_limits", {}))
    if found.seconds is not None:
        said.append(("energy_unknown" if found.kwh is None else "energy", {}))
    if found.loss is not None:
        said.append(("loss", {}))
    if several:
        said.append(("several", {"link": found.together[-1].link}))
    return said


def _reaches_down(theirs: Range, old: Range) -> bool:
    """Whether nanoGPT's range includes that of its early logs, and these are much slower."""
    return theirs.low <= old.low and old.expected < _MUCH_SLOWER * theirs.expected
