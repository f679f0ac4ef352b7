from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nanopace.train.kernels.adamw import adamw, plain_adamw

from .conftest import Draw, error

SIZE = 1300  # more than one block, with a partial one
RATE, DECAY, BETAS = 1e-2, 0.1, (0.9, 0.95)


def stepped(
    weight: Tensor, gradient: Tensor, averages: tuple[Tensor, Tensor], step: int, *, inf: float = 0, seed: int = 3
) -> list[Tensor]:
    found = [weight.clone(), *(each.clone() for each in averages)]
    adamw(
        found[0], gradient, found[1], found[2],
        *(torch.tensor(each, device=weight.device) for each in (float(step), inf, RATE)),
        decay=DECAY, betas=BETAS, seed=seed,
    )  # fmt: skip
    return found


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_it_is_its_twin(draw: Draw, step: int) -> None:
    weight, gradient = draw(SIZE), draw(SIZE, scale=1e-2)
    averages = draw(SIZE, dtype=torch.bfloat16, scale=1e-3), draw(SIZE, scale=1e-4).square().bfloat16()
    found = stepped(weight, gradient, averages, step)
    expected = plain_adamw(weight, gradient, *averages, step, RATE, DECAY, BETAS)
    assert found[0].dtype == torch.float32
    assert error(found[0] - weight, expected[0] - weight) < 1e-4
    for rounded, exact in zip(found[1:], expected[1:], strict=True):
        assert rounded.dtype == torch.bfloat16
        assert ((rounded.float() - exact).abs() <= exact.abs() * 2**-7).all()  # the one below it, or the one above


def test_torch_s_own_takes_the_same_first_step(draw: Draw) -> None:
    """From averages of 0, rounding plays no role."""
    weight, gradient = draw(SIZE), draw(SIZE, scale=1e-2)
    nothing = torch.zeros_like(weight, dtype=torch.bfloat16)
    leaf = torch.nn.Parameter(weight.clone())
    leaf.grad = gradient
    torch.optim.AdamW([leaf], lr=RATE, betas=BETAS, weight_decay=DECAY).step()
    torch.testing.assert_close(stepped(weight, gradient, (nothing, nothing), 1)[0], leaf.detach())


def test_a_step_that_is_not_finite_changes_nothing(draw: Draw) -> None:
    weight, gradient = draw(SIZE), torch.full_like(draw(SIZE), float("nan"))
    averages = draw(SIZE, dtype=torch.bfloat16), draw(SIZE, dtype=torch.bfloat16).abs()
    for before, after in zip((weight, *averages), stepped(weight, gradient, averages, 5, inf=1.0), strict=True):
        assert torch.equal(before, after)


def test_small_changes_are_right_in_the_mean(draw: Draw) -> None:
    """Each is a tenth of what bfloat16 can resolve: with rounding to nearest, all would be lost."""
    size = 4000
    average = torch.ones_like(draw(size), dtype=torch.bfloat16)
    gradient = torch.full_like(draw(size), 1 + 10 * 0.1 * 2**-7)  # a tenth of that goes into the average
    found = stepped(draw(size), gradient, (average, average), 5)[1].float()
    assert set(found.unique().tolist()) == {1.0, 1 + 2**-7}
    assert (found.mean().item() - 1) / 2**-7 == pytest.approx(0.1, abs=0.02)  # four standard errors


def test_every_weight_and_step_draws_its_own(draw: Draw) -> None:
    weight, gradient = draw(SIZE), draw(SIZE)
    averages = draw(SIZE, dtype=torch.bfloat16), draw(SIZE).square().bfloat16()
    first = stepped(weight, gradient, averages, 5)[1]
    assert torch.equal(first, stepped(weight, gradient, averages, 5)[1])
    for others in (stepped(weight, gradient, averages, 6), stepped(weight, gradient, averages, 5, seed=3 + (1 << 20))):
        assert 0.1 < (others[1] != first).float().mean().item() < 0.9
