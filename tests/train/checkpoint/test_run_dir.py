"""Every kind of directory in which a run may start, in every way: what happens, and that all advice works."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from nanopace import open_run
from nanopace.errors import NanopaceError
from nanopace.literals import Value
from nanopace.sources.runs import find_logs
from nanopace.train.checkpoint.layout import newest_intact
from nanopace.train.checkpoint.lock import LOCK_FILE, Claim
from nanopace.train.checkpoint.run_dir import check_rescue, clear, enter

from ..conftest import Recorder
from ..loop.test_interrupt import training, until
from ..runs import events, resume, run
from .checkpoints import save

STARTS: dict[str, dict[str, Value]] = {"plain": {}, "resume": {"init_from": "resume"}, "overwrite": {"overwrite": True}}
ADVICE = {  # from an error to what the user does about it
    "leave out --init_from=resume": "plain",
    "--init_from=resume continues it": "resume",
    "--overwrite=True replaces": "overwrite",
}


# --- what is done to a directory, without a training ----------------------------------------------------------------


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def prepared(out: Path, *, anew: bool = True, overwrite: bool = False) -> str | None:
    with Claim(out) as claim:
        return clear(out, claim, anew=anew, overwrite=overwrite)


def spoil(out: Path) -> None:
    for path in out.rglob("model.safetensors"):
        path.write_bytes(b"")


def test_entering_takes_a_run_and_sweeps_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Claim(out) as claim:
        enter(out, claim)
    assert not out.exists()  # no run is there: nothing is made
    save(out, 1)
    (out / "checkpoints" / ".step-00000002.writing").mkdir()
    with Claim(out) as claim:
        enter(out, claim)
        assert names(out / "checkpoints") == ["step-00000001"]
        with Claim(out) as other, pytest.raises(NanopaceError, match="another training run is using it"):
            enter(out, other)


@pytest.mark.parametrize("how", [enter, lambda out, claim: clear(out, claim, anew=True, overwrite=True)])
def test_a_link_is_refused_before_anything_is_done(tmp_path: Path, how: Callable[[Path, Claim], object]) -> None:
    save(tmp_path / "theirs", 1)
    out = tmp_path / "out"
    out.mkdir()
    (out / "checkpoints").symlink_to(tmp_path / "theirs" / "checkpoints")
    with Claim(out) as claim, pytest.raises(NanopaceError, match="checkpoints: is a link"):
        how(out, claim)
    assert names(out) == ["checkpoints"]
    assert names(tmp_path / "theirs" / "checkpoints") == ["step-00000001"]


def test_a_new_directory(tmp_path: Path) -> None:
    assert prepared(tmp_path / "a" / "out") is None
    assert names(tmp_path / "a" / "out") == [LOCK_FILE, "checkpoints"]
    with Claim(tmp_path / "a" / "out") as claim:
        claim.take()
        with pytest.raises(NanopaceError, match="another training"):
            prepared(tmp_path / "a" / "out")


def test_leftovers_go_whatever_happens_next(tmp_path: Path) -> None:
    for number, (anew, overwrite) in enumerate(((True, False), (True, True), (False, False))):
        out = tmp_path / str(number)
        (out / "checkpoints" / ".step-00000002.removing").mkdir(parents=True)
        (out / ".best.json.12345678.part").touch()
        assert prepared(out, anew=anew, overwrite=overwrite) is None
        assert names(out) == [LOCK_FILE, "checkpoints"]
        assert names(out / "checkpoints") == []


def test_a_run_that_goes_on_keeps_all(tmp_path: Path) -> None:
    save(tmp_path, 1)
    for name in ("ledger.jsonl", "best.json"):
        (tmp_path / name).write_text(name)
    for overwrite in (False, True):
        assert prepared(tmp_path, anew=False, overwrite=overwrite) is None
        assert names(tmp_path) == [LOCK_FILE, "best.json", "checkpoints", "ledger.jsonl"]
        assert names(tmp_path / "checkpoints") == ["step-00000001"]


def test_a_run_is_overwritten_only_when_asked(tmp_path: Path) -> None:
    save(tmp_path, 1)
    (tmp_path / "best.json").touch()
    with pytest.raises(NanopaceError, match="holds a run"):
        prepared(tmp_path)
    assert names(tmp_path / "checkpoints") == ["step-00000001"]
    assert prepared(tmp_path, overwrite=True) is None  # it has no ledger
    assert names(tmp_path) == [LOCK_FILE, "checkpoints"]
    assert names(tmp_path / "checkpoints") == []


def test_what_cannot_go_on_gets_another_name(tmp_path: Path) -> None:
    save(tmp_path, 1)
    spoil(tmp_path)
    (tmp_path / "ledger.jsonl").touch()
    (tmp_path / "checkpoints-1").mkdir()
    note = prepared(tmp_path)
    damage = f"{tmp_path / 'checkpoints' / 'step-00000001' / 'model.safetensors'}: is damaged: 0 bytes where "
    assert note.startswith(f"{tmp_path}: no checkpoint is intact ({damage}")
    assert note.endswith("; training starts over, and what was there is kept as ledger-2.jsonl, checkpoints-2")
    assert names(tmp_path) == [LOCK_FILE, "checkpoints", "checkpoints-1", "checkpoints-2", "ledger-2.jsonl"]
    assert names(tmp_path / "checkpoints") == []
    (tmp_path / "best.json").touch()
    assert prepared(tmp_path) == (
        f"{tmp_path}: no checkpoint was saved here; training starts over, and what was there is kept as best-3.json"
    )
    assert (tmp_path / "checkpoints").is_dir()


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NanopaceError, match="file: cannot be written: "):
        prepared(tmp_path / "file")


def test_a_place_to_rescue_to_is_looked_at_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(out)
    for fine in ("", str(tmp_path), str(tmp_path / "not" / "yet")):
        check_rescue(fine, out)
    for same in (out, tmp_path / "link"):
        with pytest.raises(NanopaceError, match=r"--rescue_dir=.*: is the same as --out_dir"):
            check_rescue(str(same), out)
    for wrong in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(NanopaceError, match=r"--rescue_dir=.*: is not writable"):
            check_rescue(str(wrong), out)
    for missing in (os.W_OK, os.X_OK):
        monkeypatch.setattr(os, "access", lambda _, mode, missing=missing: not mode & missing)
        with pytest.raises(NanopaceError, match=r"--rescue_dir=.*: is not writable"):
            check_rescue(str(tmp_path), out)


# --- trainings -------------------------------------------------------------------------------------------------------


def start(corpus: Path, out: Path, how: str, **knobs: Value) -> Recorder:
    return run(corpus, out, **{"max_iters": 3, **knobs, **STARTS[how]})[1]


def contents(out: Path) -> dict[str, bytes]:
    """Everything except the lock, which stays and means nothing."""
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in out.rglob("*")
        if path.is_file() and path.name != LOCK_FILE
    }


@pytest.fixture(scope="module")
def corpus(shared_corpus: Path) -> Path:
    return shared_corpus


@pytest.fixture(scope="module")
def saved(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps with a checkpoint after each."""
    out = tmp_path_factory.mktemp("saved") / "out"
    start(corpus, out, "plain", max_iters=1, save_interval=1)
    return out


