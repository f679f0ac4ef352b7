"""What happened to a run, from a ledger on disk to every report in every language."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from nanopace import Diagnosis, diagnose, open_run, render
from nanopace.incidents import Note
from nanopace.ledger import (
    EndEvent,
    Event,
    LedgerWriter,
    MicroBatchEvent,
    NoteEvent,
    RollbackEvent,
    RunEvent,
    StallEvent,
    StepEvent,
)
from nanopace.record import replace
from nanopace.wording.catalog import words
from nanopace.wording.numbers import LANGUAGES

NASTY = "\x1b]52;c;aGFjaw==\x07a <script>alert(1)</script> \x1b[2J\u202ename\nand more"
SAID = (
    *("suspended", "data_stalls", "rollbacks", "micro_batch_reduced", "straggler", "skipped_steps", "loss_spikes"),
    *("ended_diverged", "find_the_straggler", "smaller_micro_batch", "calm_the_loss"),
)


def everything() -> list[Event]:
    """A run with every kind of fault."""
    config = {"batch_size": 16, "gradient_accumulation_steps": 4, "block_size": 256, "learning_rate": 0.0006}
    begin = RunEvent("2026-01-01T00:00:00+00:00", "0.4.0", {**config, "parallel": "fsdp"}, world_size=4)

    def steps(first: int, last: int) -> list[Event]:
        return [StepEvent(i, 100.0, 4.0 - i / 1000, slowest_rank=2, lag=0.12) for i in range(first, last)]

    return [
        begin,
        NoteEvent(NASTY, 3),
        *steps(0, 50),
        StallEvent(50, 11_520_000.0, "suspend"),
        StallEvent(50, 700.0, "data"),
        *steps(50, 70),
        StepEvent(70, 100.0, 9.0, spike=8.3),
        MicroBatchEvent(71, 8, 8),
        *(StepEvent(i, 100.0, math.nan, skipped=True) for i in range(71, 74)),
        RollbackEvent(60, 73, "c"),
        *steps(60, 90),
        *(NoteEvent(f"note {n}", 90) for n in range(20)),
        EndEvent("diverged", 11_530_500.0),
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    path = tmp_path_factory.mktemp("run") / "ledger.jsonl"
    with LedgerWriter(path) as ledger:
        for event in everything():
            ledger.append(event)
    return diagnose(open_run(path))


def plain(text: str) -> str:
    return " ".join(text.replace("\u00a0", " ").replace("\u202f", " ").split())


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_report_says_all_of_it_once(run: Diagnosis, lang: str) -> None:
    report = plain(render(run, lang=lang, width=100))
    page = plain(re.sub(r"<[^>]*>", " ", render(run, lang=lang, format="html")).replace("&#39;", "'"))
    findings = {finding.code: finding for finding in run.findings}
    assert set(SAID) <= set(findings)
    for code in SAID:
        said = plain(words(lang).finding(code, findings[code].numbers))
        assert said in report, code
        assert said in page, code
        if not findings[code].advice:
            assert report.count(said) == 1


@pytest.mark.parametrize("lang", LANGUAGES)
def test_sleep_and_lost_work_are_parts_of_the_wall_clock(run: Diagnosis, lang: str) -> None:
    report, page = plain(render(run, lang=lang)), plain(re.sub(r"<[^>]*>", " ", render(run, lang=lang, format="html")))
    for phase, seconds in (("suspended", 11_520.0), ("rollback", 1.4)):
        share = words(lang).percent(seconds / run.wall.total_s)
        row = plain(f"{words(lang).phase(phase)} {share} {words(lang).duration(seconds)}")
        assert row in report
        assert row in page


def test_the_order_in_which_it_happened_shows_the_sleep(run: Diagnosis) -> None:
    page = render(run, format="html")
    assert re.search(r'style="--shade:var\(--suspended\)"><title>suspended: 3\.2\W+h</title>', page)


def test_who_trained_together_stands_in_the_title(run: Diagnosis) -> None:
    title = "nanopace ledger · 90 rows, iterations 0 to 89 · 4 processes (fsdp)"
    assert title in plain(render(run, width=100)).partition("A normal step")[0]
    assert title in render(run, format="html")


def test_that_it_gave_up_is_among_the_first_lines(run: Diagnosis) -> None:
    first = plain(render(run).split("\n\n")[0])
    assert "diverged" in first
    assert "Training stopped after iteration 89" in first


def test_notes_are_shown_and_are_inert(run: Diagnosis) -> None:
    report, page = render(run), render(run, format="html")
    shown = plain(report.partition("\nTrainer messages\n")[2])
    assert shown.startswith("iteration 3: ]52;c;aGFjaw== a <script>alert(1)</script> [2J name and more iteration 90: ")
    assert "note 6" in shown
    assert "note 7" not in shown
    assert "13 more are in the JSON." in shown
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", report + page)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    found = json.loads(render(run, format="json"))
    assert found["notes"][0] == {"iteration": 3, "text": NASTY}
    assert len(found["notes"]) == 21


def test_our_own_notes_are_in_the_language_and_inert(run: Diagnosis) -> None:
    noted = replace(run, notes=(Note(3, f"{NASTY} was removed; starting a new one"),))
    report, page = render(noted, lang="de"), render(noted, format="html", lang="de")
    assert "wurde gelöscht; eine neue Datei wird angelegt" in plain(report)
    assert "wurde gelöscht; eine neue Datei wird angelegt" in page
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", report + page)
    assert "<script>alert" not in page
    (note,) = json.loads(render(noted, format="json", lang="de"))["notes"]
    assert note["text"].endswith("was removed; starting a new one")


def test_a_run_without_notes_has_no_such_section() -> None:
    log = Path(__file__).resolve().parents[2] / "examples" / "narrow.log"
    run = diagnose(open_run(log))
    assert "Trainer messages" not in render(run)
    assert "Trainer messages" not in render(run, format="html")


def test_the_json_has_the_figures(run: Diagnosis) -> None:
    found = json.loads(render(run, format="json"))
    assert found["wall"]["suspended_s"] == 11_520
    assert found["source"]["ending"] == "diverged"
    faults = found["faults"]
    assert faults["rollbacks"] == [{"iteration": 60, "failed_at": 73, "lost_iterations": 14, "lost_s": 1.4}]
    assert faults["skipped_iterations"] == [71, 72, 73]
    assert faults["spikes"] == [{"iteration": 70, "z": 8.3, "loss": 9.0}]
    assert [(each["reason"], each["length_s"]) for each in faults["stalls"]] == [("suspend", 11_520), ("data", 0.7)]
    assert faults["ranks"] == [{"rank": 2, "steps": 100, "lag": 0.12}]
