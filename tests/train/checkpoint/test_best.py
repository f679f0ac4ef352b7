"""best.json changed, zeroed, missing or contradicted: no checkpoint that may be the best is removed because of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Container
from pathlib import Path

import pytest

from nanopace.cli.main import main
from nanopace.literals import Value
from nanopace.train.checkpoint.best import KnownBest, best_until, known_best, read_best, write_best
from nanopace.train.checkpoint.layout import checkpoint_directories, checksum_of, step_of, verified

from ..conftest import Recorder
from ..runs import resume, run
from .checkpoints import rewrite, save


def content(step: Value, val: Value) -> str:
    return json.dumps({"step": step, "val": val})


# --- which one is known to be the best, by hand ----------------------------------------------------------------------


def by_hand(out: Path, newest: list[Value] | None = None, **best: Value) -> Path:
    """Checkpoints of steps 5, 10 and 20, the newest of which records a best, and a best.json if one is given."""
    for step in (5, 10, 20):
        save(out, step)
    rewrite(out / "checkpoints" / "step-00000020", best=newest)
    if best:
        write_best(out, best["step"], best["val"])  # type: ignore[arg-type]
    return out


def known(out: Path, keep_last: int = 1, damaged: Container[int] = ()) -> KnownBest:
    return known_best(out, keep_last, lambda path: step_of(path.name) not in damaged)


def unsure(out: Path, *steps: int) -> str:
    return (
        f"{out / 'best.json'} does not say for certain which checkpoint is the best; the candidates are not "
        f"removed: step {', '.join(map(str, steps))}"
    )


@pytest.mark.parametrize(
    ("newest", "written"),
    [
        ([10, 2.5], (10, 2.5)),  # both say the same
        ([10, 2.5], (20, 2.0)),  # the newest was saved before its own evaluation
        (None, (20, 2.0)),
        ([15, 1.5], (10, 2.5)),  # the better one could not be saved
        ([15, 2.5], (10, 2.5)),
    ],
)
def test_a_best_json_that_the_newest_state_bears_out(
    tmp_path: Path, newest: list[Value] | None, written: tuple[int, float]
) -> None:
    out = by_hand(tmp_path, newest, step=written[0], val=written[1])
    assert known(out) == KnownBest(written)
    (out / "best.json").write_text(content(*written))  # as earlier versions wrote it
    assert known(out) == KnownBest(written, certain=False, protected=frozenset({5, 10, 20}))
    assert known(out, keep_last=2) == KnownBest(written, certain=False, protected=frozenset({5, 20}))


@pytest.mark.parametrize(
    ("written", "protected"),
    [
        ((20, 3.0), {10, 20}),  # worse than what the newest knows
        ((5, 2.5), {5, 10, 20}),  # as good, and another
        ((20, 2.5), {10, 20}),
        ((5, 2.0), {5, 10, 20}),  # better, and the newest does not know of it
        ((10, 2.0), {10, 20}),
        ((15, 3.0), {10, 20}),  # there is none
        ((0, 2.0), {10, 20}),
    ],
)
def test_a_best_json_that_the_newest_state_contradicts(
    tmp_path: Path, written: tuple[int, float], protected: set[int]
) -> None:
    out = by_hand(tmp_path, [10, 2.5], step=written[0], val=written[1])
    assert known(out) == KnownBest((10, 2.5), False, frozenset(protected), unsure(out, *sorted(protected)))


def test_no_best_json(tmp_path: Path) -> None:
    assert known(by_hand(tmp_path / "a", [10, 2.5])) == KnownBest((10, 2.5), False, frozenset({10, 20}))
    assert known(by_hand(tmp_path / "b")) == KnownBest(protected=frozenset({5, 10}))
    assert known(tmp_path / "b", keep_last=2) == KnownBest(protected=frozenset({5}))
    assert known(by_hand(tmp_path / "c", [15, 2.5])) == KnownBest(protected=frozenset({5, 10}))
    assert known(tmp_path / "nowhere") == KnownBest()


def test_nobody_knows_which(tmp_path: Path) -> None:
    """All may be the best: the named step has no checkpoint, or a damaged one, or no step is named."""
    out = by_hand(tmp_path, [15, 2.5], step=16, val=2.0)
    unknown = KnownBest(protected=frozenset({5, 10, 20}), warning=unsure(out, 5, 10, 20))
    assert known(out) == unknown
    write_best(out, 10, 2.0)
    assert known(out, damaged={10}) == unknown
    assert known(out, damaged={5, 10, 20}) == KnownBest(protected=frozenset({5, 10, 20}))
    (out / "best.json").write_text("[]")
    assert known(out) == unknown
    silent = by_hand(tmp_path / "silent", step=10, val=2.0)  # the newest state names none
    assert known(silent) == KnownBest(protected=frozenset({5, 10, 20}), warning=unsure(silent, 5, 10, 20))
    write_best(out, 5, 2.0)
    assert known(out, damaged={20, 10}) == KnownBest((5, 2.0))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"step": 5, "val": 1.5}', (5, 1.5)),
        ('{"step": 0, "val": 1.5}', (0, 1.5)),
        ('{"step": -1, "val": 1.5}', None),
        ('{"step": 5, "val": 1.5, "checksum": "x"}', None),
        ('{"step": 5, "val": Infinity}', None),
        ('{"step": 5}', None),
        ('{"val": 1.5}', None),
        (" " * 65_537 + '{"step": 5, "val": 1.5}', None),
        (" " * 65_500 + '{"step": 5, "val": 1.5}', (5, 1.5)),
    ],
)
def test_what_a_best_json_says(tmp_path: Path, text: str, said: tuple[int, float] | None) -> None:
    (tmp_path / "best.json").write_text(text)
    assert read_best(tmp_path) == said


def test_its_checksum_is_of_step_and_loss(tmp_path: Path) -> None:
    write_best(tmp_path, 5, 1.5)
    path = tmp_path / "best.json"
    written = json.loads(path.read_text())
    assert written == {"step": 5, "val": 1.5, "checksum": checksum_of({"step": 5, "val": 1.5})}
    assert path.read_bytes().endswith(b"}\n")
    for change in ({"step": 6}, {"val": 1.25}):
        path.write_text(json.dumps({**written, **change}))
        assert read_best(tmp_path) is None


@pytest.mark.parametrize(
    ("of_state", "of_run", "best"),
    [
        ([10, 2.5], (20, 2.0), (20, 2.0)),
        ([10, 2.5], (20, 3.0), (10, 2.5)),
        ([10, 2.5], (25, 2.0), (10, 2.5)),  # later than this checkpoint
        (None, (25, 2.0), None),
        (None, (5, 2.0), (5, 2.0)),
    ],
)
def test_the_best_up_to_a_checkpoint(
    tmp_path: Path, of_state: list[Value] | None, of_run: tuple[int, float], best: tuple[int, float] | None
) -> None:
    out = by_hand(tmp_path / "out", of_state, step=of_run[0], val=of_run[1])
    assert best_until(verified(out / "checkpoints" / "step-00000020")) == best
    copied = tmp_path / "out" / "copy" / "step-00000020"
    shutil.copytree(out / "checkpoints" / "step-00000020", copied)
    assert best_until(verified(copied)) == (None if of_state is None else (10, 2.5))


# --- runs ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def overfitted(shared_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run evaluated and saved every 5 steps, which then forgets what it has learned."""
    out = tmp_path_factory.mktemp("best") / "out"
    run(shared_corpus, out, max_iters=9)
    resume(out, learning_rate=5.0, decay_lr=False, max_iters=24)
    best = read_best(out)
    assert best[0] == min(steps(out)) < 20
    return out


