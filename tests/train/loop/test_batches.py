from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from nanopace.corpus.shards.corpus import Split, open_corpus
from nanopace.corpus.shards.order import Order
from nanopace.train.loop.batches import Batches

CPU = torch.device("cpu")


def batches(
    split: Split, first_window: int = 0, batch_size: int = 4, micro_steps: int = 2, *, beside: bool | None = None
) -> Batches:
    return Batches(
        split,
        Order(split, 16, seed=3),
        micro_steps=micro_steps,
        batch_size=batch_size,
        block_size=16,
        device=CPU,
        first_window=first_window,
        beside=beside,
    )


def test_targets_are_the_inputs_one_further(corpus: Path) -> None:
    with batches(open_corpus(corpus).train) as source:
        inputs, targets = source.next()
    assert inputs.shape == targets.shape == (2, 4, 16)
    assert inputs.dtype == torch.int64
    assert torch.equal(inputs[..., 1:], targets[..., :-1])


@pytest.mark.parametrize("beside", [True, False])
def test_the_plain_way_gives_the_same(corpus: Path, beside: bool) -> None:
    split = open_corpus(corpus).train
    tokens = np.fromfile(corpus / "train-00000.bin", dtype=np.uint16)
    order = Order(split, 16, seed=3)
    with batches(split, beside=beside) as source:
        for step in range(70):  # several epochs
            inputs, targets = source.next()
            starts = order.starts(step * 8, 8)
            plain = np.stack([tokens[at : at + 17] for at in starts]).astype(np.int64).reshape(2, 4, 17)
            assert np.array_equal(inputs.numpy(), plain[..., :-1])
            assert np.array_equal(targets.numpy(), plain[..., 1:])


def test_where_a_run_is_resumed_does_not_matter(corpus: Path) -> None:
    split = open_corpus(corpus).train
    with batches(split) as whole, batches(split, first_window=5 * 8) as later:
        for _ in range(5):
            whole.next()
        for _ in range(3):
            assert torch.equal(whole.next()[0], later.next()[0])


def test_how_a_step_is_divided_does_not_matter(corpus: Path) -> None:
    split = open_corpus(corpus).train
    with batches(split, batch_size=8, micro_steps=1) as one, batches(split, batch_size=2, micro_steps=4) as four:
        assert torch.equal(one.next()[0].view(-1, 16), four.next()[0].view(-1, 16))


@pytest.mark.parametrize("beside", [True, False])
def test_what_was_given_is_not_overwritten(corpus: Path, beside: bool) -> None:
    with batches(open_corpus(corpus).train, beside=beside) as source:
        first, _ = source.next()
        kept = first.clone()
        for _ in range(6):
            source.next()
        assert torch.equal(first, kept)


@pytest.mark.parametrize("beside", [True, False])
def test_trouble_is_raised_where_the_tokens_are_waited_for(corpus: Path, beside: bool) -> None:
    class Broken(Order):
        def starts(self, *_: int) -> np.ndarray:  # type: ignore[type-arg]
            raise OSError("the disk is gone")

    split = open_corpus(corpus).train
    source = Batches(
        split,
        Broken(split, 16, 0),
        micro_steps=1,
        batch_size=1,
        block_size=16,
        device=CPU,
        first_window=0,
        beside=beside,
    )
    with source:
        for _ in range(2):  # instead of waiting forever
            with pytest.raises(OSError, match="the disk is gone"):
                source.next()


def test_a_cpu_has_no_thread_to_wait_for(corpus: Path) -> None:
    """A thread would take time from the step."""
    before = threading.active_count()
    with batches(open_corpus(corpus).train) as source:
        source.next()
        assert threading.active_count() == before
    with batches(open_corpus(corpus).train, beside=True) as source:
        source.next()
        assert threading.active_count() == before + 1
