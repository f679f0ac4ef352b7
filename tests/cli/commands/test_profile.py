from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from nanopace.cli.main import main

from ..refused import refused

TINY = ["--dataset=python", "--device=cpu", "--n_layer=1", "--n_embd=16", "--n_head=2", "--block_size=16"]
TINY += ["--batch_size=2", "--gradient_accumulation_steps=1", "--dropout=0"]
Capture = pytest.CaptureFixture[str]


@pytest.mark.slow
def test_a_window_of_steps_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["profile", *TINY, "--steps=4", "--skip=3"]) == 0
    said = capsys.readouterr()
    assert "no GPU activity in this trace" in said.err
    events = json.loads(gzip.decompress(Path("trace.json.gz").read_bytes()))["traceEvents"]
    steps = {each["name"] for each in events if str(each.get("name")).startswith("ProfilerStep#")}
    assert len(steps) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "trace.json.gz"]  # no out_dir, no checkpoint


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--steps=0"], "argument --steps: invalid number of steps: '0'"),
        (["--trace=trace.txt"], "--trace trace.txt: must end in .json or .json.gz"),
        (["--trace=no/such/trace.json"], "--trace no/such/trace.json: no such directory"),
        (["--batch_size=0"], "--batch_size: must be int >= 1, not '0'"),
    ],
)
def test_a_mistake_is_one_line(flags: list[str], says: str, capsys: Capture) -> None:
    assert says in refused(capsys, "profile", *TINY, *flags)
