"""Which losses can be compared, and why others cannot."""

from __future__ import annotations

from typing import Any

import pytest

from nanopace.diagnosis.compare.comparable import why_incomparable
from nanopace.diagnosis.compare.compare import compare
from nanopace.diagnosis.result import Diagnosis, Finding
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
        ({"dataset": "owt", "corpus": "1"}, {"dataset": "code", "corpus": "2"}, OTHER_DATA, OTHER_DATA),
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
        assert why_incomparable(*runs) == expected
        found = compare(*runs)
        assert (found.arrival is None) == (not found.equal_time) == (expected is not None)
        if expected is not None:
            assert found.findings[1] == expected
            ranks = ("sooner", "arrival", "leads", "loss_")
            assert not any(rank in each.code for each in found.findings for rank in ranks)


def inferred(a: int, b: int) -> Finding:
    return Finding("compare_vocabulary_inferred", {"a_vocabulary": a, "b_vocabulary": b})


def test_a_vocabulary_that_is_inferred_is_one_only_if_it_clearly_differs(make_diagnosis: Any) -> None:
    a = make_diagnosis(curve=CURVE, knobs={"vocab_size": 65})
    clearly = replace(a, facts={"vocab_size": Fact(50304, "inferred", "first_loss")})
    assert why_incomparable(a, clearly) == inferred(65, 50304)
    assert compare(a, clearly).arrival is None
    nearly = replace(a, facts={"vocab_size": Fact(80, "inferred", "first_loss")})
    assert why_incomparable(a, nearly) is None


@pytest.mark.parametrize(
    ("a", "b", "same"), [(50257, 50304, True), (129, 256, True), (1, 128, True), (128, 129, False), (256, 257, False)]
)
def test_vocabularies_are_padded_to_128(make_diagnosis: Any, a: int, b: int, same: bool) -> None:
    found = why_incomparable(*(make_diagnosis(curve=CURVE, knobs={"vocab_size": size}) for size in (a, b)))
    assert (found is None or found.code != "compare_other_vocabulary") == same


UNTRAINED = [(0, 0.0, 10.9), (10, 10.0, 6.0), (20, 20.0, 5.0)]


def test_losses_before_training_tell_vocabularies_apart(make_diagnosis: Any) -> None:
    words, characters = (
        make_diagnosis(dataset=None, curve=curve)
        for curve in (UNTRAINED, [(0, 0.0, 4.2), (10, 9.0, 2.5), (20, 19.0, 2)])
    )
    found = why_incomparable(words, characters)
    assert found is not None
    assert (found.code, found.numbers["b_vocabulary"]) == ("compare_vocabulary_inferred", 67)
    assert compare(words, characters).equal_time == ()


def test_another_initialisation_is_no_other_vocabulary(make_diagnosis: Any) -> None:
    higher = [(0, 0.0, 11.9), *UNTRAINED[1:]]
    assert why_incomparable(make_diagnosis(curve=UNTRAINED), make_diagnosis(curve=higher)) is None, (
        "their data has one name"
    )
    of_unknown = (make_diagnosis(dataset=None, curve=curve) for curve in (UNTRAINED, higher))
    assert why_incomparable(*of_unknown) is not None


def test_a_model_that_was_trained_before_tells_no_vocabulary(make_diagnosis: Any) -> None:
    scratch = make_diagnosis(dataset=None, curve=UNTRAINED)
    finetuned = make_diagnosis(dataset=None, curve=[(0, 0.0, 4.2), (10, 9.0, 3.5), (20, 19.0, 3.2)])
    assert why_incomparable(scratch, finetuned) is None, "it has not fallen as characters do"
    told = make_diagnosis(curve=[(0, 0.0, 4.2), (10, 9.0, 2.0)], knobs={"init_from": "gpt2"})
    assert why_incomparable(scratch, told) is None


def test_units_are_never_mixed(make_diagnosis: Any) -> None:
    units = ("loss", "bpc", "bpb")
    for of_a in units:
        for of_b in units:
            a, b = (make_diagnosis(curve=CURVE, metric=unit, tokens=1e3, flops=1e9) for unit in (of_a, of_b))
            why, found = why_incomparable(a, b), compare(a, b)
            if of_a == of_b:
                assert why is None
                assert all((found.equal_tokens, found.equal_time, found.equal_flops, found.arrival))
            else:
                assert found.findings[1] == why == Finding("compare_other_metric", {"a_metric": of_a, "b_metric": of_b})
                assert found.equal_tokens == found.equal_time == found.equal_flops == ()
                assert found.arrival is found.leader_time is None


def test_evaluations_in_both_units_show_that_the_tokens_differ(make_diagnosis: Any) -> None:
    """Bits per token over bits per byte is the length of a token: 2.44 bytes with 1,024 pieces, 3.73 with 8,192."""

    def run(name: str, val: float, bits: float) -> Diagnosis:
        found = make_diagnosis(name=name, dataset=None, curve=[(1000, 100.0, val + 1), (2000, 200.0, val)])
        return replace(found, curves=replace(found.curves, eval_bits=(None, bits)))

    small, large = run("a.log", 2.0606, 1.2172), run("b.log", 3.0517, 1.1816)
    lengths = {"a_token_bytes": 2.44, "b_token_bytes": 3.73}
    assert why_incomparable(small, large) == Finding("compare_other_token_length", lengths)
    assert why_incomparable(small, run("c.log", 2.0227, 1.1980)) is None
    assert why_incomparable(small, run("d.log", 3.0517, 0.0)) is None
    found = compare(small, large)
    assert found.leader_time is None
    assert Finding("compare_data_unknown", {"target_metric": "bpb"}) in found.findings
