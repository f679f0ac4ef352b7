"""Classifies kernels by name: libraries, torch and compilers each have their naming scheme."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

Class = Literal[
    "matrix products",
    "attention",
    "normalisation",
    "loss",
    "optimizer",
    "communication",
    "embedding",
    "reductions",
    "elementwise",
    "copies",
    "other",
]

# The first match counts. A compiled kernel's name lists all that was fused into it, so the most expensive comes first.
_PATTERNS: tuple[tuple[Class, str], ...] = (
    ("communication", r"nccl|all_?reduce|all_?gather|reduce_?scatter"),
    ("attention", r"flash|fmha|attention|attn|sdpa"),
    ("matrix products", r"gemm|gemv|nvjet|cutlass|cublas|xmma|wgmma|\bmm_|_mm\b|matmul|splitk|convolve|scaled_mm"),
    ("optimizer", r"multi_tensor_apply|fused_?adam|\badamw?\b|^_adamw|muon|\blamb\b|\bsgd\b"),
    ("loss", r"cross_entropy|softmax|nll_loss|logsumexp|log_softmax"),
    ("normalisation", r"layer_?norm|GammaBeta|rms_?norm|batch_?norm|group_?norm|_norm_|_norm$|cunn_.*norm"),
    ("embedding", r"embed|index_select|indexing_backward|gather|scatter|index_put|index_elementwise"),
    ("copies", r"^mem(?:cpy|set)|copy_kernel|CatArray|transpose|permute|copy_device"),
    ("reductions", r"reduce_kernel|triton_(?:red|per)_|_reduce|cub::|norm_kernel|LpNorm"),
    ("elementwise", r"elementwise|triton_poi_|gelu|relu|silu|rope|rotary|dropout|distribution|fill|unary|binary|_fold"),
)
_CLASSES = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _PATTERNS)


@cache
def class_of(name: str) -> Class:
    """The class of a kernel, or "other" if its name is not known."""
    short = name[:500]
    return next((each for each, pattern in _CLASSES if pattern.search(short)), "other")
