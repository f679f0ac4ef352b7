"""Which of a tracker's series is the training loss, which the validation loss, and which counts the steps.

Everybody names them differently: train/loss, train_loss_step, Loss/train, loss, lm loss; val/loss, eval_loss. A name is
taken apart into words. It is chosen if it says loss, and whose, and else only words that do not change what it is;
gen_loss, aux_loss or max_loss are something else. Of several that fit, the plainest with the most points is chosen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_WORD = re.compile(r"[a-z]+|\d+")
_TRAIN = frozenset(("train", "training", "tr", "trainer"))
_VALIDATION = frozenset(("val", "valid", "validation", "eval", "evaluation", "dev"))
_PLAIN = frozenset(
    (
        *("step", "iter", "batch", "minibatch", "mini", "micro", "per", "run", "metrics", "value", "interval"),
        *("avg", "mean", "global", "local", "rank", "total", "running", "smooth", "smoothed", "ema"),
        *("lm", "ce", "xent", "cross", "entropy", "nll", "dataloader", "idx", "0"),
    )
)
_STEPS = ("iter", "iteration", "train/global_step", "trainer/global_step", "global_step", "train/iter", "train/step")
LAST_STEPS = ("step", "_step", "Step")  # which may count what was logged, and not the steps
_RUNTIMES = ("eval/runtime", "eval_runtime")
_MOST_NAMED, _LONGEST_NAME = 8, 40


def is_wanted(name: str) -> bool:
    """Whether a series may matter: the others are not kept."""
    return name in _STEPS or name in LAST_STEPS or name in _RUNTIMES or not {"loss", "bpb"}.isdisjoint(_words(name))


def find_train(points: Mapping[str, int]) -> str | None:
    """The training loss, of the names and how many points each has."""
    ranked = []
    for name, count in points.items():
        words = _words(name)
        rest = set(words) - _PLAIN - _TRAIN - {"loss", "epoch"}
        if "loss" in words and not rest:
            of_train = not _TRAIN.isdisjoint(words)
            ranked.append((not of_train, "epoch" in words, -count, len(words), name))
    return min(ranked)[-1] if ranked else None


def find_validation(points: Mapping[str, int]) -> str | None:
    """The validation loss; where there is none, what is printed as bits per byte."""
    ranked = []
    for name, count in points.items():
        words = _words(name)
        rest = set(words) - _PLAIN - _VALIDATION - {"loss", "bpb", "epoch"}
        if not {"loss", "bpb"}.isdisjoint(words) and not rest and not _VALIDATION.isdisjoint(words):
            ranked.append(("loss" not in words, "step" in words, -count, len(words), name))
    return min(ranked)[-1] if ranked else None


def find_runtime(points: Iterable[str]) -> str | None:
    """What each evaluation took, as Hugging Face's Trainer reports it."""
    return next((name for name in _RUNTIMES if name in points), None)


def find_steps(points: Mapping[str, int], train: str) -> str | None:
    """The counter of steps: one that has a point nearly wherever the training loss has."""
    names = (*_STEPS, *LAST_STEPS)
    return next((name for name in names if points.get(name, 0) >= 0.5 * points[train]), None)


def is_bits_per_byte(name: str) -> bool:
    return "loss" not in _words(name)


def listed(names: Iterable[str]) -> str:
    """A few names, for a message."""
    known = sorted(name for name in names if not name.startswith("_"))
    return ", ".join(map(shortened, known[:_MOST_NAMED])) + (", …" if len(known) > _MOST_NAMED else "")


def shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _words(name: str) -> list[str]:
    return _WORD.findall(name.lower())
