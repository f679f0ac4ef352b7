"""Which of a tracker's series is the training loss, which the validation loss, and which the step counter.

Names vary: train/loss, train_loss_step, Loss/train, loss, lm loss; val/loss, eval_loss. A name is split into words. It
is accepted if it says loss and on which data; its other words must not change the meaning. gen_loss, aux_loss or
max_loss are something else. If several fit, the plainest with the most points is chosen.
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
LAST_STEPS = ("step", "_step", "Step")  # may count log entries instead of steps
RATES = ("train/learning_rate", "learning_rate", "train/lr", "lr", "train/lrm")
RUNTIMES = ("eval/runtime", "eval_runtime")  # of evaluations, as Hugging Face's Trainer reports them
_MOST_NAMED, _LONGEST_NAME = 8, 40


def is_wanted(name: str) -> bool:
    """Whether a series may matter; others are not kept."""
    named = name in _STEPS or name in LAST_STEPS or name in RUNTIMES or name in RATES
    return named or not {"loss", "bpb"}.isdisjoint(_words(name))


def find_train(points: Mapping[str, int]) -> str | None:
    """The name of the training loss, given the number of points of each name."""
    ranked = []
    for name, count in points.items():
        words = _words(name)
        rest = set(words) - _PLAIN - _TRAIN - {"loss", "epoch"}
        if "loss" in words and not rest:
            of_train = not _TRAIN.isdisjoint(words)
            ranked.append((not of_train, "epoch" in words, -count, len(words), name))
    return min(ranked)[-1] if ranked else None


def find_validation(points: Mapping[str, int]) -> str | None:
    """The name of the validation loss or, if there is none, of bits per byte."""
    ranked = []
    for name, count in points.items():
        words = _words(name)
        rest = set(words) - _PLAIN - _VALIDATION - {"loss", "bpb", "epoch"}
        if not {"loss", "bpb"}.isdisjoint(words) and not rest and not _VALIDATION.isdisjoint(words):
            ranked.append(("loss" not in words, "step" in words, -count, len(words), name))
    return min(ranked)[-1] if ranked else None


def find_steps(points: Mapping[str, int], train: str) -> str | None:
    """The step counter: a series that has a point nearly everywhere the training loss has one."""
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
