"""Findings whose sentence is true for nanoGPT but not for the trainer at hand get a different sentence.

Code and numbers stay the same. `elsewhere` among the numbers selects the sentence in wording/other_trainers.py, which
may need a few more numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from nanopace.diagnosis.result import Finding, Number
from nanopace.record import replace
from nanopace.run import Run

More = Mapping[str, Number]


def said_elsewhere(run: Run, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The same findings, each adapted to the run's trainer."""
    return tuple(_fitted(run, finding) for finding in findings)


def _fitted(run: Run, finding: Finding) -> Finding:
    more = _MORE[finding.code](run, finding) if finding.code in _MORE else None
    if more is None:
        return finding
    known = {name: number for name, number in more.items() if number is not None}
    return replace(finding, numbers={**finding.numbers, "elsewhere": True, **known})


def _own_knobs(run: Run, _finding: Finding) -> More | None:
    """For trainers that do not use nanoGPT's knobs."""
    return None if run.nanogpt_knobs else {}


def _no_plain_row(run: Run, finding: Finding) -> More | None:
    """The only row of an excerpt may be plain, whatever the trainer."""
    excerpt = len(run.rows) == 1 and run.rows.iteration[0] > 0 and not run.evaluations
    return {} if excerpt else _own_knobs(run, finding)


def _compile(run: Run, _finding: Finding) -> More | None:
    """What to check if the trainer can compile and is not known to do so already."""
    if run.nanogpt_knobs:
        return None
    return {"compile": "torch.compile" if run.compiles and run.value("compile") is not True else None}


def _never_compiles(run: Run, _finding: Finding) -> More | None:
    """For trainers without compilation, and for runs whose log says that it is off."""
    return None if run.compiles and run.value("compile") is not False else {}


def _peak_of_log(run: Run, _finding: Finding) -> More | None:
    """For logs that show their own peak, which is not the same for every card."""
    peak = run.facts.get("printed_peak_tflops")
    return {} if peak is not None and (peak.origin == "log" or peak.because == "printed_mfu") else None


def _printed_work(run: Run, _finding: Finding) -> More | None:
    """If the FLOPs are the trainer's own, neither nanoGPT's settings nor the number of GPUs can explain them."""
    flops = run.facts.get("flops_per_token")
    return {} if flops is not None and flops.because == "printed_tflops" else None


def _missing(run: Run, finding: Finding) -> More | None:
    """Name only what helps if it is passed: for most trainers, nanoGPT's knobs give neither tokens nor FLOPs."""
    missing = str(finding.numbers["missing"]).split(", ")
    knobs = [name for name in missing if name != "gpu"]
    if run.nanogpt_knobs and run.gpt2_shape:
        return None
    helps = not knobs or (run.gpt2_shape and "tokens_per_iteration" not in knobs)
    return {
        "knobs": ", ".join(knobs) if knobs and helps else None,
        "flag": "--gpu NAME" if "gpu" in missing and helps else None,
    }


_MORE: Mapping[str, Callable[[Run, Finding], More | None]] = {
    **dict.fromkeys(("startup_compile", "startup_of_several", "startup"), _never_compiles),
    **dict.fromkeys(("startup_bounded", "startup_together", "startup_unsplit"), _never_compiles),
    **dict.fromkeys(("hidden_evaluations", "align_log_interval", "hidden_unpriced"), _own_knobs),
    **dict.fromkeys(("checkpoint_unknown", "memory_spill", "ended_out_of_memory"), _own_knobs),
    "no_plain_row": _no_plain_row,
    **dict.fromkeys(("raise_eval_interval", "larger_micro_batch", "calm_the_loss", "loss_diverged"), _own_knobs),
    **dict.fromkeys(("mfu_other_card", "mfu_card_unknown", "mfu_over_100"), _peak_of_log),
    "card_above_peak": _printed_work,
    **dict.fromkeys(("utilisation_half_idle", "utilisation_mostly_idle"), _compile),
    **dict.fromkeys(("mfu_unknown", "tokens_unknown"), _missing),
}
