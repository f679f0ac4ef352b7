"""--price and --co2 on the command line: money in every answer, or one line that names the flag."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nanopace.cli.main import main

from .conftest import training
from .refused import refused

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "train.log"
    path.write_text(training(60))
    return str(path)


def commands(log: str) -> list[list[str]]:
    return [["explain", log], ["compare", log, log], ["recommend", "--gpu", "4070", "--model", "gpt2"]]


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--price", "-1"], "--price -1: not a price; write 0.35, '$2.49/h' or '0.30 EUR/kWh'"),
        (["--price=nan"], "--price nan: not a price; write 0.35, '$2.49/h' or '0.30 EUR/kWh'"),
        (["--price=cheap"], "--price cheap: not a price; write 0.35, '$2.49/h' or '0.30 EUR/kWh'"),
        (["--price=1/month"], "--price 1/month: not a price; write 0.35, '$2.49/h' or '0.30 EUR/kWh'"),
        (["--price=1 ABC"], "--price 1 ABC: ABC is not a currency"),
        (["--price=1", "--price=2/h"], "--price 2/h: there is already a price per GPU hour"),
        (["--price=1 EUR", "--price=1 USD/kWh"], "--price 1 USD/kWh: another price is in EUR"),
        (["--co2=lots"], "--co2 lots: not grams per kWh; write 380, or '0.38 kg/kWh'"),
        (["--co2=99999"], "--co2 99999: no electricity causes that much; write grams per kWh, such as 380"),
    ],
)
def test_bad_input_is_one_line(
    log: str, which: int, flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, *commands(log)[which], *flags) == said


def test_an_empty_price_is_a_slip(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--price: must not be empty" in refused(capsys, "explain", log, "--price=")


def test_a_letter_or_a_card_that_is_not_there(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "C: no such run; the runs are A, B" in refused(capsys, "compare", log, log, "--price=C=1")
    assert main(["recommend", "--gpu=4070", "--price=4090=1"]) == 2
    assert "--price 4090=1: no such card in --gpu; there are 4070" in capsys.readouterr().err


def test_a_trace_has_no_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text('{"schemaVersion": 1, "traceEvents": []}')
    assert main(["explain", str(trace), "--price=1"]) == 2
    assert "--price and --co2: a trace has only a few steps" in capsys.readouterr().err


def answer(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert main([*arguments, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("which", [0, 1, 2])
def test_json_is_the_same_in_every_language(log: str, which: int, capsys: pytest.CaptureFixture[str]) -> None:
    prices = ["--price=0.35 EUR", "--price=0.3/kWh", "--co2=380"]
    english, german = (answer([*commands(log)[which], *prices, "--lang", lang], capsys) for lang in ("en", "de"))
    assert english == german
    free = answer(commands(log)[which], capsys)
    assert {"bill", "arrival_money", "costs"}.isdisjoint(free)


def test_explain_in_json(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(["explain", log, "--gpu=4070", "--price=0.36 EUR", "--price=0.5/kWh"], capsys)
    bill, wall = found["bill"], found["wall"]
    assert isinstance(bill, dict)
    assert isinstance(wall, dict)
    hours = wall["total_s"] / 3600
    assert (bill["currency"], bill["per_gpu_hour"], bill["per_kwh"]) == ("EUR", 0.36, 0.5)
    assert bill["so_far"]["gpu_hours"] == pytest.approx(hours)
    assert bill["so_far"]["money"] == pytest.approx(hours * (0.36 + 0.5 * 0.2))


def test_prices_of_each_run(capsys: pytest.CaptureFixture[str]) -> None:
    logs = [str(EXAMPLES / name) for name in ("wide.log", "narrow.log")]
    found = answer(["compare", *logs, "--price=1", "--price=B=2", "--co2=A=100"], capsys)
    runs = found["runs"]
    assert isinstance(runs, list)
    assert [run["bill"]["per_gpu_hour"] for run in runs] == [1, 2]
    assert [run["bill"]["co2_g_per_kwh"] for run in runs] == [100, None]
    assert isinstance(found["arrival_money"], dict)
    assert found["arrival_money"]["ratio"] == pytest.approx(2 * 1.43, rel=0.01)


def test_prices_of_each_card(capsys: pytest.CaptureFixture[str]) -> None:
    cards = ["recommend", "--gpu=4070, 4090", "--model=gpt2"]
    found = answer([*cards, "--price=4090=0.7", "--price=0.2"], capsys)
    listed = found["cards"]
    assert isinstance(listed, list)
    assert [card["costs"]["per_gpu_hour"] for card in listed] == [0.2, 0.7]
    alone = answer(["recommend", "--peak-tflops=58", "--memory=12", "--model=gpt2", "--price=0.2"], capsys)
    assert isinstance(alone["costs"], dict)
    assert alone["costs"]["board_power_w"] is None
    several = answer(["recommend", "--gpu=4070", "--price=0.2"], capsys)
    assert isinstance(several["models"], list)
    assert [(model["fits"], model["cost"] is not None) for model in several["models"]] == [(True, True)] * 3 + [
        (False, False)
    ]
