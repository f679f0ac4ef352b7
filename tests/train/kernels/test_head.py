from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from nanopace.hardware import memory
from nanopace.train.kernels import head
from nanopace.train.kernels.head import head_gradients, head_losses, plain_head_loss

from .conftest import LIMITS, Draw, error

WIDTH = 24
SHARE = 0.25


def drawn_targets(rows: int, vocabulary: int, device: torch.device) -> Tensor:
    return torch.randint(0, vocabulary, (rows,), generator=torch.Generator().manual_seed(2)).to(device)


def kernel(x: Tensor, weight: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The loss and `SHARE` of its gradients."""
    gradient = torch.zeros_like(weight, dtype=torch.float32)
    loss, d_x = head_gradients(x, weight, gradient, targets, SHARE)
    return loss, d_x, gradient


def twin(x: Tensor, weight: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    leaves = [each.float().clone().requires_grad_() for each in (x, weight)]
    loss = plain_head_loss(*leaves, targets)
    (loss * SHARE).backward()
    assert leaves[0].grad is not None
    assert leaves[1].grad is not None
    return loss.detach(), leaves[0].grad, leaves[1].grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("vocabulary", [70, 20000])  # less than a block, and more than two
def test_it_is_its_twin(draw: Draw, device: torch.device, dtype: torch.dtype, vocabulary: int) -> None:
    x, weight = draw(9, WIDTH, dtype=dtype), draw(vocabulary, WIDTH, dtype=dtype)
    targets = drawn_targets(9, vocabulary, device)
    targets[3], targets[5], targets[0] = -1, vocabulary - 1, 0
    loss, *gradients = kernel(x, weight, targets)
    expected, *slopes = twin(x, weight, targets)
    torch.testing.assert_close(loss, expected, rtol=1e-5 if dtype == torch.float32 else 1e-2, atol=0)
    limit = 2 * LIMITS[dtype]  # logits are rounded, and so are their gradients
    assert [error(*each) < limit for each in zip(gradients, slopes, strict=True)] == [True, True]
    assert gradients[0].dtype == dtype
    assert gradients[0][3].count_nonzero() == 0  # its target is left out


def test_the_weight_s_gradient_is_added_to(draw: Draw, device: torch.device) -> None:
    x, weight, targets = draw(5, WIDTH), draw(70, WIDTH), drawn_targets(5, 70, device)
    before = draw(70, WIDTH)
    gradient = before.clone()
    head_gradients(x, weight, gradient, targets, SHARE)
    assert error(gradient, before + twin(x, weight, targets)[2]) < 1e-6


def test_the_loss_of_each_token(draw: Draw, device: torch.device) -> None:
    x, weight, targets = draw(5, WIDTH), draw(70, WIDTH), drawn_targets(5, 70, device)
    targets[2] = -1
    expected = functional.cross_entropy(x @ weight.t(), targets, ignore_index=-1, reduction="none")
    torch.testing.assert_close(head_losses(x, weight, targets), expected)


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")  # that is the mean of nothing
def test_where_nothing_is_asked_for_there_is_no_loss(draw: Draw, device: torch.device) -> None:
    """As in torch: the mean of nothing is NaN, and has no gradient."""
    x, weight = draw(3, WIDTH), draw(70, WIDTH)
    targets = torch.full((3,), -1, device=device)
    loss, *gradients = kernel(x, weight, targets)
    expected, *slopes = twin(x, weight, targets)
    assert loss.isnan()
    assert expected.isnan()
    for gradient, slope in zip(gradients, slopes, strict=True):
        torch.testing.assert_close(gradient, slope, equal_nan=True)


@pytest.mark.parametrize("vocabulary", [70, 20000])
def test_huge_logits_stay_finite(draw: Draw, device: torch.device, vocabulary: int) -> None:
    """Rows in which one logit is far above all others, all are far below 0, or the target is."""
    weight = draw(vocabulary, WIDTH, scale=1e-3)
    x = torch.zeros(4, WIDTH, device=device)
    x[0, 0], x[1, 1], x[2, 2], x[3, 3] = 1.0, 1.0, 1.0, 1e-3
    weight[:, 0], weight[5, 0] = 0.0, 1e4
    weight[:, 1] = -1e4
    weight[:, 2], weight[7, 2] = 1e4, -1e4
    targets = torch.tensor([5, 5, 7, vocabulary - 1], device=device)
    loss, *gradients = kernel(x, weight, targets)
    expected, *slopes = twin(x, weight, targets)
    torch.testing.assert_close(loss, expected)
    for gradient, slope in zip(gradients, slopes, strict=True):
        assert torch.isfinite(gradient).all()
        assert error(gradient, slope) < 1e-3  # a logit of 1e4 is known to a thousandth


def test_pieces_give_what_the_whole_gives(draw: Draw, device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, targets = draw(7, WIDTH), draw(70, WIDTH), drawn_targets(7, 70, device)
    targets[6] = -1
    whole = kernel(x, weight, targets)
    for cuts in ((0, 4, 7), (0, 3, 6, 7)):
        pieces = [slice(*each) for each in pairwise(cuts)]
        monkeypatch.setattr(head, "_chunks", lambda *_, pieces=pieces: pieces)
        for part, all_at_once in zip(kernel(x, weight, targets), whole, strict=True):
            torch.testing.assert_close(part, all_at_once)
        torch.testing.assert_close(head_losses(x, weight, targets).sum() / 6, whole[0])


@pytest.mark.parametrize("rows", [1, 127, 128, 129, 1000, 8192])
@pytest.mark.parametrize("kilobytes", [100, 513, 1 << 20])
def test_pieces_are_even_and_leave_out_nothing(rows: int, kilobytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_MOST_LOGITS", kilobytes << 10)
    x, weight = torch.empty(rows, 1, dtype=torch.bfloat16), torch.empty(300, 1, dtype=torch.bfloat16)
    pieces = head._chunks(x, weight)
    assert torch.equal(torch.cat([torch.arange(rows)[piece] for piece in pieces]), torch.arange(rows))
    sizes = [piece.stop - piece.start for piece in pieces]
    assert len(set(sizes[:-1])) <= 1
    assert max(sizes) * 300 * 2 <= (kilobytes << 10) + 127 * 300 * 2  # whole tiles of rows
    if rows * 300 * 2 <= kilobytes << 10:
        assert len(pieces) == 1
