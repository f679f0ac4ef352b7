"""bench/wild.py: a second reader that agrees with nanopace on plain logs, and reports disagreements."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.evidence.plan import Losses, Plan, Shape
from tests.evidence.truth import trained

import wild

PLAN = Plan(
    seed=3,
    shape=Shape(12, 12, 768, 1024, 50304, batch_size=12, accumulation=40),
    losses=Losses(floor=2.8, scale=20.0, power=0.4, noise=0.002, row_noise=0.05),
    max_iters=3000,
    log_interval=10,
    eval_interval=100,
    eval_iters=200,
    step_ms=3000.0,
    noise=0.004,
    always_save=True,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "plain.log").write_text(trained(PLAN).text)
    (folder / "packed.log.gz").write_bytes(gzip.compress(trained(replace(PLAN, seed=4, header=False)).text.encode()))
    return folder


def test_it_reads_what_is_true() -> None:
    truth = trained(PLAN)
    (figures,) = wild.read_simply(truth.text)
    assert figures["rows"] == len(truth.rows)
    assert figures["median_ms"] == pytest.approx(3000, rel=0.005)
    assert figures["evaluations"] == 30
    assert figures["evaluation_ms"] == pytest.approx(truth.visible[0].evaluated.all_ms, rel=0.02)  # type: ignore[union-attr]
    assert figures["steady_mfu"] == pytest.approx(truth.mfu_at(3000), rel=0.005)
    assert figures["tokens_per_s"] == pytest.approx(PLAN.shape.tokens / 3, rel=0.005)
    assert figures["best_val"] == min(val for _, val in truth.curve)


def test_it_agrees_on_plain_logs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert wild.main([str(folder)]) == 0
    assert capsys.readouterr().out.splitlines() == ["2 logs, 13 figures compared, 0 disagreements"]


def test_it_finds_a_planted_disagreement(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    right = wild.told

    def wrong(diagnosis: Any) -> dict[str, float | None]:
        return right(diagnosis) | {"steady_mfu": diagnosis.mfu.steady_printed * 0.97}

    monkeypatch.setattr(wild, "told", wrong)
    assert wild.main([str(folder)]) == 1
    out = capsys.readouterr().out
    assert out.count("DIFFERS") == 2
    assert "plain.log: steady_mfu:" in out
    assert out.endswith("2 logs, 13 figures compared, 2 disagreements\n")

    reasons = tmp_path / "reasons.csv"
    reasons.write_text("log,figure,reason\nplain.log,steady_mfu,planted\npacked.log.gz,steady_mfu,planted\n")
    assert wild.main(["--explained", str(reasons), str(folder)]) == 0
    out = capsys.readouterr().out
    assert "DIFFERS" not in out
    assert "explained plain.log: steady_mfu:" in out
    assert "(planted)" in out


def test_what_is_refused_is_listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "prose.txt").write_text("no log\n" * 20)
    assert wild.main([str(folder)]) == 0
    assert "refused" in capsys.readouterr().out


def test_two_runs_in_one_file() -> None:
    both = trained(PLAN).text + trained(replace(PLAN, seed=5, step_ms=2000.0)).text
    assert [round(figures["median_ms"], -2) for figures in wild.read_simply(both)] == [3000, 2000]


@pytest.mark.slow
def test_the_real_logs_leave_nothing_unexplained(shared_logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [folder for folder in (shared_logs, shared_logs / "wild") if folder.is_dir()]
    assert wild.main([str(folder) for folder in folders]) == 0, capsys.readouterr().out
