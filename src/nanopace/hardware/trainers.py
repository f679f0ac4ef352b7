"""What makes one trainer faster than another on the same card: launches, memory traffic, and the rate of its products.

The constants of trainers that others wrote are fitted to their published speeds (published.csv), together with the
shares in card_classes.py: `bench/recommend.py --fit` prints them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trainer:
    """Its constants. Bytes are those that a step moves besides the optimizer's, per token."""

    name: str
    layer_bytes: float  # for each layer and channel (n_embd)
    logit_bytes: float = 10.4  # for each entry of the vocabulary: 8.6 of 116 ms of nanoGPT's profile on an H200
    products: float = 1.0  # the rate of its matrix products, relative to nanoGPT's
    launch_s: float = 2.68e-3 / 12  # for each layer of a micro-batch: nanoGPT on an H200, 8 sequences against 64
    host_s: float = 0.0  # the least time for each layer of a micro-batch, because the host launches every kernel


TRAINERS = {
    trainer.name: trainer
    for trainer in (
        Trainer("nanogpt", 129),  # 146 by the profile of an H200
        # Four logs up to May 2024, set apart because they did not fit; an older torch may be why, but nobody checked.
        Trainer("nanogpt_early", 293),
        # 16.6 of 101 ms by its profile on an H200; launches: 8 sequences against 64
        Trainer("nanopace", 97, logit_bytes=6.1, launch_s=1.43e-3 / 12),
        Trainer("llm.c", 105),  # CUDA, with cuDNN's attention
        Trainer("llm.q", 146, products=1.09),  # CUDA
        Trainer("nanochat", 146, products=1.1),  # torch.compile, squared ReLU, Muon
        # torch without flash attention, 512 tokens. One sequence takes 4.3 to 5.7 ms a layer on any card but a V100.
        Trainer("languini", 326, products=0.62, host_s=4.6e-3),
    )
}
FP8_PRODUCTS = 1.44  # how much faster products in 8 bits are than in bf16: LLM.Q and nanochat on seven cards
OPTIMIZER_BYTES = 56  # per weight and step: 28 are read and written, at half the bandwidth (1.5 ms on the H200)
