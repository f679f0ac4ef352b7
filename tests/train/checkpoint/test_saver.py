"""The checkpointer alone, with a tiny model and no training: what it copies, writes, keeps and removes."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from nanopace.train.checkpoint import saver as module
from nanopace.train.checkpoint.best import read_best
from nanopace.train.checkpoint.layout import verified
from nanopace.train.checkpoint.lock import Claim
from nanopace.train.checkpoint.saver import SaveResult

from .checkpoints import save
from .saving import Saving, clock, full, promptly, saving, steps
from .test_disk import flip

# --- one save --------------------------------------------------------------------------------------------------------


def test_what_is_saved_is_the_model_at_that_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with saving(tmp_path) as one, clock(monkeypatch, 100.0, 102.5):
        weights = {name: each.detach().clone() for name, each in one.model.named_parameters()}
        one.save(3)
        with torch.no_grad():
            for each in one.model.parameters():
                each.zero_()
        (result,) = one.close()
    path = tmp_path / "checkpoints" / "step-00000003"
    size = sum(each.stat().st_size for each in path.iterdir() if each.name != "state.json")
    assert result == SaveResult(3, path, 2500.0, size)
    found = verified(path)
    assert all(torch.equal(found.weights()[name], each) for name, each in weights.items())
    averages = found.optimizer()
    assert averages["exp_avg.transformer.wte.weight"].count_nonzero() > 0
    assert one.saver.results() == one.saver.notes() == []


def test_a_save_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the one after it succeeds."""
    with saving(tmp_path) as one:
        with clock(monkeypatch, 100.0, 102.5), monkeypatch.context() as patch:
            patch.setattr(module, "write_checkpoint", full)
            one.save(3)
            promptly(one.saver._idle.wait)
        one.save(4)
        failed, saved = one.close()
    assert failed == SaveResult(3, tmp_path / "checkpoints" / "step-00000003", 2500.0, 0, "No space left on device")
    assert (saved.step, saved.failure) == (4, None)
    assert steps(tmp_path) == [4]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (RuntimeError("first line\nsecond line"), "first line"),
        (RecursionError(), "RecursionError"),
    ],
)
def test_a_reason_is_one_line(error: Exception, reason: str) -> None:
    assert module._reason(error) == reason


def test_the_next_save_waits_until_the_memory_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would overwrite what is being written."""
    written, go_on = module.write_checkpoint, threading.Event()

    def slowly(*arguments: Any) -> int:
        go_on.wait(10)
        return written(*arguments)

    monkeypatch.setattr(module, "write_checkpoint", slowly)
    before = set(threading.enumerate())  # another test's may still be ending
    with saving(tmp_path, keep_last=2) as one:
        assert [each.daemon for each in set(threading.enumerate()) - before if each.name == "checkpoints"] == [True]
        one.save(1)
        second = threading.Thread(target=one.save, args=(2,), daemon=True)
        second.start()
        second.join(0.1)
        assert second.is_alive()
        go_on.set()
        promptly(second.join)
        assert [each.step for each in one.close()] == [1, 2]


def test_memory_that_comes_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> None:
        raise RuntimeError("can't allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(module, "TensorFile", none)
        with saving(tmp_path) as one:
            one.save(3)
            promptly(one.saver.close)
            one.saver.retry_last_save()
            path = tmp_path / "checkpoints" / "step-00000003"
            assert one.saver.results() == [SaveResult(3, path, 0.0, 0, "can't allocate memory")] * 2
            patch.undo()
            one.saver.retry_last_save()
            (result,) = one.saver.results()
    assert (result.path, result.failure) == (path, None)
    assert verified(path).step == 3


def test_memory_is_looked_for_at_every_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, "TensorFile", full)
        with saving(tmp_path) as one:
            one.save(3)
            patch.undo()
            one.save(4)
            assert [each.failure for each in one.close()] == ["No space left on device", None]


def test_the_last_save_is_tried_again_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is not a checkpoint in out_dir: nothing is removed for it, and its best is not recorded."""
    with saving(tmp_path / "out") as one:
        one.save(1)
        promptly(one.saver._idle.wait)
        with monkeypatch.context() as patch:
            patch.setattr(module, "write_checkpoint", full)
            one.save(2, best=1.5)
            one.close()
        with clock(monkeypatch, 10.0, 10.25):
            one.saver.retry_last_save(lambda: tmp_path / "rescue")
        (result,) = one.saver.results()
        assert result.background_ms == 250.0
        assert result.path == tmp_path / "rescue" / "checkpoints" / "step-00000002"
        assert verified(result.path).step == 2
        assert (steps(tmp_path / "out"), read_best(tmp_path / "out")) == ([1], None)
        with torch.no_grad():
            one.model.transformer["wte"].weight.fill_(7.0)  # type: ignore[union-attr, operator]
        one.saver.retry_last_save()
        assert [each.failure for each in one.saver.results()] == [None]
    assert verified(tmp_path / "out" / "checkpoints" / "step-00000002").weights()["lm_head.weight"].eq(7.0).all()
    assert (steps(tmp_path / "out"), read_best(tmp_path / "out")) == ([2], (2, 1.5))


