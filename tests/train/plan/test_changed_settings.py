"""A run that resumes with other settings: where its data continues, and what is reported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from nanopace.corpus.shards.corpus import open_corpus
from nanopace.corpus.shards.order import Order
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import newest_intact
from nanopace.train.loop.batches import Batches

from ..conftest import Recorder
from ..runs import events, resume, run
from ..test_faults import Faulty, nan_loss

EPOCH = 4000 // 16 - 1  # windows of the corpus


class Reading:
    """Records the positions of the windows that steps really received, whatever was gathered ahead."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.positions: list[int] = []
        gathered: dict[Order, list[np.ndarray]] = {}
        real_next, real_starts = Batches.next, Order.starts

        def starts(order: Order, first: int, count: int) -> np.ndarray:
            found = real_starts(order, first, count)
            gathered.setdefault(order, []).append(found)
            return found

        def following(batches: Batches) -> tuple[torch.Tensor, torch.Tensor]:
            tokens = real_next(batches)
            self.positions += gathered[batches.order].pop(0).tolist()
            return tokens

        monkeypatch.setattr(Order, "starts", starts)
        monkeypatch.setattr(Batches, "next", following)


def header(told: Recorder) -> dict[str, str]:
    (intro,) = told.all("started")
    return dict(intro.choices)


def windows_of(out: Path) -> int:
    saved, _ = newest_intact(out)
    return int(saved.state["windows"])


def test_with_another_batch_the_epoch_is_read_to_its_end_and_nothing_twice(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Reading(monkeypatch)
    out = tmp_path / "out"
    run(corpus, out, batch_size=8, gradient_accumulation_steps=1, max_iters=9)
    assert windows_of(out) == 80
    _, told = resume(out, batch_size=16, max_iters=19)
    assert header(told)["data"] == ("batch_size 8 -> 16: the data continues after the 80 windows already read")
    assert windows_of(out) == 240
    _, told = resume(out, batch_size=3, gradient_accumulation_steps=3, max_iters=20)
    assert header(told)["data"] == (
        "batch_size 16 -> 3, gradient_accumulation_steps 1 -> 3: the data continues after the 240 windows already read"
    )
    assert windows_of(out) == len(read.positions) == EPOCH
    epoch = Order(open_corpus(corpus).train, 16, 1337).starts(0, EPOCH)
    assert read.positions == epoch.tolist()
    assert len(set(read.positions)) == EPOCH


def test_with_the_same_settings_nothing_is_said(corpus: Path, tmp_path: Path) -> None:
    run(corpus, tmp_path / "out", max_iters=1)
    _, told = resume(tmp_path / "out", max_iters=1 + 1)
    assert header(told)["changed since the checkpoint"] == "max_iters 1 -> 2"
    assert "data" not in header(told)


def test_what_has_changed_is_said(corpus: Path, tmp_path: Path) -> None:
    run(corpus, tmp_path / "out", max_iters=1)
    knobs: dict[str, Value] = {"learning_rate": 5e-3, "dropout": 0.0, "seed": 7, "max_iters": 3}
    _, told = resume(tmp_path / "out", **knobs)
    said = header(told)
    assert said["data"] == (
        "seed 1337 -> 7: the data continues in another order, and windows of this epoch may come again"
    )
    assert said["changed since the checkpoint"] == "dropout 0.1 -> 0.0, learning_rate 0.01 -> 0.005, max_iters 1 -> 3"
    assert told.all("eval")[0].change is None  # other windows were evaluated before
    assert [each["choices"].get("data") for each in events(tmp_path / "out", "run")] == [None, said["data"]]


def test_going_back_after_faults_counts_the_windows_of_the_checkpoint(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5 steps of 8 windows and 5 of 32; the 11th to 13th fail and are repeated with other windows."""
    run(corpus, tmp_path / "out", max_iters=4)
    Faulty(monkeypatch, nan_loss, (10, 11, 12))
    read = Reading(monkeypatch)
    _, told = resume(tmp_path / "out", batch_size=16, max_iters=14, keep_last=9)
    assert any("back to" in each for each in told.all("note"))
    split = open_corpus(corpus).train
    assert windows_of(tmp_path / "out") == 5 * 8 + 10 * 32
    assert read.positions[: 5 * 32] == Order(split, 16, 1337).starts(5 * 8, 5 * 32).tolist()
    assert read.positions[-5 * 32 :] == Order(split, 16, 1337 + 1).starts(5 * 8 + 5 * 32, 5 * 32).tolist()


def test_ranks_share_what_comes_after_the_windows_that_were_read(corpus: Path) -> None:
    split = open_corpus(corpus).train
    order = Order(split, 16, seed=3)
    expected = np.empty((24, 17), dtype=np.int32)
    split.gather(order.starts(13, 24), 17, expected)
    parts = [
        Batches(split, order, micro_steps=2, batch_size=3, block_size=16, device=torch.device("cpu"), **place)  # type: ignore[arg-type]
        for place in ({"first_window": 13, "part": (rank, 2)} for rank in range(2))
    ]
    found = [part.next()[0].reshape(6, 16) for _ in range(2) for part in parts]
    for part in parts:
        part.close()
    assert torch.cat(found).numpy().tolist() == expected[:, :-1].tolist()
