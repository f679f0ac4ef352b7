from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nanopace.cli.main import COMMANDS


def script(shell: str) -> str:
    made = [sys.executable, "-m", "nanopace", "completion", shell]
    return subprocess.run(made, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["exp"], {"explain"}),
        (["explain", "--ht"], {"--html"}),
        (["train", "--batch"], {"--batch_size"}),
        (["explain", "run"], {"run.log"}),
        ([""], set(COMMANDS)),
    ],
)
def test_bash_offers_what_there_is(typed: list[str], offered: set[str], tmp_path: Path) -> None:
    (tmp_path / "run.log").touch()
    (tmp_path / "completion").write_text(script("bash"))
    words = " ".join(f"'{word}'" for word in typed)
    asked = f"source ./completion; COMP_WORDS=(nanopace {words}); COMP_CWORD={len(typed)}; _shtab_nanopace"
    done = subprocess.run(
        ["bash", "-c", f'{asked}; printf "%s\\n" "${{COMPREPLY[@]}}"'], cwd=tmp_path, capture_output=True, text=True
    )
    assert offered <= set(done.stdout.split())
    assert not any(word in done.stdout.split() for word in {"explain", "run.log"} - offered)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_reads_its_script(tmp_path: Path) -> None:
    (tmp_path / "_nanopace").write_text(script("zsh"))
    assert subprocess.run(["zsh", "-n", "_nanopace"], cwd=tmp_path, check=False).returncode == 0
