from __future__ import annotations

import pytest
import torch

from nanopace.train.kernels.rows import stages_of


@pytest.mark.parametrize(
    ("width", "count", "stages"),
    [(768, 5, 4), (1600, 5, 4), (4096, 3, 4), (4096, 5, 3), (8192, 5, 2), (65536, 2, 1)],
)
def test_of_wide_rows_fewer_are_on_their_way(width: int, count: int, stages: int) -> None:
    row = torch.empty(0, dtype=torch.bfloat16)
    assert stages_of(width, *[row] * count, None) == stages


def test_wider_numbers_take_more_room() -> None:
    assert stages_of(4096, *[torch.empty(0)] * 5) < stages_of(4096, *[torch.empty(0).bfloat16()] * 5)
