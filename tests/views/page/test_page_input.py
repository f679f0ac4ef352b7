"""Hostile and strange input: nothing that a log holds can act in a page, and any of it can be written."""

from __future__ import annotations

import dataclasses
import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nanopace.diagnosis.compare.compare import compare
from nanopace.diagnosis.comparison import Comparison
from nanopace.diagnosis.result import Curves, Diagnosis, Finding
from nanopace.run import Fact
from nanopace.views.page.page import compare_page, explain_page
from nanopace.views.page.render import SCRIPTS
from nanopace.wording.catalog import words

from ..cases import bare
from .seen import DATA, Seen, plain

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e<!--\u2028'\"&amp;.log"


def poisoned(run: Diagnosis) -> Diagnosis:
    return dataclasses.replace(
        run,
        source=dataclasses.replace(run.source, name=HOSTILE),
        facts={**run.facts, "gpu": Fact(HOSTILE, "log"), HOSTILE: Fact(HOSTILE, "log")},
        mfu=dataclasses.replace(run.mfu, card=0.5, card_name=HOSTILE, card_tflops=100.0, printed_peak_tflops=312.0),
        findings=(Finding("conflict", {"knob": HOSTILE, "used": HOSTILE, "other": HOSTILE}),),
    )


def test_what_a_log_holds_cannot_act(run: Diagnosis, pair: Comparison) -> None:
    evil = dataclasses.replace(pair, a=poisoned(pair.a), b=poisoned(pair.b))
    for page, clean in (
        (explain_page([poisoned(run)], words("en")), explain_page([run], words("en"))),
        (compare_page([evil], words("en")), compare_page([pair], words("en"))),
    ):
        seen, harmless = Seen(page), Seen(clean)
        assert len(seen.scripts) == len(SCRIPTS) + 1
        assert (seen.scripts[:DATA], seen.scripts[DATA + 1 :]) == (
            harmless.scripts[:DATA],
            harmless.scripts[DATA + 1 :],
        )
        assert not seen.with_tag("img")
        assert "<script>alert(1)" in seen.text
        assert not set("\x1b\u202e") & set(page)
        assert not re.search(r"[<>&\u2028\u2029]", seen.scripts[DATA])


def test_the_data_survives_its_escaping(run: Diagnosis) -> None:
    charts = Seen(explain_page([poisoned(run)], words("en"))).data["charts"]
    assert isinstance(charts, dict)
    labels = [series["label"] for series in charts["run0-mfu"]["series"]]
    assert any("</script><script>alert(1)" in label and "&amp;" in label for label in labels)


def test_a_name_that_is_no_text_can_be_written(run: Diagnosis) -> None:
    odd = dataclasses.replace(run, source=dataclasses.replace(run.source, name="caf\udce9.log"))
    assert b"caf?.log" in explain_page([odd], words("en")).encode("utf-8")


numbers = st.floats(allow_nan=True) | st.none()
points = st.lists(st.tuples(st.integers(0, 10**9), st.floats(), numbers), max_size=4)


@st.composite
def strange_curves(draw: st.DrawFn) -> Curves:
    rows, evaluations = draw(points), draw(points)
    return Curves(
        row_iteration=tuple(row[0] for row in rows),
        row_ms=tuple(row[1] for row in rows),
        row_cause=tuple(draw(st.sampled_from([None, "stall"])) for _ in rows),
        row_loss=tuple(row[2] for row in rows),
        row_mfu_printed=tuple(row[2] for row in rows),
        row_mfu_true=tuple(row[2] for row in rows),
        row_seconds=tuple(row[1] for row in rows),
        eval_iteration=tuple(row[0] for row in evaluations),
        eval_seconds=tuple(row[1] for row in evaluations),
        eval_train=tuple(row[2] for row in evaluations),
        eval_val=tuple(row[2] for row in evaluations),
        eval_saved=(True,) * len(evaluations),
    )


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(curves=strange_curves())
def test_any_curve_can_be_written(run: Diagnosis, curves: Curves) -> None:
    charts = Seen(explain_page([dataclasses.replace(run, curves=curves)], words("en"))).data["charts"]
    assert isinstance(charts, dict)
    for chart in charts.values():
        for series in chart["series"]:
            assert len(series["x"]) == len(series["y"])
            assert series["x"] == sorted(series["x"])


def test_what_is_unknown_is_left_out(run: Diagnosis) -> None:
    poor = bare(run)
    text = plain(Seen(explain_page([poor], words("en"))).text)
    assert "normal step" in text
    assert "None" not in text
    assert "nan" not in text.replace("nanopace", "").replace("nanoGPT", "")
    pair = compare(poor, poor)
    assert "None" not in plain(Seen(compare_page([pair], words("en"))).text)
