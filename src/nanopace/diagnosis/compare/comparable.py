"""Whether the losses of two runs are comparable: they need the same unit, data and tokens.

A loss is per token, so the same model has a different loss with a different vocabulary. Bits per byte do not depend on
it. Unknowns do not prevent a comparison, but they are reported. A vocabulary can be inferred: the loss of an untrained
model is close to its logarithm.
"""

from __future__ import annotations

import math

from nanopace.diagnosis.result import Diagnosis, Finding
from nanopace.run import FactValue
from nanopace.sources.formats.registry import find_format

# Bits per byte do not depend on these.
OTHER_TOKENS = (
    *("compare_other_tokenizer", "compare_other_vocabulary", "compare_vocabulary_inferred"),
    "compare_other_token_length",
)
_PADDED_TO = 128  # vocabularies are often padded to a multiple of 64 or 128, which is still the same vocabulary
_OTHER_START = 0.5  # nats: untrained models with one vocabulary start closer together, however they are initialised
_OTHER_START_SAME_DATA = 2.0  # if the dataset has the same name: a different initialisation is more likely then
_SAME_TEXT = 0.02  # of the bytes per token: the same tokenizer on another part of the text differs less
_NEAR = 0.05  # of the larger of the two
_CHARACTERS = math.log(1000)  # a smaller vocabulary consists of characters ...
_LEARNED = 0.6  # ... and its loss soon falls to this share
_LARGEST_START = 14.0  # nats: a vocabulary of a million; no untrained model has a higher loss


def why_incomparable(a: Diagnosis, b: Diagnosis) -> Finding | None:
    """Why the losses are not comparable; None if they are."""
    if a.loss.metric != b.loss.metric:
        if not (a.curves.eval_val and b.curves.eval_val):
            return None  # one has no losses, so there is nothing to compare
        return Finding("compare_other_metric", {"a_metric": a.loss.metric, "b_metric": b.loss.metric})
    corpora, tokenizers, datasets = (_both(a, b, name) for name in ("corpus", "tokenizer", "dataset"))
    if corpora is not None and corpora[0] == corpora[1]:
        return None  # the same tokens, even under another name
    if datasets is not None and datasets[0] != datasets[1]:
        return Finding("compare_other_data", {"a_dataset": str(datasets[0]), "b_dataset": str(datasets[1])})
    other_tokenizer = tokenizers is not None and tokenizers[0] != tokenizers[1]
    if a.loss.metric == b.loss.metric == "bpb" and (other_tokenizer or tokenizers is None):
        return None  # different tokens, but perhaps of the same text
    if other_tokenizer:
        return Finding("compare_other_tokenizer")
    if corpora is not None:
        return Finding("compare_other_corpus")
    return _other_vocabulary(a, b) or _other_text_per_token(a, b) or _other_start(a, b)


def both_names(a: Diagnosis, b: Diagnosis) -> tuple[str, str]:
    """The names of the two logs, with (A) and (B) if they are the same."""
    of_a, of_b = a.source.name, b.source.name
    return (of_a, of_b) if of_a != of_b else (f"{of_a} (A)", f"{of_b} (B)")


def number_of(run: Diagnosis, name: str) -> float | None:
    """A fact that is a number."""
    fact = run.facts.get(name)
    return float(fact.value) if fact is not None and isinstance(fact.value, (int, float)) else None


def settings_help(a: Diagnosis, b: Diagnosis) -> bool:
    """Whether tokens and FLOPs follow from settings that can be passed. For most trainers, they do not."""
    return all(find_format(run.source.format).gpt2_shape for run in (a, b))


def same_data(a: Diagnosis, b: Diagnosis) -> bool:
    """Whether both logs name the same data."""
    known = (_both(a, b, name) for name in ("corpus", "dataset"))
    return any(names is not None and names[0] == names[1] for names in known)


def _other_vocabulary(a: Diagnosis, b: Diagnosis) -> Finding | None:
    of_a, of_b = _vocabulary(a), _vocabulary(b)
    if of_a is None or of_b is None or _padded(of_a) == _padded(of_b):
        return None
    return Finding("compare_other_vocabulary", {"a_vocabulary": of_a, "b_vocabulary": of_b})


def _other_text_per_token(a: Diagnosis, b: Diagnosis) -> Finding | None:
    """A difference of tokens that evaluations in both units show: bits per token over bits per byte is the length of a
    token."""
    of_a, of_b = _bytes_per_token(a), _bytes_per_token(b)
    if of_a is None or of_b is None or abs(math.log(of_a / of_b)) <= _SAME_TEXT:
        return None
    return Finding("compare_other_token_length", {"a_token_bytes": round(of_a, 2), "b_token_bytes": round(of_b, 2)})


def _bytes_per_token(run: Diagnosis) -> float | None:
    """Of the last evaluation with both figures."""
    both = zip(run.curves.eval_val, run.curves.eval_bits, strict=False)
    known = [val / (bits * math.log(2)) for val, bits in both if val and bits and math.isfinite(val) and bits > 0]
    return known[-1] if known and known[-1] > 0 and run.loss.metric == "loss" else None


def _other_start(a: Diagnosis, b: Diagnosis) -> Finding | None:
    """A difference in vocabulary that the first losses show."""
    of_a, of_b = _start(a), _start(b)
    if of_a is None or of_b is None or a.loss.metric != "loss":
        return None
    apart = _OTHER_START_SAME_DATA if same_data(a, b) else _OTHER_START
    if abs(of_a - of_b) <= max(apart, _NEAR * max(of_a, of_b)):
        return None
    numbers = {"a_vocabulary": round(math.exp(of_a)), "b_vocabulary": round(math.exp(of_b))}
    return Finding("compare_vocabulary_inferred", numbers)


def _start(run: Diagnosis) -> float | None:
    """The loss of an untrained model: the logarithm of a known vocabulary, or the loss before the first step. None if
    training started from existing weights."""
    origin, vocabulary = run.facts.get("init_from"), run.facts.get("vocab_size")
    if origin is not None and origin.value != "scratch":
        return None
    if vocabulary is not None and type(vocabulary.value) is int and vocabulary.value > 1:
        return math.log(vocabulary.value)
    if run.curves.eval_iteration[:1] != (0,):
        return None
    untrained, later = run.curves.eval_val[0], [val for val in run.curves.eval_val[1:] if val is not None]
    if untrained is None or not 0 < untrained < _LARGEST_START:
        return None
    if untrained < _CHARACTERS and not min(later, default=math.inf) < _LEARNED * untrained:
        return None  # a pretrained model also starts this low, but has less left to learn
    return untrained


def _padded(size: int) -> int:
    return -(-size // _PADDED_TO)


def _vocabulary(run: Diagnosis) -> int | None:
    """The vocabulary if the log states it; a size inferred from a loss proves nothing."""
    fact = run.facts.get("vocab_size")
    if fact is None or fact.origin == "inferred" or type(fact.value) is not int or fact.value <= 0:
        return None
    return fact.value


def _both(a: Diagnosis, b: Diagnosis, name: str) -> tuple[FactValue, FactValue] | None:
    of_a, of_b = a.facts.get(name), b.facts.get(name)
    return None if of_a is None or of_b is None else (of_a.value, of_b.value)
