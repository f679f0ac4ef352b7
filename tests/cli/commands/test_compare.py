"""`nanopace compare`: runs by letter, each with its own settings."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanopace.cli.commands.compare import Lettered
from nanopace.cli.main import main
from nanopace.errors import ConfigError, UnknownCard

from ..refused import refused

LEDGER = Path(__file__).parents[2] / "sources/formats/ledger-1.0.jsonl"
WriteLog = Callable[..., Path]
Capture = pytest.CaptureFixture[str]


def compared(capsys: Capture, *arguments: str) -> dict[str, Any]:
    assert main(["compare", "--json", *arguments]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_two_logs(write_log: WriteLog, capsys: Capture) -> None:
    a, b = str(write_log("a.log")), str(write_log("b.log", ms=1000))
    assert compared(capsys, a, b)["tokens_per_s"]["ratio"] == pytest.approx(0.5, rel=0.01)
    assert main(["compare", a, b]) == 0
    out = capsys.readouterr().out
    assert "a.log" in out
    assert "b.log" in out
    assert max(map(len, out.splitlines())) <= 80


def test_every_further_run_is_held_against_the_first(write_log: WriteLog, capsys: Capture) -> None:
    logs = [str(write_log(f"{ms}.log", ms=ms)) for ms in (500, 1000, 250)]
    pairs = compared(capsys, *logs)["pairs"]
    assert [round(pair["tokens_per_s"]["ratio"], 1) for pair in pairs] == [0.5, 2.0]


def test_two_runs_in_one_file(write_log: WriteLog, capsys: Capture) -> None:
    log = str(write_log(runs=2))
    assert compared(capsys, log)["changed"] == []
    assert [change["knob"] for change in compared(capsys, log, "--set", "B.n_head=6")["changed"]] == ["n_head"]


def test_runs_of_standard_input_share_their_settings(
    write_log: WriteLog, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(write_log(runs=2).read_bytes())))
    assert "cannot have settings of their own" in refused(capsys, "compare", "-", "--set", "B.n_head=6")


def test_one_run_is_not_enough(write_log: WriteLog, capsys: Capture) -> None:
    assert "compare needs two runs" in refused(capsys, "compare", str(write_log()))


def test_each_run_has_its_settings(write_log: WriteLog, tmp_path: Path, capsys: Capture) -> None:
    a, b = str(write_log("a.log", header=False)), str(write_log("b.log", header=False))
    shape = "block_size = 1024\nn_layer = 12\nn_head = 12\nn_embd = 768\ngradient_accumulation_steps = 4\n"
    (tmp_path / "a.py").write_text(shape + "batch_size = 16\n")
    (tmp_path / "x=b.py").write_text(shape + "batch_size = 8\n")
    configs = ["--config", f"A={tmp_path}/a.py", "--config", f"B={tmp_path}/x=b.py"]
    found = compared(capsys, a, b, *configs, "--gpu", "4070", "--gpu", "B=4090")
    changed = {change["knob"]: (change["a"], change["b"]) for change in found["changed"]}
    assert changed["batch_size"] == (16, 8)
    assert [run["mfu"]["card_tflops"] for run in found["runs"]] == [58.3, 165.2]


def test_a_letter_needs_a_run(write_log: WriteLog, capsys: Capture) -> None:
    logs = [str(write_log("a.log")), str(write_log("b.log"))]
    assert "C: no such run; the runs are A, B" in refused(capsys, "compare", *logs, "--set", "C.batch_size=8")


def test_a_bad_log_ends_the_comparison(write_log: WriteLog, capsys: Capture) -> None:
    assert "none.log" in refused(capsys, "compare", str(write_log()), "none.log")


def test_letters(tmp_path: Path) -> None:
    (tmp_path / "c.py").write_text("batch_size = 1\n")
    config = f"{tmp_path}/c.py"
    settings = Lettered([config], ["block_size=512", "B.block_size=256", "B.n_layer=6"], ["4070", "C=4090"])
    assert settings.of("A").overrides == {"block_size": 512}
    assert settings.of("B").overrides == {"block_size": 256, "n_layer": 6}
    assert (settings.of("A").gpu, settings.of("C").gpu) == ("4070", "4090")
    assert settings.of("B").config == config
    assert settings.letters == {"B", "C"}


def test_only_a_single_capital_is_a_letter() -> None:
    with pytest.raises(ConfigError, match=r"^AB=c\.py: no such config file"):
        Lettered(["AB=c.py"], [], [])
    with pytest.raises(ConfigError, match=r"^a=c\.py: no such config file"):
        Lettered(["a=c.py"], [], [])
    with pytest.raises(UnknownCard, match=r"^40700"):
        Lettered([], [], ["B=40700"])


def test_a_page(write_log: WriteLog, tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "page.html"
    assert main(["compare", str(write_log("a.log")), str(write_log("b.log", ms=700)), "--html", str(page)]) == 0
    assert page.read_text().lower().startswith("<!doctype html>")
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("B is 28.6% slower than A: ")
    assert "A  a.log" in out
    assert out.endswith(f"\n\nWrote {page}.\n")


# --- stages ----------------------------------------------------------------------------------------------------------

WriteSpeedrun = Callable[..., str]

BASE: dict[str, Any] = {"stage": "base", "bits": 0.9}
MID: dict[str, Any] = {"stage": "mid", "bits": 0.5}
SFT: dict[str, Any] = {"stage": "sft", "bits": 0.4, "card": "NVIDIA H100 80GB HBM3"}


def test_like_is_compared_with_like(write_speedrun: WriteSpeedrun, capsys: Capture) -> None:
    a = write_speedrun("a.log", BASE, MID)
    b = write_speedrun("b.log", BASE | {"gpus": 8, "accumulation": 1}, MID | {"ms": 250.0})
    found = compared(capsys, a, b)
    assert set(found) == {"version", "stages"}
    base, mid = found["stages"]
    assert (base["stage"], base["a"]["name"], base["b"]["name"]) == ("base", "a.log (base)", "b.log (base)")
    assert (mid["stage"], mid["a"]["name"], mid["b"]["name"]) == ("mid", "a.log (mid)", "b.log (mid)")
    assert base["tokens_per_s"]["ratio"] == pytest.approx(1.0, rel=0.01)
    assert mid["tokens_per_s"]["ratio"] == pytest.approx(2.0, rel=0.01)
    assert [change["knob"] for change in mid["changed"]] == []
    assert {change["knob"] for change in base["changed"]} >= {"gpu_count"}


def test_each_stage_has_its_report(write_speedrun: WriteSpeedrun, capsys: Capture) -> None:
    a, b = write_speedrun("a.log", BASE, MID), write_speedrun("b.log", BASE, MID | {"ms": 250.0})
    assert main(["compare", a, b]) == 0
    out, err = capsys.readouterr()
    base, mid = out.split("\nmidtraining\n")
    assert base.startswith("base training\n")
    assert "a.log (base)" in base
    assert "(mid)" not in base
    assert "a.log (mid)" in mid
    assert "(base)" not in mid
    assert err == ""
    assert max(map(len, out.splitlines())) <= 80


def test_a_stage_that_one_log_alone_has_is_named_and_left_out(write_speedrun: WriteSpeedrun, capsys: Capture) -> None:
    a, b = write_speedrun("a.log", BASE, MID, SFT), write_speedrun("b.log", BASE)
    assert main(["compare", "--json", a, b]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["a"]["name"], found["b"]["name"]) == ("a.log (base)", "b.log")
    assert [line.split(" is left out")[0] for line in err.splitlines()] == ["a.log (mid)", "a.log (sft)"]


def test_stages_of_one_log_are_no_pair(write_speedrun: WriteSpeedrun, capsys: Capture) -> None:
    message = refused(capsys, "compare", write_speedrun("a.log", BASE, MID))
    assert "two runs of the same stage" in message
    assert "a.log (base), a.log (mid)" in message


def test_other_trainers_are_compared_with_base_training(
    write_log: WriteLog, write_speedrun: WriteSpeedrun, capsys: Capture
) -> None:
    found = compared(capsys, str(write_log("plain.log")), write_speedrun("b.log", BASE, MID))
    assert (found["a"]["name"], found["b"]["name"]) == ("plain.log", "b.log (base)")


def test_one_stage_can_be_chosen(write_speedrun: WriteSpeedrun, capsys: Capture) -> None:
    a, b = write_speedrun("a.log", BASE, MID), write_speedrun("b.log", BASE, MID)
    assert compared(capsys, a, b, "--stage", "mid")["a"]["name"] == "a.log (mid)"
    assert "has no run of stage sft; its stages: base, mid" in refused(capsys, "compare", a, b, "--stage", "sft")


def test_letters_are_places_in_a_stage(write_speedrun: WriteSpeedrun, capsys: Capture) -> None:
    a, b = write_speedrun("a.log", BASE, MID), write_speedrun("b.log", BASE, MID)
    for stage in compared(capsys, a, b, "--set", "B.n_head=6", "--set", "A.n_head=4")["stages"]:
        assert [(change["knob"], change["a"], change["b"]) for change in stage["changed"]] == [("n_head", 4, 6)]
    assert "no such run; the runs are A, B" in refused(capsys, "compare", a, b, "--set", "C.n_head=6")


def test_a_page_holds_one_stage_and_says_how_to_get_the_others(
    write_speedrun: WriteSpeedrun, tmp_path: Path, capsys: Capture
) -> None:
    a, b = write_speedrun("a.log", BASE, MID, SFT), write_speedrun("b.log", BASE, MID, SFT)
    assert main(["compare", a, b, "--html", str(tmp_path / "page.html")]) == 0
    out, err = capsys.readouterr()
    assert out.endswith("page.html.\n")
    assert "a.log (mid)" not in out
    assert err == "The page has base training only; for the rest: --stage mid --stage sft\n"
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "a.log (base)" in page
    assert "a.log (mid)" not in page


def test_a_run_that_begins_below_the_goal_did_not_reach_it_in_no_time(
    write_speedrun: WriteSpeedrun, capsys: Capture
) -> None:
    """As when fine-tuning a better model."""
    low = write_speedrun("low.log", MID | {"bits": -0.2, "columns": ""})
    low_text = Path(low).read_text().splitlines()
    low_text.insert(5, "Step 00000 | Validation bpb: 0.4000")
    Path(low).write_text("\n".join(low_text) + "\n")
    assert main(["compare", write_speedrun("a.log", MID | {"columns": ""}), low]) == 0
    out = capsys.readouterr().out
    assert "from the start" in out
    assert "×0.00" not in out
    assert not re.search(r"(?<![\d.,])0 m?s\b", out)


def test_files_of_one_name_are_told_apart_by_their_folders(
    write_log: WriteLog, tmp_path: Path, capsys: Capture
) -> None:
    paths = []
    for folder in ("lr1/seed1", "lr1/seed2", "lr2/seed1"):
        (tmp_path / folder).mkdir(parents=True)
        paths.append(str(write_log("log.txt").rename(tmp_path / folder / "log.txt")))
    for two, names in (
        (paths[:2], ("A  seed1/log.txt", "B  seed2/log.txt")),
        (paths[::2], ("A  lr1/seed1/log.txt", "B  lr2/seed1/log.txt")),
        ((paths[0], str(write_log("other.txt"))), ("A  log.txt", "B  other.txt")),
    ):
        assert main(["compare", *two]) == 0
        out = capsys.readouterr().out
        assert all(name in out for name in names), out


def test_a_ledger_that_is_named_with_its_folder_needs_no_other(tmp_path: Path, capsys: Capture) -> None:
    for folder in ("lr1/out", "lr2/out", "lr2/other"):
        (tmp_path / folder).mkdir(parents=True)
        shutil.copy(LEDGER, tmp_path / folder / "ledger.jsonl")
    for two, names in (
        (("lr2/out", "lr2/other"), ("A  out/ledger.jsonl", "B  other/ledger.jsonl")),
        (("lr1/out", "lr2/out"), ("A  lr1/out/ledger.jsonl", "B  lr2/out/ledger.jsonl")),
    ):
        assert main(["compare", *(str(tmp_path / each / "ledger.jsonl") for each in two)]) == 0
        out = capsys.readouterr().out
        assert all(name in out for name in names), out