def absent(_: Path, out: Path) -> None:
    assert not out.exists()


def empty(_: Path, out: Path) -> None:
    out.mkdir()


def ledger_only(saved: Path, out: Path) -> None:
    out.mkdir()
    shutil.copy(saved / "ledger.jsonl", out)


def partial(saved: Path, out: Path) -> None:
    """A run killed while it wrote its first checkpoint."""
    ledger_only(saved, out)
    (out / "ledger.jsonl").open("a").write('{"event":"step","itera')
    shutil.copytree(saved / "checkpoints" / "step-00000001", out / "checkpoints" / ".step-00000001.writing")
    (out / ".best.json.12345678.part").write_text("{")


def damaged(saved: Path, out: Path) -> None:
    shutil.copytree(saved, out)
    for model in out.rglob("model.safetensors"):
        model.write_bytes(model.read_bytes()[:-1])


def whole(saved: Path, out: Path) -> None:
    shutil.copytree(saved, out)


def whole_and_damaged(saved: Path, out: Path) -> None:
    shutil.copytree(saved, out)
    (out / "checkpoints" / "step-00000002" / "state.json").write_text("{}")


def others(_: Path, out: Path) -> None:
    (out / "checkpoints").mkdir(parents=True)
    (out / "checkpoints" / "mine.txt").write_text("mine")
    (out / "ledger.txt").write_text("mine, too")


KEPT = ["ledger-1.jsonl"]
OUTCOMES: dict[Callable[[Path, Path], None], dict[str, str | int | list[str]]] = {
    # part of the error; the step at which it resumes; or what is kept under another name if it starts over
    absent: {"plain": [], "resume": "no checkpoint to resume from", "overwrite": []},
    empty: {"plain": [], "resume": "no checkpoint to resume from", "overwrite": []},
    others: {"plain": [], "resume": "no checkpoint to resume from", "overwrite": []},
    ledger_only: {"plain": KEPT, "resume": KEPT, "overwrite": []},
    partial: {"plain": KEPT, "resume": KEPT, "overwrite": []},
    damaged: {"plain": [*KEPT, "best-1.json", "checkpoints-1"], "resume": "no checkpoint is intact", "overwrite": []},
    whole: {"plain": "holds a run", "resume": 2, "overwrite": []},
    whole_and_damaged: {"plain": "holds a run", "resume": 1, "overwrite": []},
}
CASES = [(kind, how, outcome) for kind, by_start in OUTCOMES.items() for how, outcome in by_start.items()]


