"""The schedule of the learning rate, from the program at the start of the log. Lines in the form of each era."""

from __future__ import annotations

import pytest

from nanopace.sources.formats.modded.cooldown import CooldownCode

from ...reading import read


def code(text: str) -> CooldownCode:
    found = CooldownCode()
    for line in text.splitlines():
        found.read(line)
    return found


OF_2024 = "    warmup_iters : int = 250\n    warmdown_iters : int = 1800 # linear warmup/warmdown\n"
USED = "        decay_ratio = (args.n - it) / args.warmdown_iters\n    elif it < n - args.cooldown_iters:\n"


@pytest.mark.parametrize(
    ("text", "share"),
    [
        (OF_2024 + USED, 1800 / 6000),
        ("    cooldown_iters : int = 600 # steps\n", 0.1),
        ("    warmdown_iters : int = 2*1500\n", 0.5),
        ("    cooldown_frac = 0.4 # fraction of training spent cooling down the learning rate\n", 0.4),
        ("    cooldown_frac: int = 0.45\n    w = (1 - x) / args.cooldown_frac\n", 0.45),
        ("    cooldown_frac: float = .7\n", 0.7),
        ("    cooldown_frac = 1\n", 1.0),
        ("#    cooldown_frac = 0.4\n    cooldown_frac = 0.5\n", 0.5),
        ("# run (cooldown_frac=1.0)\n    cooldown_frac = 0.5\n", 0.5),
        ("    cooldown_frac = 0.5\n    if cooldown_frac == 0.0:\n", 0.5),
        # no single one
        ("    cooldown_frac = 0.4\n    cooldown_frac = 1.0\n", None),
        ("    cooldown_frac = 0.4\n    dict(params=x, cooldown_frac=0.7),\n", None),
        ('    cooldown_frac = 0.4\n    {"params": x, "cooldown_frac": 0.7},\n', None),
        ("    cooldown_frac = 0.4 if group else 1.0\n", None),
        ('    cooldown_frac = 0.4\n    cooldown_frac = group["cooldown_frac"]\n', None),
        ("    warmdown_iters : int = int(0.75*2*2906)\n", None),
        ("    def __init__(self, cooldown_frac: float = 0.5, stage: int = 2):\n", None),
        ("    cooldown_frac = 1.5\n", None),
        ("    cooldown_frac = 0.0\n", None),
        ("    warmdown_iters : int = 7000\n", None),  # of 6000
        ("    muon_cooldown_steps = 50\n", None),
        ("", None),
    ],
)
def test_the_share(text: str, share: float | None) -> None:
    assert code(text).share(6000) == (None if share is None else pytest.approx(share))


def test_the_warm_up() -> None:
    assert code(OF_2024).warmup == 250
    assert code("    warmup_iters : int = 0\n").warmup == 0
    assert code("    warmup_iters : int = 0\n    warmup_iters : int = 10\n").warmup is None
    assert code("").warmup is None


def test_no_steps_no_share() -> None:
    assert code(OF_2024).share(0) is None


ROWS = "".join(f"step:{step}/1000 train_time:{100 * step}ms step_avg:100.00ms\n" for step in range(1, 9))


def log(source: str) -> str:
    rule = "=" * 100
    return f"import os\n{source}\n{rule}\nRunning pytorch 2.6.0 compiled for CUDA 12.4\n{rule}\n{ROWS}"


def test_both_are_facts_of_the_run_and_of_no_other() -> None:
    first, second = read(log(OF_2024.replace("1800", "300")) + log("    pass\n"))
    assert first.number("cooldown") == pytest.approx(0.3)
    assert first.number("warmup_iters") == 250
    assert first.facts["cooldown"].origin == "log"
    assert first.cools_down
    assert second.number("cooldown") is None
    assert second.number("warmup_iters") is None
    assert second.cools_down
