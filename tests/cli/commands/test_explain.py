"""`nanopace explain`: what it reads, what it prints to which stream, and its exit code."""

from __future__ import annotations

import html
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from nanopace import diagnose, open_run
from nanopace.cli import run_arguments as reading
from nanopace.cli.main import main
from nanopace.ledger import LedgerWriter, RunEvent, StepEvent

from ..refused import refused

WriteLog = Callable[..., Path]
Capture = pytest.CaptureFixture[str]


def explained(capsys: Capture, *arguments: str) -> dict[str, Any]:
    assert main(["explain", "--json", *arguments]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_report(write_log: WriteLog, capsys: Capture) -> None:
    assert main(["explain", str(write_log())]) == 0
    out, err = capsys.readouterr()
    assert "train.log" in "\n".join(out.splitlines()[:5])
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out
    assert err == ""


def test_the_report_in_german(write_log: WriteLog, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    log = str(write_log())
    main(["explain", log])
    english = capsys.readouterr().out
    main(["explain", log, "--lang", "de"])
    german = capsys.readouterr().out
    main(["--lang", "de", "explain", log])
    assert capsys.readouterr().out == german != english
    monkeypatch.setenv("LANG", "de_AT.UTF-8")
    main(["explain", log])
    assert capsys.readouterr().out == german


def test_json_is_the_same_in_every_language(write_log: WriteLog, capsys: Capture) -> None:
    log = str(write_log())
    found = explained(capsys, log)
    assert found["step"]["median_ms"] == pytest.approx(500, rel=0.01)
    assert found["source"]["format"] == "nanogpt"
    assert explained(capsys, log, "--lang", "fr") == found


def test_settings_reach_the_run(write_log: WriteLog, tmp_path: Path, capsys: Capture) -> None:
    log = str(write_log(header=False))
    config = tmp_path / "train.py"
    config.write_text(
        "batch_size = 4\nblock_size = 1024\ngradient_accumulation_steps = 8\nn_layer = 12\nn_embd = 768\n"
    )
    facts = explained(capsys, log, "--config", str(config), "--set", "batch_size=2", "--gpu", "4070")["facts"]
    assert (facts["batch_size"]["value"], facts["batch_size"]["origin"]) == (2, "flag")
    assert (facts["gradient_accumulation_steps"]["value"], facts["gradient_accumulation_steps"]["origin"]) == (
        8,
        "config file",
    )
    assert "4070" in facts["gpu"]["value"]


@pytest.mark.parametrize(
    ("gpu", "name", "is_range"),
    [
        ("a100", "A100", False),
        ("a100-40gb", "A100 40GB", False),
        ("h100", "H100", True),
        ("8xH100", "H100", True),
        ("v100", "V100", True),
        ("T4 x2", "Tesla T4", False),
    ],
)
def test_cards_by_what_people_type(gpu: str, name: str, is_range: bool, write_log: WriteLog, capsys: Capture) -> None:
    found = explained(capsys, str(write_log()), "--gpu", gpu)["mfu"]
    assert found["card_name"] == name
    assert (found["card"] is None, found["card_low"] is None) == (is_range, not is_range)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--gpu", "4060 Ti 24GB"], "4060 Ti 24GB: no card with that name, memory and SM count in the table, only"),
        (["--gpu", "RTX A1000"], "RTX A1000: no such card in the table"),
        (["--set", "batchsize=8"], "--set batchsize: unknown setting; did you mean batch_size?"),
        (["--set", "batch_size=many"], "--set batch_size: must be int >= 1, not 'many'"),
        (["--config", "none.py"], "none.py: no such config file"),
        (["--html", "none/page.html"], "--html none/page.html: its directory does not exist"),
        (["--html", "."], "--html .: is a directory"),
    ],
)
def test_flags_are_checked_before_the_log_is_read(
    flags: list[str], said: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "read_runs", lambda *_: pytest.fail("read the log first"))
    assert refused(capsys, "explain", "no-such.log", *flags).startswith(said)


def test_a_config_that_would_have_to_be_run(write_log: WriteLog, tmp_path: Path, capsys: Capture) -> None:
    config = tmp_path / "finetune.py"
    config.write_text("import time\nwandb_run_name = str(time.time())\nbatch_size = int(time.time())\n")
    assert f"{config}, line 3: " in refused(capsys, "explain", str(write_log()), "--config", str(config))


