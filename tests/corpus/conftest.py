from __future__ import annotations

import json
import random
from pathlib import Path

import pytest


@pytest.fixture
def rows(tmp_path: Path) -> list[Path]:
    """Two files of short and long rows, some of them duplicates."""
    rng = random.Random(1)
    texts = ["".join(rng.choices("abc \n", k=rng.choice([5, 50, 3000]))) for _ in range(150)]
    files = []
    for number, part in enumerate((texts[:100], texts[60:])):
        path = tmp_path / f"{number}.jsonl"
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in part))
        files.append(path)
    return files


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}
