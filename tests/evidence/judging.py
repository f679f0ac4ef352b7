"""One run or pair: built, passed to nanopace as a user would, and every statement checked against the truth."""

from __future__ import annotations

import io

from nanopace import compare, diagnose, open_runs, render
from nanopace.errors import NanopaceError
from nanopace.run import Run

from .check_pair import Pair, pair_complaints
from .figures import complaints, text_complaints
from .plan import drawn, drawn_pair
from .truth import Truth, trained

LANGUAGES = ("de", "fr", "es")
False_ = tuple[str, str]  # the code of a sentence, or the name of a figure, and what is false about it


def read(truth: Truth, name: str = "train.log") -> list[Run]:
    file = io.BytesIO(truth.text.encode())
    file.name = name  # type: ignore[attr-defined]
    return open_runs(file, gpu=truth.plan.gpu)


def judged(seed: int) -> list[False_]:
    """Every false sentence about the run of this number."""
    truth = trained(drawn(seed))
    try:
        runs = read(truth)
    except NanopaceError as error:
        return [("refused", str(error))]
    if len(runs) != 1:
        return [("runs", f"{len(runs)} runs, but it is one")]
    diagnosis = diagnose(runs[0])
    found = [*complaints(truth, diagnosis), *text_complaints(truth, diagnosis, render(diagnosis, lang="en"))]
    assert render(diagnosis, lang=LANGUAGES[seed % 3])
    if seed % 40 == 0:
        assert render(diagnosis, format="html", lang="en")
    return found


def judged_pair(seed: int) -> list[False_]:
    """Every false sentence about the comparison of this number."""
    pair = Pair(*map(trained, drawn_pair(seed)))
    try:
        (a,), (b,) = read(pair.a, "a.log"), read(pair.b, "b.log")
    except NanopaceError as error:
        return [("refused", str(error))]
    comparison = compare(a, b)
    assert render(comparison, lang=("en", *LANGUAGES)[seed % 4])
    return list(pair_complaints(pair, comparison))