def test_files_that_are_no_logs(tmp_path: Path, capsys: Capture) -> None:
    assert "none.log" in refused(capsys, "explain", str(tmp_path / "none.log"))
    prose = tmp_path / "prose.txt"
    prose.write_text("It was a dark and stormy night.\n" * 20)
    assert "prose.txt" in refused(capsys, "explain", str(prose))
    empty = tmp_path / "empty.log"
    empty.touch()
    assert "empty.log" in refused(capsys, "explain", str(empty))
    binary = tmp_path / "model.pt"
    binary.write_bytes(bytes(range(256)) * 100)
    assert "model.pt" in refused(capsys, "explain", str(binary))


def test_a_directory_names_its_logs(write_log: WriteLog, tmp_path: Path, capsys: Capture) -> None:
    write_log("runs/one.log")
    write_log("runs/two.log", ms=900)
    assert main(["explain", str(tmp_path / "runs"), "--json"]) == 0
    out, err = capsys.readouterr()
    assert len(json.loads(out)["runs"]) == 2
    assert "2 logs: one.log, two.log" in err


def test_a_directory_without_logs(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "notes.md").write_text("nothing here\n")
    assert "no training log" in refused(capsys, "explain", str(tmp_path))


def test_one_bad_log_does_not_hide_the_others(write_log: WriteLog, tmp_path: Path, capsys: Capture) -> None:
    good, bad = write_log(), tmp_path / "none.log"
    assert main(["explain", str(bad), str(good)]) == 2
    out, err = capsys.readouterr()
    assert "train.log" in out
    assert err.count("\n") == 1
    assert "none.log" in err


def test_several_runs_in_one_file(write_log: WriteLog, capsys: Capture) -> None:
    assert len(explained(capsys, str(write_log(runs=2)))["runs"]) == 2


def test_standard_input(write_log: WriteLog, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(write_log().read_bytes())))
    assert explained(capsys, "-")["source"]["rows"] == 60
    assert "only once" in refused(capsys, "explain", "-", "-")


def test_a_page_is_written_whole(write_log: WriteLog, tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "report.html"
    for _ in range(2):  # the second time overwrites the first
        assert main(["explain", str(write_log()), "--html", str(page)]) == 0
        assert page.read_text().lower().startswith("<!doctype html>")
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("train.log · nanoGPT · 60 rows")  # the answer, and where the rest is
    assert out.endswith(f"\n\nWrote {page}.\n")
    assert "Where the time went" not in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "train.log"]


def test_a_page_says_when_and_by_which_command_it_was_made(write_log: WriteLog, tmp_path: Path) -> None:
    page = tmp_path / "a page.html"
    assert main(["explain", str(write_log()), "--html", str(page)]) == 0
    text = html.unescape(page.read_text())
    assert f"<code>nanopace explain {tmp_path}/train.log --html '{page}'</code>" in text
    assert re.search(r'<time datetime="\d{4}-\d\d-\d\dT[\d:]+[+-]\d\d:\d\d">\d{4}-\d\d-\d\d \d\d:\d\d</time>', text)


