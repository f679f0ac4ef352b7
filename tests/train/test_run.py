"""Real runs on the CPU: from the first event of the ledger to the last, stopped and resumed."""

from __future__ import annotations

import gc
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from nanopace import diagnose, open_run
from nanopace.errors import ConfigError, InputError, NanopaceError, UsageError
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import checkpoint_directories, checksum_of, newest_intact
from nanopace.train.formats.convert import convert
from nanopace.train.listener import Outcome
from nanopace.train.loop.loop import Loop

from .conftest import Recorder, write_corpus
from .runs import Stopping, events, files, resume, run


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome, Recorder]:
    room = tmp_path_factory.mktemp("once")
    return (room / "out", *run(write_corpus(room / "corpus"), room / "out"))


@pytest.fixture
def finished(once: tuple[Path, Outcome, Recorder], tmp_path: Path) -> tuple[Path, Outcome, Recorder]:
    """A run with its own copy of files, which may be changed."""
    out, outcome, told = once
    shutil.copytree(out, tmp_path / "out")
    return tmp_path / "out", outcome, told


def test_a_run_learns_and_tells(finished: tuple[Path, Outcome, Recorder]) -> None:
    out, outcome, told = finished
    assert (outcome.reason, outcome.iteration) == ("finished", 21)  # nanoGPT's count: iterations 0 to max_iters
    assert list(told.losses) == list(range(21))
    assert told.losses[20] < told.losses[0] - 1
    evaluations = told.all("eval")
    assert [each.iteration for each in evaluations] == [0, 5, 10, 15, 20]
    assert evaluations[-1].val < evaluations[0].val - 1
    assert evaluations[0].train is None
    assert evaluations[1].train == pytest.approx(sum(told.losses[i] for i in range(5)) / 5)
    assert evaluations[1].train_steps == 5
    assert 0 < evaluations[1].bits_per_byte < 8
    assert evaluations[1].change == pytest.approx(evaluations[1].val - evaluations[0].val)
    assert [Path(each.path).name for each in told.all("checkpoint")] == [f"step-{n:08d}" for n in (5, 10, 15, 20, 21)]
    assert sorted(path.name for path in (out / "checkpoints").iterdir()) == ["step-00000020", "step-00000021"]
    assert json.loads((out / "best.json").read_text())["step"] == 20


def test_every_moment_is_in_the_ledger(finished: tuple[Path, Outcome, Recorder]) -> None:
    out, outcome, _ = finished
    told = events(out)
    assert (told[0]["event"], told[-1]["event"], told[-1]["reason"]) == ("run", "end", "finished")
    parts = [each["ms"] for each in told if each["event"] in ("step", "eval", "compile")]
    parts += [
        each["ms"] for each in told if each["event"] == "span" and each["phase"] not in ("data", "step", "optimizer")
    ]
    parts += [each["stall_ms"] for each in told if each["event"] == "checkpoint"]
    assert sum(parts) == pytest.approx(outcome.wall_ms, rel=0.01)
    inside = sum(
        each["ms"] for each in told if each["event"] == "span" and each["phase"] in ("data", "step", "optimizer")
    )
    assert inside == pytest.approx(sum(each["ms"] for each in told if each["event"] == "step"), rel=0.001)
    started = {each["what"] for each in told if each["event"] == "span" and each["phase"] == "startup"}
    assert {"Python, torch and the device", "the model", "the data", "training step"} <= started


def test_what_rows_leave_out_is_told_in_the_end(finished: tuple[Path, Outcome, Recorder]) -> None:
    out, outcome, _ = finished
    logging_ms = sum(each["ms"] for each in events(out, "span") if each["phase"] == "logging")
    rows_ms = sum(each["ms"] for each in events(out, "step"))
    assert outcome.logging == pytest.approx(logging_ms / rows_ms, rel=0.01)
    assert outcome.logging > 0


