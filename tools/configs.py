"""Rewrite the ready configs for common cards with `nanopace recommend`: `make configs`, after a change to it.

configs/shakespeare_char.py is written by hand and stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nanopace.hardware.cards import find_card
from nanopace.tune.recommend.config_file import config_text
from nanopace.tune.recommend.models import NAMED
from nanopace.tune.recommend.recommend import recommend

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
CARDS = {
    "rtx3060_12gb": "RTX 3060 12GB",
    "rtx4070": "RTX 4070",
    "rtx4080": "RTX 4080",
    "rtx4090": "RTX 4090",
    "rtx5090": "RTX 5090",
    "h100": "H100 SXM",
}
MODELS = {"gpt2": "gpt2", "gpt2_medium": "gpt2-medium"}


def texts() -> Iterator[tuple[str, str]]:
    """Every file's name and text."""
    for model_part, model in MODELS.items():
        for card_part, card in CARDS.items():
            yield f"{model_part}_{card_part}.py", config_text(recommend(find_card(card), NAMED[model]))


if __name__ == "__main__":
    for name, text in texts():
        (CONFIGS / name).write_text(text, encoding="utf-8")