def test_the_best_of_another_step_is_not_that_of_the_retry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with saving(tmp_path) as one:
        with monkeypatch.context() as patch:
            patch.setattr(module, "write_checkpoint", full)
            one.save(1, best=1.5)
            one.save(2)
            one.close()
        one.saver.retry_last_save()
        assert (steps(tmp_path), read_best(tmp_path)) == ([2], None)


# --- on a card -------------------------------------------------------------------------------------------------------


class Card:
    """Records the calls to CUDA, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.main = SimpleNamespace(wait_event=lambda event: self.calls.append(f"main waits for {event.name}"))
        side = SimpleNamespace(wait_stream=lambda stream: self.calls.append(f"side waits {stream is self.main}"))
        monkeypatch.setattr(torch.cuda, "Stream", lambda _: side)
        monkeypatch.setattr(torch.cuda, "Event", self.event)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda _: self.main)
        monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext(self.calls.append(f"on {stream is side}")))
        monkeypatch.setattr(torch.cuda, "synchronize", lambda _: self.calls.append("synchronize"))
        stage, write = module.TensorFile.stage, module.write_checkpoint
        monkeypatch.setattr(module.TensorFile, "stage", lambda *a: (self.calls.append("stage"), stage(*a))[1])
        monkeypatch.setattr(module, "write_checkpoint", lambda *a: (self.calls.append("write"), write(*a))[1])

    def event(self, name: str = "copy", *, done: bool = False) -> SimpleNamespace:
        return SimpleNamespace(
            name=name,
            query=lambda: done,
            record=lambda: self.calls.append("record"),
            synchronize=lambda: self.calls.append("wait for the copy"),
        )


def test_a_card_copies_on_a_stream_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch)
    with Claim(tmp_path) as claim:
        one = Saving(claim, device="cuda")
        one.save(1)
        one.close()
        copied = ["side waits True", "on True", "stage", "stage", "record", "wait for the copy", "write"]
        assert card.calls == copied
        assert one.saver.before_update()
        assert not one.saver.before_update()  # it is waited for once
        one.saver.retry_last_save()
        assert card.calls == [*copied, "main waits for copy", "stage", "stage", "synchronize", "write"]


def test_an_update_waits_only_for_a_copy_that_is_not_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch)
    with Claim(tmp_path) as claim:
        one = Saving(claim)
        one.save(1)
        assert not one.saver.before_update()
        one.saver._staged = card.event(done=True)  # type: ignore[assignment]
        assert not one.saver.before_update()
        one.close()
    assert "main waits for copy" not in card.calls


# --- a directory that is another by now ------------------------------------------------------------------------------


def test_what_was_known_is_not_true_of_another_directory(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    claim = SimpleNamespace(run_dir=first, writable_dir=lambda: claim.run_dir)
    one = Saving(claim, keep_last=2)
    one.save(1, best=1.0)
    one.save(2, 3)
    promptly(one.saver._idle.wait)
    assert steps(first) == [1, 2, 3]
    for step in (1, 2, 3):
        save(second, step)
    flip(second, 3)
    claim.run_dir = second
    one.save(4)
    promptly(one.saver._idle.wait)
    assert steps(second) == [2, 3, 4]  # 1 is not the best here, and 3 is damaged
    one.close()


def test_a_directory_that_is_lost_while_old_ones_are_removed(tmp_path: Path) -> None:
    places = iter([tmp_path / "mine"] * 4)
    claim = SimpleNamespace(run_dir=tmp_path / "mine", writable_dir=lambda: next(places, tmp_path / "new"))
    one = Saving(claim)
    one.save(1)  # asks twice: to write, and to prune
    promptly(one.saver._idle.wait)
    one.save(2)  # and now it is lost between the two
    one.close()
    assert steps(tmp_path / "mine") == [1, 2]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    save(tmp_path / "theirs", 1)
    with saving(tmp_path / "out") as one:
        (tmp_path / "out" / "checkpoints").symlink_to(tmp_path / "theirs" / "checkpoints")
        one.save(2)
        (result,) = one.close()
    assert result.failure == "it is a link, and links are not followed here"
    assert steps(tmp_path / "theirs") == [1]
