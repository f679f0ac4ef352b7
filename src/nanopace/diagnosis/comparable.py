"""Whether the losses of two runs may be held against each other: only on the same data, in the same tokens.

A loss is per token, so another vocabulary makes another loss of the same model. Bits per byte do not depend on it. What
is unknown is not held against the runs; what a config or a ledger shows is.
"""

from __future__ import annotations

from nanopace.diagnosis.result import Diagnosis, Finding
from nanopace.run import FactValue

OTHER_TOKENS = ("compare_other_tokenizer", "compare_other_vocabulary")  # what bits per byte do not mind
_PADDED_TO = 128  # vocabularies are rounded up to a multiple of 64 or 128, which is the same vocabulary


def obstacle(a: Diagnosis, b: Diagnosis) -> Finding | None:
    """Why the losses cannot be compared; None if nothing speaks against it. Bits per byte and loss are another matter:
    of these two no curve is ever compared with the other."""
    corpora, tokenizers, datasets = (_both(a, b, name) for name in ("corpus", "tokenizer", "dataset"))
    if corpora is not None and corpora[0] == corpora[1]:
        return None  # the same tokens, by whatever name
    if datasets is not None and datasets[0] != datasets[1]:
        return Finding("compare_other_data", {"a_dataset": str(datasets[0]), "b_dataset": str(datasets[1])})
    other_tokenizer = tokenizers is not None and tokenizers[0] != tokenizers[1]
    if a.loss.metric == b.loss.metric == "bpb" and (other_tokenizer or tokenizers is None):
        return None  # other tokens of what may well be the same text
    if other_tokenizer:
        return Finding("compare_other_tokenizer")
    if corpora is not None:
        return Finding("compare_other_corpus")
    return _other_vocabulary(a, b)


def _other_vocabulary(a: Diagnosis, b: Diagnosis) -> Finding | None:
    of_a, of_b = _vocabulary(a), _vocabulary(b)
    if of_a is None or of_b is None or _padded(of_a) == _padded(of_b):
        return None
    return Finding("compare_other_vocabulary", {"a_vocabulary": of_a, "b_vocabulary": of_b})


def _padded(size: int) -> int:
    return -(-size // _PADDED_TO)


def _vocabulary(run: Diagnosis) -> int | None:
    """None where the log does not say it itself: what is inferred from a loss shows nothing."""
    fact = run.facts.get("vocab_size")
    if fact is None or fact.origin == "inferred" or type(fact.value) is not int or fact.value <= 0:
        return None
    return fact.value


def _both(a: Diagnosis, b: Diagnosis, name: str) -> tuple[FactValue, FactValue] | None:
    of_a, of_b = a.facts.get(name), b.facts.get(name)
    return None if of_a is None or of_b is None else (of_a.value, of_b.value)
