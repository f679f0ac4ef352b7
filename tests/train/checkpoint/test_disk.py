"""Real runs on disks that are full, read-only, limited or gone: training continues, says so once, and saves later."""

from __future__ import annotations

import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from nanopace import open_run
from nanopace.errors import InputError
from nanopace.ledger import CheckpointEvent, Event, NoteEvent, RunEvent, StepEvent, read_ledger
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import checkpoint_directories, newest_intact, step_of, verified
from nanopace.train.checkpoint.write import remove_checkpoint
from nanopace.train.listener import Outcome

from .. import runs
from ..conftest import Recorder
from ..runs import resume

BEGINS, ENDS, STEPS = 5, 23, 31  # the trouble, at these iterations, and the end of the run


class Troubled(Recorder):
    """Something happens to the disk in the middle of a run, and is fixed or not."""

    def __init__(self, begin: Callable[[], object], end: Callable[[], object] | None = None) -> None:
        super().__init__()
        self._begin, self._end = begin, end
        self.held: int | None = None  # the newest checkpoint at the end of the trouble
        self.out = Path()

    def step(self, event: StepEvent) -> None:
        self.said.append(("step", event))
        if event.iteration == BEGINS:
            self._begin()
        if event.iteration == ENDS and self._end is not None:
            saved, _ = newest_intact(self.out)
            self.held = None if saved is None else saved.step
            self._end()


def run(corpus: Path, out: Path, listener: Recorder, **knobs: Value) -> Outcome:
    if isinstance(listener, Troubled):
        listener.out = out
    return runs.run(corpus, out, listener, **{"save_interval": 2, "max_iters": STEPS - 1, **knobs})[0]


def events(out: Path) -> tuple[Event, ...]:
    with (out / "ledger.jsonl").open("rb") as file:
        return read_ledger(file).events


