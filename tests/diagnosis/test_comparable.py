"""Which losses may be held against each other, and why others may not."""

from __future__ import annotations

from typing import Any

import pytest

from nanopace.diagnosis.comparable import obstacle
from nanopace.diagnosis.compare import compare
from nanopace.diagnosis.result import Finding
from nanopace.record import replace
from nanopace.run import Fact

CURVE = [(0, 0.0, 5.0), (10, 10.0, 4.0), (20, 20.0, 3.0)]
TOKENIZER = Finding("compare_other_tokenizer")
CORPUS = Finding("compare_other_corpus")
OTHER_DATA = Finding("compare_other_data", {"a_dataset": "owt", "b_dataset": "code"})
VOCABULARY = Finding("compare_other_vocabulary", {"a_vocabulary": 65, "b_vocabulary": 50304})


@pytest.mark.parametrize(
    ("a", "b", "of_loss", "of_bits"),
    [
        ({}, {}, None, None),
        ({"dataset": "owt"}, {}, None, None),
        ({"dataset": "owt"}, {"dataset": "code"}, OTHER_DATA, OTHER_DATA),
        ({"dataset": "owt", "corpus": "1"}, {"dataset": "code", "corpus": "1"}, None, None),
        ({"dataset": "owt", "corpus": "1"}, {"dataset": "owt", "corpus": "2"}, CORPUS, None),
        ({"tokenizer": "x", "corpus": "1"}, {"tokenizer": "x", "corpus": "2"}, CORPUS, CORPUS),
        ({"tokenizer": "x", "corpus": "1"}, {"tokenizer": "y", "corpus": "2"}, TOKENIZER, None),
        ({"vocab_size": 65}, {"vocab_size": 50304}, VOCABULARY, None),
        ({"vocab_size": 50257}, {"vocab_size": 50304}, None, None),  # padded
        ({"vocab_size": 65, "corpus": "1"}, {"vocab_size": 50304, "corpus": "1"}, None, None),
    ],
)
def test_what_stands_in_the_way(make_diagnosis: Any, a: Any, b: Any, of_loss: Any, of_bits: Any) -> None:
    for metric, expected in (("loss", of_loss), ("bpb", of_bits)):
        runs = [make_diagnosis(curve=CURVE, knobs=knobs, metric=metric) for knobs in (a, b)]
        assert obstacle(*runs) == expected
        found = compare(*runs)
        assert (found.arrival is None) == (not found.equal_time) == (expected is not None)
        if expected is not None:
            assert found.findings[1] == expected
            assert not any("sooner" in each.code or "arrival" in each.code for each in found.findings)


def test_a_vocabulary_that_is_inferred_shows_nothing(make_diagnosis: Any) -> None:
    a = make_diagnosis(curve=CURVE, knobs={"vocab_size": 65})
    b = replace(a, facts={"vocab_size": Fact(50304, "inferred", "first_loss")})
    assert obstacle(a, b) is obstacle(b, a) is None
