from __future__ import annotations

import pytest

from nanopace.errors import InputError
from nanopace.sources.build import RunBuilder
from nanopace.sources.detect import Detector
from nanopace.sources.formats.table import BUILT_IN
from nanopace.sources.log_format import LogFormat

from .reading import detected

NANOGPT = "iter 100: loss 7.9016, time 169.81ms, mfu 12.02%"
OURS = "iter 100: loss 7.9016, time 169.81ms, mfu 41.20%, 388652 tok/s, norm 0.84, lr 6.00e-04"
HEADER = "nanopace 0.3.0 train: out, 65,536 tokens a step, steps 0 to 2000"
NANOCHAT = "step 00010/21400 (0.05%) | loss: 9.123456 | lrm: 1.00 | dt: 312.10ms | tok/sec: 1,680,000 | mfu: 48.10"


@pytest.mark.parametrize(
    ("lines", "format"),
    [
        ([NANOGPT], "nanogpt"),
        (["iter 100: loss 7.9016, time 169.81ms"], "nanogpt"),
        (["33" + NANOGPT], "nanogpt"),
        (["iter 100: loss 7.9016, ti", "me 169.81ms"], "nanogpt"),
        (["step 0: train loss 10.8, val loss 10.9"], "nanogpt"),
        (["tokens per iteration will be: 5"], "nanogpt"),
        (["iter 100: loss 6.1551 BPC, time 169.81ms, mfu 12.02%"], "nanogpt"),
        (["iter 100: loss 2.6099, lr 9.99e-04, grad_norm 1.1197, time 16188.54ms"], "nanogpt"),
        (["iter 100/5000: train loss: 2.6099 | dt 161ms"], "nanogpt"),
        (["step     1 | loss: 10.902713 | lr 1.6783e-06 | norm: 14.8626 | dt: 1572.02ms"], "build_nanogpt"),
        (["Epoch 1 | iter 1 step 0 | loss train: 1.646, val: n/a | iter time: 820.31 ms"], "litgpt"),
        ([NANOCHAT], "nanochat"),
        (["Step 00000 | Validation bpb: 3.2"], "nanochat"),
        (['{"event": "run", "version": 1}'], "ledger"),
        ([OURS], "nanopace"),
        ([OURS.replace("41.20%", "n/a")], "nanopace"),
        ([HEADER, NANOGPT], "nanopace"),
        ([HEADER, "iter 100: loss 7.9016, ti", "me 169.81ms, mfu n/a, 388652 to", "k/s"], "nanopace"),
        ([HEADER, "", NANOCHAT], "nanochat"),
        ([HEADER], "nanopace"),
        (["I ran nanopace 0.3.0 train: it was fast"], None),
        (["iter 100", ": loss 7.9016, time 16", "9.81ms, mfu 12.02%"], "nanogpt"),
        (["why is iter 500: loss..., time 5985ms so slow?"], None),
        (["pip install nanoGPT", "step by step", "loss: 5"], None),
        ([], None),
    ],
)
def test_detect(lines: list[str], format: str | None) -> None:
    assert detected(lines) == format


def test_a_row_counts_more_than_a_hint() -> None:
    assert detected(["number of parameters: 5.00M", NANOCHAT]) == "nanochat"


def test_a_header_alone_is_no_row() -> None:
    def has_row(lines: list[str]) -> bool:
        detector = Detector()
        detector.look_at("\n".join(lines).encode())
        return detector.has_row

    assert not has_row(["step 0: train loss 10.8, val loss 10.9"])
    assert not has_row([HEADER])
    assert has_row(["iter 100: loss 7.9", "016, time 169.81ms"])
    assert has_row([OURS])


@pytest.mark.parametrize("format", BUILT_IN, ids=lambda format: format.name)
def test_every_format_has_a_reader(format: LogFormat) -> None:
    builder = RunBuilder("log")
    if format.opening:
        with pytest.raises(InputError, match=r"^log: "):
            format.read_document(builder, [b"no file of a trainer"])
    else:
        assert format.open_reader(builder).feed("no line of a trainer") is False
    assert builder.format is format


@pytest.mark.parametrize(("line", "name"), [(NANOGPT, "nanogpt"), (OURS, "nanopace"), (NANOCHAT, "nanochat")])
@pytest.mark.parametrize("extended", [True, False])
def test_the_row_that_begins_first_counts(line: str, name: str, extended: bool) -> None:
    other, other_name = (OURS, "nanopace") if extended else (NANOCHAT, "nanochat")
    assert detected([f"{line} {other}"]) == name
    assert detected([f"{other} {line}"]) == other_name


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("between", ["x", "x\n"])
def test_a_row_is_found_wherever_it_is(between: str) -> None:
    """After text that looks a little like one, in one line or in many, in one chunk or in two."""
    for gap in range(0, 20_000, 397):
        text = f"step 1 {between * (gap // len(between))} {NANOGPT}\n".encode()
        for cut in (0, 8, len(text) - 30, len(text) // 2):
            detector = Detector()
            detector.look_at(text[:cut])
            detector.look_at(text[cut:])
            assert detector.has_row, (gap, cut)


def test_zero_bytes_are_no_part_of_a_row() -> None:
    detector = Detector()
    detector.look_at(NANOGPT.encode("utf-16-le"))
    assert detector.has_row


def test_once_a_row_is_found_nothing_changes() -> None:
    detector = Detector()
    for line in (NANOCHAT, NANOGPT):
        detector.look_at(line.encode())
    assert detector.format is not None
    assert detector.format.name == "nanochat"


@pytest.mark.parametrize(("pieces", "found"), [(1, True), (2, True), (3, True), (4, False)])
def test_a_row_in_up_to_three_lines(pieces: int, found: bool) -> None:
    row = NANOGPT.partition(", mfu")[0]
    size = -(-len(row) // pieces)
    assert (detected([row[at : at + size] for at in range(0, len(row), size)]) is not None) == found


def test_what_lacks_the_words_of_a_row_is_not_searched_for_rows() -> None:
    """For a long file that is not a log, a closer look would take most of the time."""
    detector = Detector()
    looked_at: list[str] = []
    for line in ("step 12 of iteration 12/ 100 | iter 3", "Step 12 | iteration 7 / 9"):
        looked_at += detector._with_neighbours([line])
        assert detector._with_words_of(line).rows == []
        assert detector._with_words_of(f"{line} loss: 3.0").rows
    assert len(looked_at) == 2  # a line without neighbours is looked at once


def test_no_mixture_of_words_fills_the_memory() -> None:
    """The possible formats of a text are cached by the words in it, and these may be mixed in any way."""
    detector = Detector()
    words = detector._words[:11]
    detector.look_at_lines(
        "".join(word for bit, word in enumerate(words) if mix >> bit & 1) + "#" * 2000 for mix in range(2**11)
    )
    assert not detector.has_row
    assert 0 < len(detector._candidates) <= 1000