def mount(*arguments: str) -> None:
    try:
        done = subprocess.run(["mount", *arguments], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if done.returncode:
        pytest.skip("nothing may be mounted here")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mount("-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place))
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(path: Path) -> None:
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(b"x" * 512):
            pass


def check_survived(out: Path, told: Troubled, reason: str) -> None:
    """It reported the failure once, kept what it had, and saved again; nothing is missing at the end."""
    assert len(told.losses) == STEPS
    said = [each for each in told.all("note") if "could not save" in each]
    assert len(said) == 1
    assert reason in said[0]
    assert told.held is not None  # the last good one stayed
    assert told.held <= BEGINS + 3
    saves = [each.iteration for each in told.all("checkpoint")]
    assert {2, 26, 28, 30, 31} <= set(saves)
    assert not set(range(8, 22)) & set(saves)
    found = events(out)
    assert [each.iteration for each in found if isinstance(each, StepEvent)] == list(range(STEPS))
    assert [each.iteration for each in found if isinstance(each, CheckpointEvent)] == saves
    assert [each.text for each in found if isinstance(each, NoteEvent)] == said
    assert sorted(path.name for path in (out / "checkpoints").iterdir())[-1] == "step-00000031"
    assert newest_intact(out)[0] is not None


def test_a_full_disk(corpus: Path, small_disk: Path) -> None:
    """The ledger is on it, too."""
    ballast, out = small_disk / "ballast", small_disk / "out"
    told = Troubled(lambda: fill(ballast), ballast.unlink)
    assert run(corpus, out, told).reason == "finished"
    check_survived(out, told, "No space left on device")
    notes = [each for each in told.all("note") if "ledger.jsonl" in each]
    assert len(notes) == 2
    assert "No space left on device; training continues" in notes[0]
    assert "can be written again; nothing is missing" in notes[1]


def test_a_disk_that_stays_full(corpus: Path, small_disk: Path) -> None:
    """Nothing could be saved: the run still trains to its end, and says so."""
    out = small_disk / "out"

    class Full(Recorder):
        def phase(self, name: str) -> None:
            if name == "step" and not (small_disk / "ballast").exists():
                fill(small_disk / "ballast")

    told = Full()
    outcome = run(corpus, out, told)
    assert (outcome.reason, outcome.checkpoint) == ("error", None)
    assert "No space left on device" in str(outcome.failure)
    assert len(told.losses) == STEPS
    assert len([each for each in told.all("note") if "could not save" in each]) == 1
    assert "lines that could not be written" in told.all("note")[-1]
    assert list((out / "checkpoints").iterdir()) == []


def test_files_that_may_not_grow(corpus: Path, tmp_path: Path) -> None:
    """Like a quota, here with a process limit: neither checkpoint nor ledger can be written."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

    told = Troubled(lambda: limit(1000), lambda: limit(before[0]))
    try:
        assert run(corpus, tmp_path / "out", told).reason == "finished"
    finally:
        limit(before[0])
    check_survived(tmp_path / "out", told, "File too large")
    assert len([each for each in told.all("note") if "ledger.jsonl" in each]) == 2


def test_a_directory_that_is_read_only(corpus: Path, tmp_path: Path) -> None:
    """Also for root, so it is mounted that way."""
    folder = tmp_path / "out" / "checkpoints"
    folder.mkdir(parents=True)
    mount("--bind", str(folder), str(folder))

    def remount(how: str) -> None:
        """Not while a file is open for writing in it."""
        while subprocess.run(["mount", "-o", f"remount,bind,{how}", str(folder)], capture_output=True).returncode:
            time.sleep(0.01)

    told = Troubled(lambda: remount("ro"), lambda: remount("rw"))
    try:
        run(corpus, tmp_path / "out", told)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
    check_survived(tmp_path / "out", told, "Read-only file system")


def test_a_directory_that_is_none(corpus: Path, tmp_path: Path) -> None:
    folder, aside = tmp_path / "out" / "checkpoints", tmp_path / "out" / "aside"

    def begin() -> None:
        folder.rename(aside)
        folder.touch()

    def end() -> None:
        folder.unlink()
        aside.rename(folder)

    told = Troubled(begin, end)
    run(corpus, tmp_path / "out", told)
    told.held = 4  # it was out of reach
    check_survived(tmp_path / "out", told, "ot a directory" if told.all("note") else "")


def vanish(path: Path) -> None:
    """A thread may be writing into it."""
    while path.exists():
        shutil.rmtree(path, ignore_errors=True)


def test_checkpoints_that_vanish(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = Troubled(lambda: vanish(out / "checkpoints"))
    outcome = run(corpus, out, told)
    assert (outcome.reason, outcome.failure) == ("finished", None)
    assert [path.name for path in checkpoint_directories(out)][:2] == ["step-00000031", "step-00000030"]
    assert [each.iteration for each in events(out) if isinstance(each, StepEvent)] == list(range(STEPS))


def test_a_run_that_vanishes(corpus: Path, tmp_path: Path) -> None:
    """All of it, including ledger and lock: it reappears at the next save, and describes itself again."""
    out = tmp_path / "out"
    told = Troubled(lambda: vanish(out))
    outcome = run(corpus, out, told)
    assert (outcome.reason, outcome.failure) == ("finished", None)
    saved, refused = newest_intact(out)
    assert (saved.step, list(refused)) == (STEPS, [])
    found = events(out)
    assert isinstance(found[0], RunEvent)
    assert [each.iteration for each in found if isinstance(each, StepEvent)][-5:] == [26, 27, 28, 29, 30]
    assert len([each for each in told.all("note") if "was removed; starting a new one" in each]) == 1
    assert open_run(out / "ledger.jsonl").value("n_embd") == 16


def test_a_best_that_cannot_be_written_down(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "best.json" / "in the way").mkdir(parents=True)
    with pytest.raises(InputError, match="cannot be written: Is a directory"):  # at the start that is an error
        runs.run(corpus, tmp_path / "out", max_iters=1, overwrite=True)
    runs.run(corpus, tmp_path / "out", max_iters=1)  # this one is set aside
    assert (tmp_path / "out" / "best-1.json" / "in the way").is_dir()
    shutil.rmtree(tmp_path / "out")

    class InTheWay(Recorder):
        def phase(self, name: str) -> None:
            if name == "step":
                (tmp_path / "out" / "best.json").mkdir(exist_ok=True)

    told = InTheWay()
    assert run(corpus, tmp_path / "out", told).reason == "finished"
    assert any("best.json: Is a directory" in each for each in told.all("note"))
    assert [each.iteration for each in told.all("checkpoint")][-2:] == [30, 31]


def flip(out: Path, step: int) -> None:
    path = out / "checkpoints" / f"step-{step:08d}" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.fixture
def removals(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, list[int]]]:
    """Each removed checkpoint, and which ones are intact without it: checked by the thread that removes it, so that
    nothing else can happen meanwhile."""
    seen: list[tuple[int, list[int]]] = []

    def remove(path: Path) -> None:
        others = [each for each in checkpoint_directories(path.parents[1]) if each != path]
        seen.append((step_of(path.name), [step_of(each.name) for each in others if is_whole(each)]))
        remove_checkpoint(path)

    monkeypatch.setattr("nanopace.train.checkpoint.saver.remove_checkpoint", remove)
    return seen


def is_whole(path: Path) -> bool:
    try:
        return verified(path).path == path
    except InputError:
        return False


def test_damaged_checkpoints_do_not_push_out_whole_ones(
    corpus: Path, tmp_path: Path, removals: list[tuple[int, list[int]]]
) -> None:
    """Steps 15, 20 and 21 are damaged, and training resumes from 10: the newest by name are not kept."""
    out = tmp_path / "out"
    run(corpus, out, Recorder(), save_interval=5, keep_last=9, max_iters=20, eval_interval=100)
    for step in (15, 20, 21):
        flip(out, step)
    (out / "best.json").unlink()  # it would spare some
    _, told = resume(out, max_iters=24, save_interval=4, keep_last=2)
    notes = told.all("note")
    assert len(notes) == 3
    assert "step-00000021" in notes[0]
    assert all("its checksum does not match; resuming from" in each and "step-00000010" in each for each in notes)
    assert [each.iteration for each in told.all("checkpoint")] == [12, 16, 20, 24, 25]
    assert removals == [(5, [12, 10]), (10, [16, 12]), (12, [20, 16]), (16, [24, 20])]
    assert [path.name for path in checkpoint_directories(out)][:2] == ["step-00000025", "step-00000024"]


def test_a_damaged_checkpoint_in_between_is_not_counted(
    corpus: Path, tmp_path: Path, removals: list[tuple[int, list[int]]]
) -> None:
    """21 is damaged, and training resumes from 20: when 24 exists, 20 is still needed."""
    out = tmp_path / "out"
    run(corpus, out, Recorder(), save_interval=5, max_iters=20, eval_interval=100)
    flip(out, 21)
    (out / "best.json").unlink()
    removals.clear()
    resume(out, max_iters=35, save_interval=12, keep_last=2)
    assert removals == [(20, [36, 24])]


def test_checkpoints_of_later_steps_are_none_to_be_kept(corpus: Path, tmp_path: Path) -> None:
    """Intact ones that somebody put there: as many of this run are kept as before."""
    folder = tmp_path / "out" / "checkpoints"

    def put() -> None:
        for name in ("step-00000098", "step-00000099"):
            shutil.copytree(folder / "step-00000002", folder / name)

    run(corpus, tmp_path / "out", Troubled(put), keep_last=9, eval_interval=100)
    shutil.rmtree(folder / "step-00000098")
    names = sorted(path.name for path in folder.iterdir())
    assert names == [*(f"step-{step:08d}" for step in (16, 18, 20, 22, 24, 26, 28, 30, 31)), "step-00000099"]


def test_whatever_befalls_the_thread_that_saves_it_goes_on(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an unforeseen error, training used to wait for a save forever."""

    def broken(_: Path) -> None:
        raise RecursionError("unforeseen")

    monkeypatch.setattr("nanopace.train.checkpoint.saver.remove_checkpoint", broken)
    told = Recorder()
    assert run(corpus, tmp_path / "out", told, max_iters=9).reason == "finished"
    assert [each.iteration for each in told.all("checkpoint")] == [2, 4, 6, 8, 10]
    said = [each for each in told.all("note") if "could not remove old checkpoints: unforeseen" in each]
    assert len(said) == 1
