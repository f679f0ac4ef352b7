"""The output of commands that do not train: every --help, and the JSON of those that have it.

tests/golden has explain and compare for one and two logs; here are several logs, and the other commands. tune and
ablate answer from stored trials, so that nothing is timed again.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from .session import session

CACHE = "trials/cache"
COMMANDS = (
    "explain",
    "compare",
    "gate",
    "watch",
    "recommend",
    "tune",
    "ablate",
    "train",
    "prepare",
    "sample",
    "convert",
    "verify",
    "cards",
)
_ROOT = Path(__file__).resolve().parents[2]
_LOGS = [str(_ROOT / "examples" / f"{name}.log") for name in ("narrow", "wide", "slow-rows")]
_NANOCHAT = [f"logs/pretraining-{month}.log" for month in ("2025-10", "2025-12", "2026-03")]
_PRICES = ["--price=0.35 EUR", "--price=0.30/kWh", "--co2=380"]

JSON = {
    "recommend": ["recommend", "--gpu=4070", "--model=gpt2"],
    "recommend_cards": ["recommend", "--gpu=4070,4090", "--tokens=1B"],
    "tune": ["tune", "trials/a.py", "--budget=10m", "--keep=trials/tune"],
    "ablate": ["ablate", "trials/a.py", "trials/b.py", "--steps=4", "--repeats=2", "--loss=4", "--keep=trials/ablate"],
    "explain_several": ["explain", *_LOGS[:2], "--gpu=4070"],
    "explain_nanochat": ["explain", "logs/finetuning-2026-02.log"],
    "compare_several": ["compare", *_LOGS, "--gpu=4070"],
    "compare_nanochat": ["compare", *_NANOCHAT],
    "explain_prices": ["explain", _LOGS[2], "--gpu=4070", "--set=max_iters=60000", *_PRICES],
    "compare_prices": ["compare", *_LOGS[:2], *_PRICES],
}


def recorded(directory: Path) -> dict[str, str]:
    """The answers, by the name of the file that freezes them."""
    found = {}
    asked = [["--help"], *([command, "--help"] for command in COMMANDS)]
    wide = session(directory, asked, COLUMNS="1000")  # so that no line is broken
    for words, answer in zip(asked, wide, strict=True):
        assert answer.code == 0, (words, answer)
        name = words[0].replace("--help", "nanopace")
        found[f"answers/{name}.txt"] = help_text(answer.out)
    asked = [[*words, "--json"] for words in JSON.values()]
    for name, answer in zip(JSON, session(directory, asked, XDG_CACHE_HOME=str(directory / CACHE)), strict=True):
        assert answer.code == 0, (name, answer)
        found[f"answers/{name}.json"] = json.dumps(_without_curves(json.loads(answer.out)), indent=1) + "\n"
    return found


def help_text(printed: str) -> str:
    """The help as every Python prints it: up to 3.12, argparse repeats a value's name with both names of a flag."""
    one_space = re.sub(r"(?<=\S)(?: +|\n {20,})", " ", printed)
    return re.sub(r"(-[-\w]+) ([A-Z]+), (-[-\w]+) \2", r"\1, \3 \2", one_space)


def _without_curves(document: object) -> object:
    """They are thousands of points; the charts have their own tests."""
    if isinstance(document, dict):
        return {key: _without_curves(value) for key, value in document.items() if key != "curves"}
    return [_without_curves(each) for each in document] if isinstance(document, list) else document