def steps(out: Path) -> list[int]:
    return sorted(step_of(each.name) for each in checkpoint_directories(out))


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
    """A copy of the run with another best.json; also returns what it named before."""
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
    _, told = resume(out, max_iters=29, keep_last=1)
    assert best[0] in steps(out)
    said = any("does not say for certain which checkpoint is the best" in each for each in told.all("note"))
    assert said == (change != "gone")
    assert read_best(out) == best  # it is known again, from the newest state
    resume(out, max_iters=34, keep_last=1)
    assert steps(out) == [best[0], 35]  # and nothing else is kept for it


@pytest.mark.parametrize("change", CHANGES)
def test_what_may_be_the_best_is_spared(overfitted: Path, tmp_path: Path, change: str) -> None:
    best = changed(overfitted, tmp_path / "out", change)
    found = known(tmp_path / "out")
    assert (found.best, found.certain) == (best, False)
    assert best[0] in found.protected
    assert (found.warning is None) == (change == "gone")


def test_with_a_best_json_as_it_was_written_nothing_is_kept_in_doubt(overfitted: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(overfitted, out)
    best = read_best(out)
    _, told = resume(out, max_iters=29, keep_last=1)
    assert steps(out) == [best[0], 30]
    assert not told.all("note")


def test_checkpoints_of_another_run_behind_a_link(
    overfitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Training would remove them, so it does not start. If out_dir itself is a link, that was the user's choice."""
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
    resume(tmp_path / "link", max_iters=26)
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

    outcome, _ = run(shared_corpus, out, Swapped(), max_iters=9, keep_last=1)
    assert outcome.reason == "error"
    assert "it is a link, and links are not followed here" in str(outcome.failure)
    assert steps(theirs) == before


def test_a_checkpoint_that_is_a_link_is_removed_alone(overfitted: Path, tmp_path: Path) -> None:
    out, theirs = tmp_path / "out", tmp_path / "theirs"
    shutil.copytree(overfitted, out)
    shutil.copytree(overfitted / "checkpoints" / f"step-{steps(overfitted)[0]:08d}", theirs)
    (out / "checkpoints" / "step-00000001").symlink_to(theirs)
    resume(out, max_iters=30, keep_last=1)
    assert 1 not in steps(out)
    assert len(list(theirs.iterdir())) > 2
    assert not [path.name for path in (out / "checkpoints").iterdir() if path.name.startswith(".")]
