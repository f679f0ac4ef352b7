from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from nanopace.corpus.shards.corpus import open_corpus
from nanopace.corpus.shards.order import Order
from nanopace.ledger import EvalEvent
from nanopace.train.loop.evaluate import Estimate, Evaluator
from nanopace.train.models.gpt2 import GPT, ModelShape
from nanopace.train.ranks import Ranks

ALL = 61  # windows of 16 tokens in the 1000 of the validation split, wherever the first one begins
CPU = torch.device("cpu")
SHAPE = ModelShape(n_layer=1, n_head=1, n_embd=8, vocab_size=257, block_size=16)


def evaluator(corpus: Path, losses: object = None, **knobs: object) -> Evaluator:
    settings = {"block_size": 16, "batch_size": 4, "windows": 10, "seed": 1, "device": CPU, **knobs}
    return Evaluator(losses or by_first_token, open_corpus(corpus).val, **settings)  # type: ignore[arg-type]


def by_first_token(tokens: Tensor, targets: Tensor) -> Tensor:
    """A model whose loss on a window is that window's first token."""
    assert tokens.shape == targets.shape == (4, 16)
    return tokens[:, 0].float()


def first_tokens(corpus: Path, count: int) -> np.ndarray:  # type: ignore[type-arg]
    split = open_corpus(corpus).val
    out = np.empty((count, 1), dtype=np.int64)
    split.gather(Order(split, 16, 1).starts(0, count), 1, out)
    return out[:, 0]


def test_the_plain_way_gives_the_same(corpus: Path) -> None:
    """Ten windows in batches of four: the last batch is padded, and the padding does not count."""
    found = evaluator(corpus).evaluate(7)
    values = first_tokens(corpus, 10)
    error = pytest.approx(values.std(ddof=1) / math.sqrt(10))
    assert found == EvalEvent(7, val=values.mean(), val_error=error, windows=10)


def test_ranks_share_every_window(corpus: Path) -> None:
    """Ten windows among three ranks are four each: the last rank wraps around."""
    parts: list[np.ndarray] = []  # type: ignore[type-arg]

    class OneOfThree(Ranks):
        def exchange(self, values: object) -> np.ndarray:  # type: ignore[override,type-arg]
            parts.append(np.asarray(values))
            return np.stack([parts[-1]] * 3)

    for rank in range(3):
        assert evaluator(corpus, ranks=OneOfThree(rank, 3)).evaluate(0).windows == 10
    assert [len(part) for part in parts] == [4, 4, 4]
    tokens = first_tokens(corpus, 10).tolist()
    assert np.concatenate(parts).tolist() == [*tokens, *tokens[:2]]


def test_a_real_model_window_by_window(corpus: Path) -> None:
    torch.manual_seed(0)
    model = GPT(SHAPE).eval()
    with torch.no_grad():
        found = evaluator(corpus, model.sequence_losses).evaluate(0)
        split = open_corpus(corpus).val
        tokens = np.empty((10, 17), dtype=np.int64)
        split.gather(Order(split, 16, 1).starts(0, 10), 17, tokens)
        one_by_one = [float(model(*(torch.from_numpy(each[None]) for each in (w[:-1], w[1:])))) for w in tokens]
    assert found.val == pytest.approx(np.mean(one_by_one), abs=1e-6)


def test_the_same_windows_every_time_and_the_paired_change(corpus: Path) -> None:
    shift = [0.0]
    source = evaluator(corpus, lambda x, y: by_first_token(x, y) + shift[0])
    first = source.evaluate(0)
    shift[0] = -0.5
    second = source.evaluate(0)
    assert second.val == pytest.approx(first.val - 0.5)
    assert second.change == pytest.approx(-0.5)
    assert second.change_error < 1e-6 < second.val_error  # the windows differ, their change does not


def test_as_many_windows_as_the_error_needs(corpus: Path) -> None:
    rough = evaluator(corpus, target_error=8.0).evaluate(0)
    assert rough.val_error <= 8.0
    assert 10 < rough.windows < ALL
    factor = [1.0]
    source = evaluator(corpus, lambda x, y: by_first_token(x, y) * factor[0], target_error=1e-6)
    first = source.evaluate(0)
    assert first.windows == source.windows == ALL  # all that there are
    factor[0] = 2.0  # the change is the first loss, window by window: of all of them
    again = source.evaluate(0)
    assert (again.change, again.change_error) == (first.val, first.val_error)


def test_a_spread_of_a_few_windows_is_not_trusted(corpus: Path) -> None:
    source = evaluator(corpus, lambda *_: torch.ones(4), windows=3, target_error=0.5)
    assert source.evaluate(0).windows == 16


def test_bits_per_byte(corpus: Path) -> None:
    """A loss of ln 2 per token is one bit per token; with two bytes per token, half a bit per byte."""
    source = evaluator(corpus, lambda *_: torch.full((4,), math.log(2)), token_bytes=np.full(257, 2, dtype=np.int32))
    assert source.evaluate(0).bits_per_byte == pytest.approx(0.5)


def test_it_remembers_across_a_resume(corpus: Path) -> None:
    before = evaluator(corpus, target_error=8.0)
    first = before.evaluate(0)
    after = evaluator(corpus, target_error=8.0)
    after.restore(before.state())
    assert after.windows == before.windows
    assert after.state() == before.state()
    second = after.evaluate(0)
    assert (second.change, second.windows) == (0.0, first.windows)


def test_more_windows_than_there_are(corpus: Path) -> None:
    assert evaluator(corpus, windows=10_000).evaluate(0).windows == ALL


def test_one_window_has_no_error() -> None:
    assert Estimate.of(np.array([1.0])).error == math.inf