def test_what_else_is_printed_does_not_mix_with_a_page_or_with_json(
    write_log: WriteLog, tmp_path: Path, capsys: Capture
) -> None:
    page, log = tmp_path / "report.html", str(write_log())
    assert main(["explain", log, "--html", str(page), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)
    assert err == f"Wrote {page}.\n"
    os.mkfifo(pipe := tmp_path / "pipe")
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit(pipe.read_text)
        assert main(["explain", log, "--html", str(pipe)]) == 0
        assert read.result().startswith("<!doctype html>")
    assert capsys.readouterr() == ("", "")


def test_a_page_is_opened(
    write_log: WriteLog, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or len(opened) < 3)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    log, page = str(write_log()), tmp_path / "report.html"
    assert main(["explain", log, "--open", "--html", str(page)]) == 0
    assert opened == [page.as_uri()]
    assert main(["explain", log, "--open"]) == 0
    [made] = tmp_path.glob("nanopace-*/report.html")
    assert opened[1:] == [made.as_uri()]
    assert capsys.readouterr().out.endswith(f"\nWrote {made}.\n")
    assert main(["explain", log, "--open", "--html", str(page)]) == 0  # no browser now
    assert capsys.readouterr().err == f"No browser could be opened. Open {page} yourself.\n"


def test_a_log_is_never_overwritten(write_log: WriteLog, capsys: Capture) -> None:
    log, other = write_log(), write_log("other.log")
    before = log.read_bytes()
    assert "was not overwritten" in refused(capsys, "explain", str(other), "--html", str(log))
    assert log.read_bytes() == before


def test_a_bar_only_for_large_logs_on_a_terminal(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    bar = reading._Bar("x.log")
    bar.update(1 << 30, 1 << 31)
    assert capsys.readouterr().err == ""  # no terminal, no bar
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with reading._Bar("small.log") as small:
        small.update(1000, 2000)
    assert capsys.readouterr().err == ""
    with reading._Bar("large[1].log") as large:
        large.update(1 << 24, 1 << 25)
        large.update(1 << 25, 1 << 25)
    assert "large[1].log" in capsys.readouterr().err


def test_the_real_process(write_log: WriteLog) -> None:
    """Exit code, streams and plain text, as a shell sees them."""
    log = write_log("läng.log")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    command = [sys.executable, "-m", "nanopace", "explain"]
    good = subprocess.run([*command, str(log)], capture_output=True, env=environment, check=False)
    assert (good.returncode, good.stderr) == (0, b"")
    assert b"\x1b" not in good.stdout
    none = subprocess.run([*command, "none.log"], capture_output=True, env=environment, check=False)
    assert (none.returncode, none.stdout, none.stderr.count(b"\n")) == (2, b"", 1)


def test_a_card_that_was_measured_here_gives_one_more_figure(
    write_log: WriteLog, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nanopace tune stored, only for a card of exactly that name and for that precision."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache" / "nanopace").mkdir(parents=True)
    kept = {
        "device": "NVIDIA H200",
        "torch": "2.11",
        "dtype": "bfloat16",
        "date": "2026-01-01",
        "products": {},
        "peak_tflops": 600.0,
        "model_tflops": 500.0,
        "seconds": 6.0,
    }
    (tmp_path / "cache" / "nanopace" / "calibration.json").write_text(json.dumps({"asked": json.dumps(kept)}))

    def figures(*flags: str) -> list[dict[str, Any]]:
        findings = explained(capsys, str(write_log()), *flags)["findings"]
        return [each["numbers"] for each in findings if each["code"] == "utilisation_measured"]

    (found,) = figures("--gpu=NVIDIA H200", "--set=dtype=bfloat16")
    assert found["measured_tflops"] == 600.0
    assert 0 < found["measured_share"] < 1
    run = open_run(write_log(), gpu="NVIDIA H200", set={"dtype": "bfloat16"})
    assert "utilisation_measured" in {each.code for each in diagnose(run).findings}  # from Python, too
    assert figures("--gpu=NVIDIA H200", "--set=dtype=float32") == []
    assert figures("--gpu=4070", "--set=dtype=bfloat16") == []
    assert figures("--gpu=NVIDIA H200", "--set=dtype=bfloat16", "--set=fp8=True") == []
    with LedgerWriter(tmp_path / "ledger.jsonl") as ledger:
        work = {"flops_per_token": 8e8, "tokens_per_iteration": 500_000}
        ledger.append(
            RunEvent("now", "0", {"dtype": "bfloat16"}, gpu="NVIDIA H200", measured_tflops=800.0, **work)  # type: ignore[arg-type]
        )
        for iteration in range(20):
            ledger.append(StepEvent(iteration, 1000.0))
    said = explained(capsys, str(tmp_path / "ledger.jsonl"))["findings"]
    assert [each["numbers"] for each in said if each["code"] == "utilisation_measured"] == [
        {"measured_share": 0.5, "measured_tflops": 800.0, "card_name": "NVIDIA H200"}
    ]  # what the run records about its own card, not what was measured here
    assert main(["explain", str(write_log()), "--gpu=NVIDIA H200", "--set=dtype=bfloat16"]) == 0
    assert "of the 600 TFLOP/s that large matrix products reach" in " ".join(
        capsys.readouterr().out.replace("\u00a0", " ").split()
    )


def test_one_stage_of_several(write_speedrun: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    log = write_speedrun("speedrun.log", {"stage": "base"}, {"stage": "mid"})
    assert main(["explain", log]) == 0
    out = capsys.readouterr().out
    assert "speedrun.log (base)" in out
    assert "speedrun.log (mid)" in out
    assert main(["explain", "--stage", "mid", log]) == 0
    out = capsys.readouterr().out
    assert "speedrun.log (base)" not in out
    assert "speedrun.log (mid)" in out
    assert "has no run of stage rl; its stages: base, mid" in refused(capsys, "explain", "--stage", "rl", log)
