"""axe-core, the accessibility checker, from a cache outside the repository; npm installs it there once."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

VERSION = "4.14.0"


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / f"nanopace-axe-core-{VERSION}"


def axe_source() -> str:
    """Its script. Tests that need it are skipped if it is not available."""
    script = cache() / "node_modules" / "axe-core" / "axe.min.js"
    if not script.is_file():
        _install()
    return script.read_text("utf-8")


def _install() -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("axe-core cannot be had: there is no npm")
    cache().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache().parent) as room:
        command = [npm, "install", "--prefix", room, "--ignore-scripts", "--no-audit", "--no-fund"]
        try:
            subprocess.run([*command, f"axe-core@{VERSION}"], check=True, capture_output=True, timeout=180, text=True)
        except (subprocess.SubprocessError, OSError) as error:
            said = str(getattr(error, "stderr", "") or error).strip().splitlines() or [""]
            pytest.skip(f"axe-core cannot be had: npm says {said[-1]}")
        shutil.copytree(room, cache(), dirs_exist_ok=True)
