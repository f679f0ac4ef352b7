"""The parameters of a GPT with nanoGPT's architecture, and the FLOPs to train it on a token.

Both follow nanoGPT's counts, so that figures can be compared with those in a log.
"""

from __future__ import annotations

Size = tuple[int, int, int, int]  # of a model: n_layer, n_embd, vocab_size, block_size


def parameters(n_layer: int, n_embd: int, vocab_size: int, block_size: int = 0, bias: bool = False) -> int:
    """nanoGPT's "number of parameters": the head is tied to the token table and counts once.

    nanoGPT's printed number leaves out the position table. Pass `block_size` to include it.
    """
    matrices = 12 * n_embd * n_embd  # per layer: 3 + 1 for attention, 4 + 4 for the MLP
    norms = 2 * n_embd
    if bias:
        matrices += 9 * n_embd
        norms *= 2
    final_norm = norms // 2
    return n_layer * (matrices + norms) + final_norm + (vocab_size + block_size) * n_embd


def flops_per_token(parameters: float, n_layer: int, n_embd: int, block_size: int, *, causal: bool = False) -> float:
    """Forward and backward FLOPs per token: 6 N for the matrices, and 12 L C T for attention (PaLM, appendix B).

    A causal kernel skips the masked half of attention. nanoGPT counts all of it, and so must any comparison with it;
    `causal` counts the work really done.
    """
    attention = 12 * n_layer * n_embd * block_size
    return 6 * parameters + (attention / 2 if causal else attention)
