"""A format from another package: the example in docs/adding-a-format.md, installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import nanopace

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-format.md"
SOURCE = Path(nanopace.__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of packages with the example, as pip would leave it."""
    page = PAGE.read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    entry = re.search(r"```toml\n\[project\.entry-points\.\"(.*?)\"\]\n(\w+) = \"(.*?)\"\n```", page)
    assert example is not None
    assert entry is not None
    site = tmp_path_factory.mktemp("site")
    (site / "toytrain_log.py").write_text(example[1], encoding="utf-8")
    _distribute(site, "toytrain", f"[{entry[1]}]\n{entry[2]} = {entry[3]}\n")
    return site


def _distribute(site: Path, name: str, entry_points: str) -> None:
    about = site / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(entry_points, encoding="utf-8")


def log_of(first: int = 10) -> str:
    rows = [
        f"toy {i} loss={4 - i / 1000:.4f} ms={100 + i % 7}.50\n"
        + (f"toy eval {i} loss={4.1 - i / 1000:.4f}\n" if i % 100 == 0 else "")
        for i in range(first, 600, 10)
    ]
    return "starting toytrain on 2 GPUs\n" + "".join(rows)


def explained(site: Path, *arguments: Path | str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nanopace", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{site}"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_its_log_is_explained(site: Path, tmp_path: Path) -> None:
    log = tmp_path / "toy.log"
    log.write_text(log_of() + "toy 600 loss=3.4000 ms=10", encoding="utf-8")  # cut
    said = json.loads(explained(site, "explain", log, "--json").stdout)
    assert said["source"]["format"] == "toytrain"
    assert said["source"]["rows"] == 59
    assert said["facts"]["gpu_count"]["value"] == 2
    assert said["loss"]["last_val"] == 3.6
    assert "toytrain" in explained(site, "explain", log).stdout


def test_its_logs_are_found_in_a_directory_and_compared(site: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no log\n", encoding="utf-8")
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_text(log_of(), encoding="utf-8")
    done = explained(site, "compare", tmp_path, "--json")
    assert [run["source"]["format"] for run in json.loads(done.stdout)["runs"]] == ["toytrain"] * 2


def test_a_format_of_ours_comes_first(site: Path, tmp_path: Path) -> None:
    log = tmp_path / "mixed.log"
    ours = "".join(f"iter {i}: loss 3.9000, time 169.2{i % 10}ms, mfu 12.06%\n" for i in range(50))
    log.write_text(log_of() + ours, encoding="utf-8")
    assert json.loads(explained(site, "explain", log, "--json").stdout)["source"]["format"] == "nanogpt"


def test_without_the_package_it_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "toy.log"
    log.write_text(log_of(), encoding="utf-8")
    done = explained(tmp_path, "explain", log)
    assert done.returncode == 2
    assert "59 lines look like rows: iteration in column 2, milliseconds in column 4; read them with" in done.stderr


def test_a_package_that_is_broken_does_not_stand_in_the_way(site: Path, tmp_path: Path) -> None:
    _distribute(tmp_path, "broken", "[nanopace.formats]\nbroken = no_such_module:FORMAT\nother = json:loads\n")
    log = tmp_path / "toy.log"
    log.write_text(log_of(), encoding="utf-8")
    done = explained(Path(f"{tmp_path}{os.pathsep}{site}"), "explain", log, "--json")
    assert json.loads(done.stdout)["source"]["format"] == "toytrain"
    assert "'broken'" in done.stderr
    assert "is no LogFormat" in done.stderr
