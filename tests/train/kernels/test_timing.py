from __future__ import annotations

import time

import pytest
import torch

from nanopace.train.kernels.timing import seconds_of


def test_so_many_calls_in_a_row() -> None:
    calls = []

    def do() -> None:
        calls.append(time.sleep(0.002))

    assert 5 * 0.002 <= seconds_of(do, 5, torch.device("cpu")) < 5
    assert len(calls) == 5


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA card")
def test_a_graph_shows_the_card_and_not_the_host() -> None:
    from nanopace.train.kernels.timing import card_ms

    card = torch.device("cuda", 0)
    small, large = (torch.randn((side, side), device=card).bfloat16() for side in (64, 8192))
    assert card_ms(lambda: small @ small, card, calls=10) < 0.02  # which takes the host longer to launch
    ms = card_ms(lambda: large @ large, card, calls=4)
    assert seconds_of(lambda: large @ large, 20, card) / 20 * 1000 == pytest.approx(ms, rel=0.3)
