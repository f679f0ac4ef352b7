"""What a reader has to know of a recommendation's figures: codes and numbers, which wording/reasons.py says."""

from __future__ import annotations

from nanopace.tune.knobs import MOST_EPOCHS
from nanopace.tune.recommend import TWO_WEEKS_S, Recommendation


def notes(found: Recommendation) -> list[tuple[str, dict[str, object]]]:
    """In the order of how much they matter."""
    said: list[tuple[str, dict[str, object]]] = []
    if found.tokens_per_s is None:
        half = any(choice.reason in ("dtype_half", "dtype_single", "dtype_apple") for choice in found.knobs)
        said.append(("no_bf16" if half else "peak_unknown", {}))
    elif not found.measured:
        said.append(("unmeasured", {}))
    if len(found.rungs) == 2:
        said.append(("no_kernels", {}))
    elif found.tokens_per_s is not None and found.card_class != "hopper":
        said.append(("kernels_unmeasured", {}))
    if "gradients" in found.ladder:
        said.append(("released", {}))
    largest = found.rungs[-1].micro_batch
    if not found.nanogpt_fits:
        sequences = found.batch_size * found.accumulation
        batch = max((each for each in range(1, largest + 1) if sequences % each == 0), default=0)
        numbers = {"batch": str(batch), "accumulation": str(sequences // batch)} if batch else {}
        said.append(("nanogpt_smaller" if batch else "nanogpt_never", {**numbers}))
    if found.epochs is not None and found.epochs > MOST_EPOCHS:
        said.append(("epochs", {"dataset": found.dataset, "epochs": round(found.epochs, 1)}))
    if found.seconds is not None and found.seconds.expected > TWO_WEEKS_S:
        said.append(("long", {}))
    if found.seconds is not None:
        said.append(("energy_unknown" if found.kwh is None else "energy", {}))
    said.append(("loss", {}))
    if found.tokens_per_s is not None:
        said.append(("several", {"link": found.together[-1].link}))
    return said
