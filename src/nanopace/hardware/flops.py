"""How many parameters a GPT of nanoGPT's shape has, and what a token costs to train.

Both are nanoGPT's own counts, so that a figure here can be held against the one in a log.
"""

from __future__ import annotations


def parameters(n_layer: int, n_embd: int, vocab_size: int, block_size: int = 0, bias: bool = False) -> int:
    """nanoGPT's "number of parameters": the head is tied to the token table and counts once.

    nanoGPT leaves out the position table in what it prints. Give a `block_size` to count that too.
    """
    matrices = 12 * n_embd * n_embd  # per layer: 3 + 1 for attention, 4 + 4 for the MLP
    norms = 2 * n_embd
    if bias:
        matrices += 9 * n_embd
        norms *= 2
    final_norm = norms // 2
    return n_layer * (matrices + norms) + final_norm + (vocab_size + block_size) * n_embd


def flops_per_token(parameters: float, n_layer: int, n_embd: int, block_size: int, *, causal: bool = False) -> float:
    """Forward and backward, per token: 6 N for the matrices, and 12 L C T for attention (PaLM, appendix B).

    A causal kernel skips the half of attention that is masked. nanoGPT, and whoever compares with it, counts the whole;
    `causal` gives the work that is really done.
    """
    attention = 12 * n_layer * n_embd * block_size
    return 6 * parameters + (attention / 2 if causal else attention)