@pytest.mark.parametrize(("kind", "how", "outcome"), CASES, ids=[f"{kind.__name__}-{how}" for kind, how, _ in CASES])
def test_what_a_start_does_in_a_directory(
    corpus: Path,
    saved: Path,
    tmp_path: Path,
    kind: Callable[[Path, Path], None],
    how: str,
    outcome: str | int | list[str],
) -> None:
    out = tmp_path / "out"
    kind(saved, out)
    before = contents(out)
    if isinstance(outcome, str):
        with pytest.raises(NanopaceError, match=outcome) as refused:
            start(corpus, out, how)
        assert contents(out) == before
        advised = [then for words, then in ADVICE.items() if words in str(refused.value)]
        assert advised
        for number, then in enumerate(advised):
            again = tmp_path / f"advised-{number}"
            kind(saved, again)
            assert 3 in start(corpus, again, then).losses
        return
    told = start(corpus, out, how)
    first = outcome if isinstance(outcome, int) else 0
    assert list(told.losses) == list(range(first, 4))
    assert len(events(out, "resume")) == (first > 0)
    notes = [each for each in told.all("note") if "starts over" in each]
    if isinstance(outcome, list) and outcome:
        (note,) = notes
        assert note.endswith(", ".join(outcome))
        assert {name.split("/")[0] for name in contents(out) if "-1" in name.split("/")[0]} == set(outcome)
    else:
        assert not notes
    kept = {name.replace("-1", "", 1): data for name, data in contents(out).items() if name.startswith(tuple(KEPT))}
    assert all(before[name] == data for name, data in kept.items())
    if kind is others:
        assert before.items() <= contents(out).items()
    if kind is damaged and how == "plain":
        assert "step-00000002/model.safetensors: is damaged" in note
        moved = {name: data for name, data in contents(out).items() if name.startswith("checkpoints-1/")}
        assert moved == {
            name.replace("checkpoints", "checkpoints-1", 1): data
            for name, data in before.items()
            if name.startswith("checkpoints/")
        }
    # what looks for a ledger finds that of the run that was begun last
    assert find_logs(out) == [out / "ledger.jsonl"]
    assert open_run(out).rows


def test_what_was_kept_is_never_overwritten(corpus: Path, saved: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    damaged(saved, out)
    (out / "checkpoints-1").mkdir()
    (out / "best-2.json").write_text("mine")
    (out / "best.json").write_text("{}")
    start(corpus, out, "plain", save_interval=-1)
    assert {"ledger-3.jsonl", "checkpoints-3", "best-3.json"} <= {path.name for path in out.iterdir()}
    assert not (out / "ledger-1.jsonl").exists()
    assert (out / "best-2.json").read_text() == "mine"
    start(corpus, out, "plain", save_interval=-1)  # nothing was saved: again
    assert (out / "ledger-4.jsonl").exists()
    assert not (out / "checkpoints-4").exists()


def test_a_mistake_sets_nothing_aside(corpus: Path, saved: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    damaged(saved, out)
    before = contents(out)
    for wrong in ({"block_size": 10**6}, {"dataset": "nothing"}, {"vocab_size": 3}):
        with pytest.raises(NanopaceError):
            start(corpus, out, "plain", **wrong)
    assert contents(out) == before


def test_killed_before_its_first_checkpoint_a_run_begins_again_in_every_way(tmp_path: Path) -> None:
    with training(tmp_path, eval_interval=100000) as process:
        until(process, 3)
        process.send_signal(signal.SIGKILL)
        process.wait()
    before = (tmp_path / "out" / "ledger.jsonl").read_bytes()
    steps = [each for each in events(tmp_path / "out", "step") if each["iteration"] <= 3]
    for how in STARTS:
        out = tmp_path / how
        shutil.copytree(tmp_path / "out", out)
        if how == "resume":  # which is all that a person types: the rest is in the ledger
            _, told = resume(out, max_iters=3)
            assert json.loads((out / "ledger.jsonl").open().readline())["config"]["init_from"] == "scratch"
        else:
            told = start(tmp_path / "corpus", out, how, eval_interval=100000)
        assert told.losses == {each["iteration"]: each["loss"] for each in steps}
        kept = [path.read_bytes() for path in out.glob("ledger-*.jsonl")]
        assert kept == ([] if how == "overwrite" else [before])


def test_a_run_without_a_checkpoint_goes_on_where_its_directory_is_now(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ledger still records the old name."""
    start(corpus, tmp_path / "before", "plain", save_interval=-1)
    (tmp_path / "before").rename(tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    resume(Path("out"), save_interval=1)
    assert not (tmp_path / "before").exists()
    assert newest_intact(tmp_path / "out")[0] is not None


def test_what_is_no_checkpoint_is_removed_with_the_others(corpus: Path, saved: Path, tmp_path: Path) -> None:
    """A pipe of that name used to be opened and waited for."""
    out = tmp_path / "out"
    shutil.copytree(saved, out)
    (tmp_path / "victim").mkdir()
    os.mkfifo(out / "checkpoints" / "step-00000009")
    (out / "checkpoints" / "step-00000008").touch()
    (out / "checkpoints" / "step-00000007").symlink_to(tmp_path / "victim")
    start(corpus, out, "overwrite", max_iters=1)
    assert os.listdir(out / "checkpoints") == ["step-00000002"]
    assert (tmp_path / "victim").is_dir()
