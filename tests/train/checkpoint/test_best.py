"""best.json that is changed, zeroed, gone or not borne out: no checkpoint that may be the best is removed for it."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from nanopace.cli.main import main
from nanopace.config import Asked
from nanopace.literals import Value
from nanopace.train.checkpoint.best import known_best, read_best, write_best
from nanopace.train.checkpoint.layout import checkpoint_directories, step_of
from nanopace.train.run import train

from ..conftest import TINY, Recorder


def run(out: Path, **knobs: Value) -> Recorder:
    told = Recorder()
    train(Asked(given={"out_dir": str(out), **knobs}, files=("c.py",)), listener=told, started=time.monotonic())
    return told


@pytest.fixture(scope="module")
def overfitted(shared_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Evaluated and saved every 5 steps; then it forgets what it has learned."""
    out = tmp_path_factory.mktemp("best") / "out"
    run(out, **{**TINY, "dataset": str(shared_corpus), "max_iters": 9})
    run(out, init_from="resume", learning_rate=5.0, decay_lr=False, max_iters=24)
    best = read_best(out)
    assert best is not None
    assert best[0] == min(steps(out)) < 20
    return out


def steps(out: Path) -> list[int]:
    return sorted(step_of(each.name) for each in checkpoint_directories(out))


def content(step: Value, val: Value) -> str:
    return json.dumps({"step": step, "val": val})


def test_the_very_first_evaluation_may_be_the_best(tmp_path: Path) -> None:
    write_best(tmp_path, 0, 4.5)
    assert read_best(tmp_path) == (0, 4.5)
    write_best(tmp_path, -1, 4.5)
    assert read_best(tmp_path) is None


CHANGES = {
    "zeroed": b"\0" * 100,
    "empty": b"",
    "of an earlier version": content(20, 9.0).encode(),
    "another step": b"the newest one, changed in the file",
    "another step and loss": b"as if the newest one were better",
    "gone": None,
    "nan": b'{"step": 5, "val": NaN}',
    "nested": b"[" * 60_000,
    "huge": b'{"step": 1e400, "val": 1e400}',
    "negative": b'{"step": -5, "val": 1}',
    "true": b'{"step": true, "val": false}',
    "text": b'{"step": "five", "val": "x", "checksum": {}}',
}


def changed(overfitted: Path, out: Path, change: str) -> tuple[int, float]:
    """A copy of the run with another best.json; gives what it said before."""
    shutil.copytree(overfitted, out)
    best = read_best(out)
    assert best is not None
    path, data = out / "best.json", CHANGES[change]
    if data is None:
        path.unlink()
    elif change.startswith("another step"):
        written = json.loads(path.read_text()) | {"step": 25} | ({"val": 0.1} if change.endswith("loss") else {})
        path.write_text(json.dumps(written))
    else:
        path.write_bytes(data)
    return best


@pytest.mark.parametrize("change", ["zeroed", "of an earlier version", "another step and loss", "gone"])
def test_the_best_stays_whatever_best_json_says(overfitted: Path, tmp_path: Path, change: str) -> None:
    out = tmp_path / "out"
    best = changed(overfitted, out, change)
    told = run(out, init_from="resume", max_iters=29, keep_last=1)
    assert best[0] in steps(out)
    said = any("does not say for certain which checkpoint is the best" in each for each in told.all("note"))
    assert said == (change != "gone")
    assert read_best(out) == best  # it is known again, from the newest state
    run(out, init_from="resume", max_iters=34, keep_last=1)
    assert steps(out) == [best[0], 35]  # and nothing else is kept for it


@pytest.mark.parametrize("change", CHANGES)
def test_what_may_be_the_best_is_spared(overfitted: Path, tmp_path: Path, change: str) -> None:
    best = changed(overfitted, tmp_path / "out", change)
    known = known_best(tmp_path / "out", 1, lambda _: True)
    assert (known.best, known.certain) == (best, False)
    assert best[0] in known.protected
    assert (known.warning is None) == (change == "gone")


