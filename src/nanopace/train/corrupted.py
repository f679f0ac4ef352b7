"""The end of a run whose memory or arithmetic is not to be trusted: the evidence, and one line that says what to do.

loop/corruption.py finds it. Nothing is repaired: whatever else is wrong on this machine is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nanopace.errors import InputError, Message, UsageError
from nanopace.train.loop.corruption import CorruptedError, Difference
from nanopace.train.loop.loop import Loop
from nanopace.train.plan.run_plan import RunPlan


def corrupted(out_dir: Path, plan: RunPlan, loop: Loop, error: CorruptedError) -> UsageError:
    """Finish the checkpoints that are being written, which were still intact, and save the evidence."""
    loop.close_checkpoints()
    newest = loop.checkpoints.newest or (None if plan.resumed is None else plan.resumed.path)
    try:
        evidence: object = loop.save_corruption(out_dir, error)
    except InputError as failure:
        evidence = Message("could not be saved ({reason})", reason=failure)
    known = {"step": error.step, "evidence": evidence, "next": _next(newest)}
    worst = max(error.differences, key=lambda each: each.count or 0)
    tensors = len({each.name for each in error.differences})
    if error.batch is None:
        return UsageError(
            "step {step}: {tensor} changed between two updates, when nothing writes to it (tensors that did: "
            "{tensors}); this machine's memory may be faulty; evidence: {evidence}; {next}",
            tensor=worst.name,
            tensors=tensors,
            **known,
        )
    return UsageError(
        "step {step}: the same micro-batch computed twice gave different gradients, mostly of {tensor} (differing "
        "values: {count:,}; tensors: {tensors}; largest difference: {largest}); this machine may be faulty; evidence: "
        "{evidence}; {next}",
        count=sum(each.count or 0 for each in error.differences),
        tensors=tensors,
        tensor=worst.name,
        largest=_largest(error.differences),
        **known,
    )


def _largest(differences: Sequence[Difference]) -> object:
    sizes = [each.largest for each in differences]
    return Message("not finite") if None in sizes else f"{max(each for each in sizes if each is not None):.3g}"


def _next(newest: Path | None) -> Message:
    if newest is None:
        return Message("no checkpoint was saved yet: test the memory, then start again")
    return Message("test the memory, then resume from {checkpoint} with --init_from=resume", checkpoint=newest)