def test_where_nobody_saves_no_state_is_put_together(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That takes longer than the smallest steps, and grows with the losses since the last evaluation."""
    asked: list[int] = []
    monkeypatch.setattr(Loop, "_state", lambda _, step: asked.append(step) or {})
    run(corpus, tmp_path / "out", save_interval=-1, max_iters=12, eval_interval=6)
    assert set(asked) <= {6, 12, 13}  # at evaluations and at the end, where it does not matter


def test_the_analyst_reads_the_same_wall_clock(finished: tuple[Path, Outcome, Recorder]) -> None:
    out, outcome, _ = finished
    diagnosis = diagnose(open_run(out / "ledger.jsonl"))
    assert diagnosis.wall.total_s == pytest.approx(outcome.wall_ms / 1000, rel=1e-3)
    assert (diagnosis.wall.unknown_s or 0.0) < 0.01 * diagnosis.wall.total_s


@pytest.mark.parametrize("at", [3, 5, 11])
def test_a_resumed_run_is_the_same_run(corpus: Path, tmp_path: Path, at: int) -> None:
    """Bit by bit: losses, evaluations, weights, averages, although dropout keeps drawing numbers."""
    _, whole = run(corpus, tmp_path / "whole")
    stopped, before = run(corpus, tmp_path / "cut", Stopping(at))
    assert stopped.reason == "interrupted"
    assert stopped.iteration == at + 1
    ended, after = resume(tmp_path / "cut")
    assert (ended.reason, ended.iteration) == ("finished", 21)
    assert {**before.losses, **after.losses} == whole.losses
    there = {each.iteration: (each.val, each.train, each.change) for each in whole.all("eval")}
    here = {each.iteration: (each.val, each.train, each.change) for each in before.all("eval") + after.all("eval")}
    assert here == there
    a, b = (files(tmp_path / name / "checkpoints" / "step-00000021") for name in ("whole", "cut"))
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert [each["iteration"] for each in events(tmp_path / "cut", "resume")] == [at + 1]


def test_a_seed_decides_everything(corpus: Path, tmp_path: Path) -> None:
    _, a = run(corpus, tmp_path / "a")
    _, b = run(corpus, tmp_path / "b")
    _, c = run(corpus, tmp_path / "c", seed=2)
    assert a.losses == b.losses
    assert a.losses != c.losses


def test_accumulation_is_one_large_batch(corpus: Path, tmp_path: Path) -> None:
    """Loss and gradient are means over micro-batches: the split changes nothing but rounding."""
    _, parts = run(corpus, tmp_path / "parts", dropout=0.0, batch_size=2, gradient_accumulation_steps=4)
    _, whole = run(corpus, tmp_path / "whole", dropout=0.0, batch_size=8, gradient_accumulation_steps=1)
    assert list(parts.losses.values()) == pytest.approx(list(whole.losses.values()), abs=2e-3)


def test_more_steps_after_the_end(finished: tuple[Path, Outcome, Recorder]) -> None:
    out, *_ = finished
    with pytest.raises(UsageError, match="finished after 21 steps; raise --max_iters"):
        resume(out)
    outcome, told = resume(out, max_iters=25)
    assert outcome.iteration == 26
    assert list(told.losses) == [21, 22, 23, 24, 25]


def test_nothing_is_lost_by_a_second_run(finished: tuple[Path, Outcome, Recorder], corpus: Path) -> None:
    out, *_ = finished
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match="already holds a run; --init_from=resume continues it"):
        run(corpus, out)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    outcome, _ = run(corpus, out, overwrite=True, max_iters=5, keep_last=1)
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["step-00000005", "step-00000006"]
    assert outcome.iteration == 6
    assert len(events(out, "run")) == 1


def test_a_checkpoint_only_for_a_new_best(corpus: Path, tmp_path: Path) -> None:
    _, told = run(corpus, tmp_path / "out", always_save_checkpoint=False, learning_rate=0.0, min_lr=0.0)
    first, *_ = told.all("eval")
    saved, _ = newest_intact(tmp_path / "out")
    assert saved.best == (0, first.val)
    assert [each.iteration for each in told.all("checkpoint")] == [21]  # the end is saved whatever comes


def test_the_save_interval_is_its_own(corpus: Path, tmp_path: Path) -> None:
    _, told = run(corpus, tmp_path / "out", save_interval=4, keep_last=9)
    assert [each.iteration for each in told.all("checkpoint")] == [4, 8, 12, 16, 20, 21]


def test_evaluate_and_leave(corpus: Path, tmp_path: Path) -> None:
    outcome, told = run(corpus, tmp_path / "out", eval_only=True, eval_train="steps")
    assert (outcome.reason, outcome.iteration, outcome.checkpoint) == ("finished", 0, None)
    (report,) = told.all("eval")
    assert report.train == pytest.approx(report.val, abs=0.1)  # as in nanoGPT: there are no steps to report
    assert report.train_steps is None
    assert not told.all("step")


def test_a_run_that_is_evaluated_later_tells_of_no_steps(finished: tuple[Path, Outcome, Recorder]) -> None:
    out, _, before = finished
    _, told = resume(out, eval_only=True, max_iters=21, eval_interval=21)
    (report,) = told.all("eval")
    assert report.train_steps is None
    assert report.train < before.all("eval")[0].val


def test_a_rate_that_never_changes_and_nothing_clipped(corpus: Path, tmp_path: Path) -> None:
    _, told = run(corpus, tmp_path / "out", decay_lr=False, grad_clip=0.0, max_iters=2)
    assert {event.lr for event in told.all("step")} == {1e-2}
    assert all(event.grad_norm > 0 for event in told.all("step"))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(corpus: Path, tmp_path: Path, dtype: str) -> None:
    _, told = run(corpus, tmp_path / "out", dtype=dtype)
    assert told.losses[20] < told.losses[0] - 1


def test_windows_at_documents(corpus: Path, tmp_path: Path) -> None:
    _, told = run(corpus, tmp_path / "out", documents=True)
    assert told.losses[20] < told.losses[0] - 1


def test_finetuning_takes_the_weights_and_begins_at_zero(
    finished: tuple[Path, Outcome, Recorder], corpus: Path, tmp_path: Path
) -> None:
    out, _, before = finished
    outcome, told = run(corpus, tmp_path / "fine", init_from=str(out), learning_rate=0.0, min_lr=0.0, max_iters=0)
    assert outcome.iteration == 1
    assert told.all("eval")[0].val == pytest.approx(before.all("eval")[-1].val, abs=0.1)


def test_a_shorter_context_may_be_asked_of_weights(
    finished: tuple[Path, Outcome, Recorder], corpus: Path, tmp_path: Path
) -> None:
    out, *_ = finished
    _, told = run(corpus, tmp_path / "fine", init_from=str(out), block_size=8, max_iters=0)
    assert told.all("eval")[0].val < 4
    with pytest.raises(ConfigError, match=r"n_layer is 2 in .* and cannot be 3"):
        run(corpus, tmp_path / "deeper", init_from=str(out), n_layer=3)
    assert not (tmp_path / "deeper").exists()


def test_a_resumed_run_that_could_save_nothing_says_so(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nanopace.train.checkpoint import saver as checkpoint

    run(corpus, tmp_path / "out")

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_checkpoint", full)
    outcome, _ = resume(tmp_path / "out", max_iters=30)
    assert (outcome.reason, outcome.checkpoint) == ("error", str(tmp_path / "out" / "checkpoints" / "step-00000021"))
    assert "No space left on device" in str(outcome.failure)


@pytest.mark.parametrize(
    ("knobs", "says"),
    [
        ({"init_from": "nowhere/at/all"}, "--init_from=nowhere/at/all"),
        ({"init_from": "resume"}, "no checkpoint to resume from"),
        ({"device": "cuda"}, "torch finds no CUDA card here"),
        ({"device": "gpu"}, "--device=gpu: unknown device"),
        ({"dataset": "no-such-data"}, "no-such-data"),
        ({"vocab_size": 100}, "vocab_size must be at least 257"),
        ({"block_size": 2000}, "2000|2001"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(
    corpus: Path, tmp_path: Path, knobs: dict[str, Value], says: str
) -> None:
    if torch.cuda.is_available() and knobs.get("device") == "cuda":
        pytest.skip("this machine has a card")
    with pytest.raises(NanopaceError, match=says):
        run(corpus, tmp_path / "out", **knobs)
    assert not (tmp_path / "out").exists()


def test_a_run_goes_on_with_its_own_data_and_shape(finished: tuple[Path, Outcome, Recorder], tmp_path: Path) -> None:
    out, *_ = finished
    other = write_corpus(tmp_path / "other", seed=1)
    with pytest.raises(InputError, match=r"is not the data that .* was trained on"):
        resume(out, dataset=str(other), max_iters=30)
    with pytest.raises(ConfigError, match="n_embd cannot change when a run is resumed: it is 16, not 32"):
        resume(out, n_embd=32, max_iters=30)


@pytest.mark.parametrize("name", ["validation", "best", "recent", "random"])
def test_a_state_written_by_hand_is_refused(
    finished: tuple[Path, Outcome, Recorder], tmp_path: Path, name: str
) -> None:
    shutil.copytree(finished[0], tmp_path / "copy")
    for directory in checkpoint_directories(tmp_path / "copy"):
        path = directory / "state.json"
        state = {**json.loads(path.read_text()), name: 5}
        state.pop("checksum")
        path.write_text(json.dumps({**state, "checksum": checksum_of(state)}))
    _, refused = newest_intact(tmp_path / "copy")
    assert len(refused) == len(checkpoint_directories(tmp_path / "copy"))
    expected = f"state.json: is not the state of a checkpoint: its {name} is impossible"
    assert all(expected in str(each) for each in refused)
    with pytest.raises(InputError, match="no checkpoint is intact"):
        resume(tmp_path / "copy", max_iters=30)


def test_the_garbage_collector_stays_out_of_steps(corpus: Path, tmp_path: Path) -> None:
    class Watching(Recorder):
        def step(self, *_: Any) -> None:
            self.said.append(("enabled", gc.isenabled()))

    _, told = run(corpus, tmp_path / "out", Watching())
    assert told.all("enabled") == [False] * 21
    assert gc.isenabled()


@pytest.mark.parametrize("form", ["nanogpt", "huggingface"])
def test_weights_of_others_can_be_the_beginning(
    finished: tuple[Path, Outcome, Recorder], corpus: Path, tmp_path: Path, form: str
) -> None:
    out, _, before = finished
    target = tmp_path / ("ckpt.pt" if form == "nanogpt" else "theirs")
    convert(out, target, to=form, force=False)
    _, told = run(corpus, tmp_path / "fine", init_from=str(target), learning_rate=0.0, min_lr=0.0, max_iters=0)
    _, own = run(corpus, tmp_path / "own", init_from=str(out), learning_rate=0.0, min_lr=0.0, max_iters=0)
    assert told.all("eval")[0].val == own.all("eval")[0].val
    assert told.all("eval")[0].val == pytest.approx(before.all("eval")[-1].val, abs=0.1)
