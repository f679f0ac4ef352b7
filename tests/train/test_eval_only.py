"""eval_only: a measurement that changes nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nanopace.errors import InputError
from nanopace.literals import Value

from .checkpoint.test_run_dir import contents, damaged
from .conftest import write_corpus
from .loop.test_interrupt import training, until
from .runs import run


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    room = tmp_path_factory.mktemp("once")
    corpus = write_corpus(room / "corpus")
    run(corpus, room / "out", keep_last=9, max_iters=6)
    return corpus, room / "out"


def evaluated(corpus: Path, out: Path, **knobs: Value) -> tuple[int, float]:
    """The evaluated step and its loss. Nothing in `out` changes: names, bytes and times."""
    before = (contents(out), [(path, path.stat().st_mtime_ns) for path in sorted(out.rglob("*"))])
    outcome, told = run(corpus, out, eval_only=True, **knobs)
    assert (contents(out), [(path, path.stat().st_mtime_ns) for path in sorted(out.rglob("*"))]) == before
    assert outcome.reason == "finished"
    assert not told.losses
    (report,) = told.all("eval")
    assert report.train is not None  # of a second pass, as nanoGPT's
    assert report.train_steps is None
    return report.iteration, report.val


def test_nothing_is_made_and_twice_gives_the_same(corpus: Path, tmp_path: Path) -> None:
    first, second = (evaluated(corpus, tmp_path / "out") for _ in range(2))
    assert first == second
    assert first[0] == 0
    assert not (tmp_path / "out").exists()


def test_in_the_directory_of_a_run(once: tuple[Path, Path], tmp_path: Path) -> None:
    corpus, _ = once
    out = tmp_path / "out"
    shutil.copytree(once[1], out)
    scratch = evaluated(corpus, out)
    step, val = evaluated(corpus, out, init_from="resume", max_iters=0)  # the run is long over
    assert step == 7  # no multiple of eval_interval
    assert val < scratch[1] - 0.5
    path = str(out / "checkpoints" / "step-00000007")
    assert evaluated(corpus, out, init_from=path) == (0, val)
    assert evaluated(corpus, out, overwrite=True) == scratch
    (out / "checkpoints" / "step-00000007" / "model.safetensors").write_bytes(b"")
    assert evaluated(corpus, out, init_from="resume")[0] == 5
    other = write_corpus(tmp_path / "other", seed=1)
    assert evaluated(other, out, init_from="resume")[1] != val


def test_without_a_checkpoint_there_is_nothing_to_resume(once: tuple[Path, Path], tmp_path: Path) -> None:
    corpus, saved = once
    out = tmp_path / "out"
    damaged(saved, out)
    before = contents(out)
    with pytest.raises(InputError, match="no checkpoint is intact"):
        evaluated(corpus, out, init_from="resume")
    shutil.rmtree(out / "checkpoints")
    with pytest.raises(InputError, match="no checkpoint to resume from"):
        evaluated(corpus, out, init_from="resume")
    assert contents(out).items() <= before.items()


def test_while_another_training_runs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with training(tmp_path, eval_interval=10**6, save_interval=20, keep_last=10**6) as process:
        until(process, 45)
        outcome, told = run(tmp_path / "corpus", out, eval_only=True, init_from="resume")
        assert process.poll() is None
        assert outcome.checkpoint is not None
        assert told.all("eval")[0].iteration >= 20
        until(process, told.all("eval")[0].iteration + 1)