def test_with_a_best_json_as_it_was_written_nothing_is_kept_in_doubt(overfitted: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(overfitted, out)
    best = read_best(out)
    assert best is not None
    told = run(out, init_from="resume", max_iters=29, keep_last=1)
    assert steps(out) == [best[0], 30]
    assert not told.all("note")


def test_one_of_an_earlier_version_is_read_and_not_trusted(overfitted: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(overfitted, out)
    best = read_best(out)
    assert best is not None
    (out / "best.json").write_text(content(*best))
    assert read_best(out) == best
    known = known_best(out, 1, lambda _: True)
    assert (known.best, known.certain, known.warning) == (best, False, None)
    assert {best[0], steps(out)[-1]} <= known.protected
    (out / "best.json").write_text(content(25, 0.5))
    assert best[0] in known_best(out, 1, lambda _: True).protected


def test_a_best_that_is_damaged_is_no_reason_to_remove_the_others(overfitted: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(overfitted, out)
    best = read_best(out)
    assert best is not None
    known = known_best(out, 1, lambda each: step_of(each.name) != best[0])
    assert known.protected == set(steps(out))


def test_what_the_newest_state_does_not_bear_out(overfitted: Path, tmp_path: Path) -> None:
    """With a right checksum: it names the newest one although that is worse, or an old one although it is not known."""
    out = tmp_path / "out"
    shutil.copytree(overfitted, out)
    best = read_best(out)
    assert best is not None
    for step, loss in ((steps(out)[-1], best[1] + 1), (steps(out)[-2], 0.1), (10**9, 0.1)):
        write_best(out, step, loss)
        known = known_best(out, 1, lambda _: True)
        assert known.best == best
        assert best[0] in known.protected


def test_checkpoints_of_another_run_behind_a_link(
    overfitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Training would remove them: it does not begin. An out_dir that is a link itself is somebody's own."""
    theirs, out = tmp_path / "theirs", tmp_path / "out"
    shutil.copytree(overfitted, theirs)
    before = steps(theirs)
    out.mkdir()
    (out / "checkpoints").symlink_to(theirs / "checkpoints")
    for flags in (["--init_from=resume"], ["--overwrite=True"], []):
        assert main(["train", f"--out_dir={out}", "--device=cpu", "--keep_last=1", "--max_iters=40", *flags]) == 2
        assert "checkpoints: is a link, and training would remove checkpoints behind it" in capsys.readouterr().err
    assert steps(theirs) == before
    (tmp_path / "link").symlink_to(theirs)
    run(tmp_path / "link", init_from="resume", max_iters=26)
    assert steps(theirs)[-1] == 27


def test_a_link_that_comes_while_training_runs(
    shared_corpus: Path, overfitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nanopace.train.loop.saves.WAITS", (0.01,))
    theirs, out = tmp_path / "theirs", tmp_path / "out"
    shutil.copytree(overfitted, theirs)
    before = steps(theirs)

    class Swapped(Recorder):
        def phase(self, name: str) -> None:
            if name == "step" and not (out / "checkpoints").is_symlink():
                (out / "checkpoints").rename(out / "aside")
                (out / "checkpoints").symlink_to(theirs / "checkpoints")

    given = {**TINY, "dataset": str(shared_corpus), "out_dir": str(out), "max_iters": 9, "keep_last": 1}
    outcome = train(Asked(given=given, files=("c.py",)), listener=Swapped(), started=time.monotonic())
    assert outcome.reason == "error"
    assert "it is a link, and what it leads to is not touched" in str(outcome.failure)
    assert steps(theirs) == before


def test_a_checkpoint_that_is_a_link_is_removed_alone(overfitted: Path, tmp_path: Path) -> None:
    out, theirs = tmp_path / "out", tmp_path / "theirs"
    shutil.copytree(overfitted, out)
    shutil.copytree(overfitted / "checkpoints" / f"step-{steps(overfitted)[0]:08d}", theirs)
    (out / "checkpoints" / "step-00000001").symlink_to(theirs)
    run(out, init_from="resume", max_iters=30, keep_last=1)
    assert 1 not in steps(out)
    assert len(list(theirs.iterdir())) > 2
    assert not [path.name for path in (out / "checkpoints").iterdir() if path.name.startswith(".")]
