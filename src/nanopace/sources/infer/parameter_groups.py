"""Derives the model from nanoGPT's two lines about its parameter groups.

    num decayed parameter tensors: 50, with 124,354,560 parameters
    num non-decayed parameter tensors: 25, with 19,200 parameters

The matrices are decayed: 4 per layer, and the tables of tokens (V x C, tied to the head) and positions (T x C). The
vectors are not: without biases, these are 2 norms per layer and a final one, each C wide; with biases, also those of
the norms and of the 4 matrices, which are 3 + 1 + 4 + 1 = 9 C.

    without biases   4 L + 2 matrices   2 L + 1 vectors of (2 L + 1) C
    with biases      4 L + 2 matrices   8 L + 2 vectors of (13 L + 2) C
    matrices         12 L C² + (V + T) C
"""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.sources.infer.vocabulary_of_loss import COMMON

GROUP_FACTS = ("decayed_tensors", "decayed_parameters", "non_decayed_tensors", "non_decayed_parameters")

_GPT2_VOCABULARY = 50257  # unpadded; COMMON has it padded
_CONTEXTS = frozenset(1 << power for power in range(6, 15))
_ROUNDING = 5001  # of the printed millions, which have two decimals


def shape_of_groups(groups: Mapping[str, int]) -> dict[str, int | bool]:
    """n_layer, n_embd and bias; empty if the lines are missing or belong to another model."""
    if any(name not in groups for name in GROUP_FACTS):
        return {}
    matrices, _, vectors, vector_size = (groups[name] for name in GROUP_FACTS)
    layers, rest = divmod(matrices - 2, 4)
    if rest or layers < 1:
        return {}
    for bias, count, width in ((False, 2 * layers + 1, 2 * layers + 1), (True, 8 * layers + 2, 13 * layers + 2)):
        if vectors == count and vector_size % width == 0 and vector_size:
            shape = {"n_layer": layers, "n_embd": vector_size // width, "bias": bias}
            return shape if _tables(groups, shape) > 1 else {}
    return {}


def vocabulary_of_groups(
    groups: Mapping[str, int],
    printed: int | None,
    vocabulary: int | None,
    block: int | None,
) -> tuple[int | None, int | None]:
    """Vocabulary and context. Their sum is exact, so either gives the other. Otherwise, a common vocabulary may fit.

    nanoGPT leaves the positions out of its printed count, so `printed` gives them up to its rounding.
    """
    shape = shape_of_groups(groups)
    both = _tables(groups, shape)
    if block is not None:
        return (both - block if both > block else None), None
    if vocabulary is not None:
        return None, (both - vocabulary if both > vocabulary else None)
    if printed is None:
        return None, None
    total = groups["decayed_parameters"] + groups["non_decayed_parameters"]
    fits = [each for each in COMMON if abs(total - (both - each) * shape["n_embd"] - printed) <= _ROUNDING]
    return (fits[0], both - fits[0]) if len(fits) == 1 else (None, None)


def common_tables(groups: Mapping[str, int]) -> tuple[int, int] | None:
    """A common vocabulary and a context that is a power of two, if exactly one pair has the right sum."""
    both = _tables(groups, shape_of_groups(groups))
    fits = [(each, both - each) for each in (*COMMON, _GPT2_VOCABULARY) if both - each in _CONTEXTS]
    return fits[0] if len(fits) == 1 else None


def _tables(groups: Mapping[str, int], shape: Mapping[str, int | bool]) -> int:
    """Rows of the token and position tables together; 0 if that is not an integer."""
    layers, width = shape["n_layer"], shape["n_embd"]
    rows, rest = divmod(groups["decayed_parameters"] - 12 * layers * width * width, width)
    return 0 if rest else rows
