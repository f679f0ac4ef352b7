"""Which checkpoint `sample`, `convert` and `verify` use, and what they print about it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nanopace.cli.main import main
from nanopace.train.checkpoint.choose import choose

from ..train.checkpoint.test_choose import best, checkpoint, rewrite
from ..train.overfitted import overfit

SAMPLE = ("--device=cpu", "--num_samples=1", "--max_new_tokens=3")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, float]]:
    return overfit(tmp_path_factory.mktemp("overfitted"))


@pytest.fixture
def step(finished: tuple[Path, dict[int, float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """The step of the best checkpoint of the run in ./out."""
    shutil.copytree(finished[0], tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    return best(finished[1])


def loss(step: int) -> str:
    written = json.loads(Path("out/best.json").read_text())
    assert written["step"] == step
    return f"{written['val']:.4f}"


def said(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """What sample prints before the text; convert prints the same after what it wrote."""
    assert main(["sample", "--out_dir=out", *SAMPLE, *flags]) == 0
    *lines, _ = capsys.readouterr().err.splitlines()
    assert main(["convert", "out", "x.pt", "--force", *flags]) == 0
    out, err = capsys.readouterr()
    which = lines[-1].removeprefix("nanopace: ")
    assert out.startswith("Wrote x.pt: 21,120 parameters, step ")
    assert out.endswith(f" parameters, {which}\n")
    assert err.splitlines()[: len(lines) - 1] == lines[:-1]
    return "\n".join(lines)


@pytest.mark.slow
def test_the_best_is_taken_and_said(step: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys) == (
        f"nanopace: step {step}, the best: val loss {loss(step)} (the run has always_save_checkpoint=False); "
        "--which=last takes step 201"
    )
    assert said(capsys, "--which", "best") == f"nanopace: step {step}, the best: val loss {loss(step)}"
    assert said(capsys, "--which=last") == "nanopace: step 201, the last"
    assert said(capsys, "--which=201") == "nanopace: step 201, as requested"


@pytest.mark.slow
def test_the_text_is_that_of_the_checkpoint(step: int, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--device=cpu", "--num_samples=1", "--max_new_tokens=200", "--start=def "]
    texts = []
    for which in ([], ["--which=best"], ["--which=last"]):
        assert main(["sample", *flags, *which]) == 0
        texts.append(capsys.readouterr().out)
    assert main(["sample", *flags[:-1], "--start=def ", str(checkpoint(Path("out"), step))]) == 0
    assert texts[0] == texts[1] == capsys.readouterr().out != texts[2]


def test_the_last_is_taken_and_said(step: int, capsys: pytest.CaptureFixture[str]) -> None:
    config = {**choose(Path("out")).saved.config, "always_save_checkpoint": True}
    rewrite(Path("out"), 201, config=config)
    other = f"; --which=best takes step {step}: val loss {loss(step)}"
    assert said(capsys) == f"nanopace: step 201, the last{other}"
    shutil.rmtree(checkpoint(Path("out"), step))
    assert said(capsys) == "nanopace: step 201, the last"
    Path("out/best.json").write_text('{"step": 201, "val": 0.5}')
    assert said(capsys) == "nanopace: step 201, the best and the last: val loss 0.5000"
    Path("out/best.json").unlink()
    rewrite(Path("out"), 201, best=None)
    assert said(capsys) == "nanopace: step 201, the last; no evaluation was made, so the best is unknown"


def test_what_is_passed_over_is_said(step: int, capsys: pytest.CaptureFixture[str]) -> None:
    (checkpoint(Path("out"), 201) / "model.safetensors").write_bytes(b"")
    lines = said(capsys, "--which=last").splitlines()
    assert lines[0].startswith("nanopace: out/checkpoints/step-00000201/model.safetensors: is damaged: 0 bytes where ")
    assert lines[0].endswith(f"; using step {step} instead")
    assert lines[1] == f"nanopace: step {step}, the last intact one"


def test_a_best_that_is_damaged_is_said_in_one_language(step: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The reason is an error within an error."""
    (checkpoint(Path("out"), step) / "model.safetensors").write_bytes(b"")
    assert main(["sample", "--which=best", "--lang=de"]) == 2
    err = capsys.readouterr().err
    assert "beschädigt" in err
    assert "damaged" not in err
    assert err.count("\n") == 1


def test_verify_looks_at_one_alone(step: int, capsys: pytest.CaptureFixture[str]) -> None:
    for which, shown in (("best", [step]), ("last", [201]), ("201", [201])):
        assert main(["verify", "out", "--which", which]) == 0
        lines = capsys.readouterr().out.splitlines()[:-1]  # and the ledger
        assert [line.split("  ")[0] for line in lines] == [f"step {each}" for each in shown]
    assert main(["verify", "out", "--which=7"]) == 2
    assert f"has no checkpoint of step 7; its checkpoints are of steps {step}, 201" in capsys.readouterr().err
    assert main(["verify", str(checkpoint(Path("out"), step)), "--which=best"]) == 2
    assert "holds one model, so there is nothing to choose" in capsys.readouterr().err
