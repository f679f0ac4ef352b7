"""The questions that real logs raised, and their answers, worked out by hand.

Each case runs twice: on the real log, if it is next to the working copy, and on the project's own example log with the
same figures. The tests run what a user would type.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nanopace.cli.main import main

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
NARROW = EXAMPLES / "narrow.py"
WIDE = EXAMPLES / "wide.py"


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*argv: str | Path) -> Any:
        assert main([*map(str, argv), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture(params=["example", "real"])
def logs(request: pytest.FixtureRequest) -> dict[str, Path]:
    if request.param == "example":
        return {
            "slow": EXAMPLES / "slow-rows.log",
            "a": EXAMPLES / "narrow.log",
            "b": EXAMPLES / "wide.log",
            "header": EXAMPLES / "wide-header.log",
        }
    shared: Path = request.getfixturevalue("shared_logs")
    return {
        "slow": shared / "owt-169ms.log",
        "a": shared / "fineweb-384wide.log",
        "b": shared / "fineweb-768wide.log",
        "header": shared / "fineweb-768wide-with-config.log",
    }


def codes(answer: Any) -> list[str]:
    return [finding["code"] for finding in answer["findings"]]


def test_case_1_what_the_slow_rows_are(ask: Any, logs: dict[str, Path]) -> None:
    answer = ask("explain", logs["slow"])
    assert answer["step"]["median_ms"] == pytest.approx(169.24, rel=0.003)
    assert answer["source"] | {"rows": 201, "format": "nanogpt"} == answer["source"]

    slow = answer["slow_rows"]
    assert [row["iteration"] for row in slow] == list(range(0, 20_001, 500))
    assert all("evaluation" in row["causes"] for row in slow)
    assert sum("checkpoint" in row["causes"] for row in slow) == 33
    assert "checkpoint" not in slow[0]["causes"]

    assert answer["evaluations"]["count"] == answer["evaluations"]["visible"] == 40
    assert answer["evaluations"]["interval"] == 500
    assert answer["evaluations"]["each_ms"] == pytest.approx(5136, abs=10)
    assert answer["checkpoints"]["count"] == 33
    assert answer["checkpoints"]["basis"] == "measured"


def test_case_1_real_figures(ask: Any, shared_logs: Path) -> None:
    answer = ask("explain", shared_logs / "owt-169ms.log")
    assert answer["step"]["median_ms"] == pytest.approx(169.24, abs=0.005)
    assert answer["evaluations"]["each_ms"] == pytest.approx(5136, abs=2)
    assert answer["checkpoints"]["each_ms"] == pytest.approx(467, abs=4)
    assert round(answer["wall"]["overhead_share"], 3) == 0.062
    assert answer["wall"]["total_s"] == pytest.approx(60 * 60, rel=0.01)
    # 12.06% is of the rows before the first evaluation, which take 168.8 ms; at the median of all rows it is 12.03%
    assert answer["mfu"]["steady_printed"] == pytest.approx(0.1206 * 168.77 / 169.24, abs=0.0001)
    assert answer["mfu"]["printed_last"] == pytest.approx(0.0921)
    assert answer["startup"]["total_ms"] == pytest.approx(12_543.49)
    assert answer["startup"]["evaluation_ms"] == pytest.approx(5136, abs=2)
    assert answer["startup"]["compile_ms"] == pytest.approx(7240, abs=20)
    assert answer["loss"]["best_val"] == pytest.approx(4.0541)
    assert answer["loss"]["best_val_perplexity"] == pytest.approx(57.63, abs=0.01)


def test_case_1_what_to_do(ask: Any, logs: dict[str, Path]) -> None:
    answer = ask("explain", logs["slow"])
    assert "mfu_smoothed" in codes(answer)
    assert "mfu_card_unknown" in codes(answer)  # the log does not name its card, and we do not guess one
    assert answer["mfu"]["card"] is None
    advice = [finding for finding in answer["findings"] if finding["saves_s"]]
    assert advice[0]["code"] == "raise_eval_interval"
    assert advice[0]["numbers"]["to_interval"] > 500
    assert advice[0]["saves_share"] > 0.03
    assert sorted((f["saves_s"] for f in advice), reverse=True) == [f["saves_s"] for f in advice]


@pytest.mark.parametrize(("run", "config", "hidden", "count"), [("a", NARROW, 20, 40), ("b", WIDE, 5, 9)])
def test_case_2_hidden_evaluations(
    ask: Any, logs: dict[str, Path], run: str, config: Path, hidden: int, count: int
) -> None:
    for flags in ([], ["--config", config]):
        evaluations = ask("explain", logs[run], *flags)["evaluations"]
        assert (evaluations["hidden"], evaluations["count"]) == (hidden, count)
        assert evaluations["visible"] == count - hidden


def test_case_2_one_run(ask: Any, logs: dict[str, Path]) -> None:
    answer = ask("explain", logs["a"], "--config", NARROW, "--gpu", "4070")
    assert answer["throughput"]["tokens_per_iteration"] == 524_288
    assert answer["throughput"]["tokens_per_s"] == pytest.approx(134.1e3, rel=0.002)
    assert answer["throughput"]["micro_batch_ms"] == pytest.approx(122.2, abs=0.3)
    assert answer["model"]["parameters"] == 40_560_000  # as nanoGPT counts: 40.55M of matrices, and the norms
    assert answer["model"]["flops_per_token"] == pytest.approx(300.0e6, abs=0.1e6)
    assert answer["mfu"]["achieved_tflops"] == pytest.approx(40.2, abs=0.1)
    assert answer["mfu"]["steady_printed"] == pytest.approx(0.129, abs=0.0005)
    assert answer["mfu"]["card"] == pytest.approx(0.69, abs=0.005)
    assert answer["mfu"]["verdict"] == "near_limit"
    assert answer["wall"]["overhead_share"] == pytest.approx(0.0077, abs=0.0002)
    assert answer["evaluations"]["each_ms"] == pytest.approx(15_280, abs=60)
    assert answer["evaluations"]["predicted_ms"] == pytest.approx(16_300, abs=60)
    assert answer["checkpoints"]["basis"] == "upper_bound"
    assert answer["checkpoints"]["each_ms"] < 0.15 * 15_280
    assert "nothing_to_change" in codes(answer)
    assert "raise_eval_interval" not in codes(answer)


def test_case_2_from_the_header_alone(ask: Any, logs: dict[str, Path]) -> None:
    answer = ask("explain", logs["header"])
    facts = answer["facts"]
    assert facts["tokens_per_iteration"] == {"value": 524_288, "origin": "log", "because": None}
    assert (facts["n_embd"]["value"], facts["n_embd"]["origin"]) == (768, "log")
    assert facts["vocab_size"]["value"] == 50_304
    assert answer["throughput"]["tokens_per_s"] == pytest.approx(56.1e3, rel=0.002)
    assert answer["model"]["flops_per_token"] == pytest.approx(854.8e6, abs=0.1e6)
    assert answer["mfu"]["achieved_tflops"] == pytest.approx(48.0, abs=0.1)
    assert answer["wall"]["overhead_share"] == pytest.approx(0.0042, abs=0.0003)


def test_case_2_compared(ask: Any, logs: dict[str, Path]) -> None:
    configs = ("--config", f"A={NARROW}", "--config", f"B={WIDE}")
    for gpu, card in (((), None), (("--gpu", "4070"), (0.69, 0.82))):
        answer = ask("compare", logs["a"], logs["b"], *configs, *gpu)
        assert answer["tokens_per_s"]["a"] == pytest.approx(134.1e3, rel=0.002)
        assert answer["tokens_per_s"]["b"] == pytest.approx(56.1e3, rel=0.002)
        assert answer["tokens_per_s"]["ratio"] == pytest.approx(0.42, abs=0.005)
        parts = answer["decomposition"]
        assert parts["total"] == pytest.approx(-0.871, abs=0.002)
        assert parts["flops_per_token"] == pytest.approx(-1.047, abs=0.0006)
        assert parts["utilisation"] == pytest.approx(0.175, abs=0.002)
        assert parts["total"] == pytest.approx(sum(parts[k] or 0 for k in ("flops_per_token", "utilisation", "peak")))
        if card:
            assert (answer["mfu_card"]["a"], answer["mfu_card"]["b"]) == pytest.approx(card, abs=0.005)
            assert parts["peak"] == 0
        assert 7 * 3600 < answer["crossover_s"] < 8.5 * 3600
        assert {c["knob"] for c in answer["changed"]} >= {
            "batch_size",
            "gradient_accumulation_steps",
            "n_embd",
            "learning_rate",
        }
        assert set(answer["unattributable"]) >= {"batch_size", "n_embd"}
        assert "learning_rate" not in answer["unattributable"]


def test_case_2_loss_at_equal_tokens(ask: Any, shared_logs: Path) -> None:
    answer = ask(
        "compare", shared_logs / "fineweb-384wide.log", shared_logs / "fineweb-768wide.log",
        "--config", f"A={NARROW}", "--config", f"B={WIDE}",
    )  # fmt: skip
    last = answer["equal_tokens"][-1]
    assert last["tokens"] == 4500 * 524_288
    assert (last["a"], last["b"]) == (3.7954, 3.5636)


def test_the_same_through_terminal_debris(ask: Any) -> None:
    clean, debris = ask("explain", EXAMPLES / "slow-rows.log"), ask("explain", EXAMPLES / "debris.log")
    for answer in (clean, debris):
        answer["source"].pop("name")
    assert debris == clean
