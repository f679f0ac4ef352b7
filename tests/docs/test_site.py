"""The site builds without a dead link, loads nothing from elsewhere, and explains every finding."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nanopace.diagnosis.codes import FINDINGS

ROOT = Path(__file__).resolve().parents[2]


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    built = build(ROOT, tmp_path)
    assert built.returncode == 0, built.stdout + built.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 80
    loaded = re.compile(r'<(?:script|img|iframe|link)[^>]+(?:src|href)="?(?:https?:)?//')
    assert [page.name for page in pages if loaded.search(page.read_text(encoding="utf-8"))] == []


@pytest.mark.slow
def test_dead_links_fail_the_build(tmp_path: Path) -> None:
    for name in ("src", "tools", "mkdocs.yml", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    page = tmp_path / "docs" / "index.md"
    page.write_text(
        page.read_text(encoding="utf-8") + "\n[dead](nowhere.md) [dead](glossary.md#nothing)\n", encoding="utf-8"
    )
    built = build(tmp_path, tmp_path / "site")
    assert built.returncode != 0
    assert "nowhere.md" in built.stderr
    assert "#nothing" in built.stderr


@pytest.fixture
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("findings", ROOT / "tools" / "findings.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def test_every_finding_is_explained_once(tool: Any) -> None:
    assert sorted(tool.listed()) == sorted(FINDINGS)


def test_every_example_is_what_is_printed(tool: Any) -> None:
    for path in tool.PAGES:
        page = path.read_text(encoding="utf-8")
        assert tool.refreshed(page) == page, "run `make outputs`"
