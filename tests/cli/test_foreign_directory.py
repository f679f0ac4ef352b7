"""Commands in an untrusted directory: no module in it is run, and no link in it is written through."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import nanopace
from nanopace.cli.main import main
from nanopace.literals import Value
from nanopace.tune.results import RESULTS, keep_result, kept_results
from nanopace.tune.trial import Outcome

from ..train.conftest import TINY, write_corpus
from .conftest import unmeasured

EVIL = """
import pathlib
pathlib.Path(__file__).with_suffix(".ran").touch()
raise ImportError("a module of the directory")
"""
NAMES = ("selectors", "random", "torch", "numpy", "subprocess", "multiprocessing", "tempfile", "socket", "queue")
SCRIPT = "import sys\nfrom nanopace.cli.main import main\nif __name__ == '__main__':\n    sys.exit(main())\n"


@pytest.mark.parametrize(("command", "installed"), [("train", False), ("ablate", True), ("tune", False)])
def test_no_process_imports_from_the_current_directory(tmp_path: Path, command: str, *, installed: bool) -> None:
    """Neither our process nor its children do, but PYTHONPATH stays in force for all of them."""
    here, own = tmp_path / "here", tmp_path / "own"
    here.mkdir()
    own.mkdir()
    for name in NAMES:
        (here / f"{name}.py").write_text(EVIL)
    (own / "sitecustomize.py").write_text(
        "import pathlib, os\npathlib.Path(os.environ['SEEN'], str(os.getpid())).touch()\n"
    )
    script, seen = tmp_path / "nanopace-script", tmp_path / "seen"
    script.write_text(SCRIPT)
    seen.mkdir()
    knobs: dict[str, Value] = {**TINY, "dataset": str(write_corpus(tmp_path / "corpus")), "max_iters": 3}
    for name, bias in (("a.py", False), ("b.py", True)):
        settings = {**knobs, "bias": bias}
        (tmp_path / name).write_text("".join(f"{each} = {value!r}\n" for each, value in settings.items()))
    words = {
        "train": ["train", "../a.py", "--gpus=2", "--no-report", "--out_dir=../out"],
        "ablate": ["ablate", "../a.py", "../b.py", "--steps=2", "--repeats=1"],
        "tune": ["tune", "../a.py", "--budget=1s"],
    }[command]
    environment = unmeasured()
    path = os.pathsep.join([str(own), str(Path(nanopace.__file__).parents[1])])
    ran = subprocess.run(
        [sys.executable, *([str(script)] if installed else ["-m", "nanopace"]), *words],
        cwd=here,
        env={**environment, "PYTHONPATH": path, "SEEN": str(seen), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "a module of the directory" not in ran.stderr
    assert not [*here.glob("*.ran")]
    assert ran.returncode == 0 or re.search("--budget .*(is too short|takes longer)", ran.stderr)  # on a busy machine
    assert len([*seen.iterdir()]) > 1  # this process and its children


@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_a_ledger_that_is_no_file_ends_a_resume_before_anything_is_touched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    out, victim = tmp_path / "out", tmp_path / ".bashrc"
    (out / "checkpoints" / "step-00000005").mkdir(parents=True)
    victim.write_text("mine\n")
    ledger = out / "ledger.jsonl"
    if kind == "link":
        ledger.symlink_to(victim)
    elif kind == "pipe":
        os.mkfifo(ledger)
    else:
        ledger.mkdir()
    before = sorted(out.rglob("*"))
    assert main(["train", "--init_from=resume", f"--out_dir={out}", "--device=cpu"]) == 2
    said = capsys.readouterr().err
    assert (
        said
        == f"nanopace: {ledger}: is a link, a pipe or a directory, not a file, so it is not overwritten; remove it\n"
    )
    assert sorted(out.rglob("*")) == before
    assert victim.read_text() == "mine\n"


@pytest.mark.parametrize("name", ["plan.json", RESULTS])
def test_trials_are_not_kept_behind_a_link(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    kept, victim = tmp_path / "kept", tmp_path / "victim"
    kept.mkdir()
    victim.write_text("mine\n")
    (kept / name).symlink_to(victim)
    for each, bias in (("a.py", False), ("b.py", True)):
        (tmp_path / each).write_text(f"bias = {bias}\n")
    assert main(["ablate", str(tmp_path / "a.py"), str(tmp_path / "b.py"), f"--keep={kept}"]) == 2
    assert str(kept / name) in capsys.readouterr().err
    assert victim.read_text() == "mine\n"
    (kept / RESULTS).unlink(missing_ok=True)
    (kept / RESULTS).symlink_to(victim)
    with pytest.raises(OSError, match="link"):
        keep_result(kept, {}, 0, Outcome(failure=None, seconds=1.0))
    assert victim.read_text() == "mine\n"


@pytest.mark.parametrize("seconds", ['"x"', "1e400", "-1", "null", "[]", "NaN", "true, " + '"said": 3, "other": 1'])
def test_results_that_no_trial_has_written_are_left_out(tmp_path: Path, seconds: str) -> None:
    outcome = f'{{"failure": null, "seconds": {seconds}, "step_ms": []}}'
    (tmp_path / RESULTS).write_text(f'{{"changed": {{}}, "number": 0, "outcome": {outcome}}}\n' + "[" * 10**5)
    assert list(kept_results(tmp_path)) == []
