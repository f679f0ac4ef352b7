"""The GPU memory that a training run needs, and therefore the largest micro-batch that fits.

For nanoGPT's model in bf16 autocast with AdamW, flash attention and no dropout, with B sequences of T tokens:

    16 N              fp32 weights, gradients and AdamW's two averages
    + 2 N_matrices    the bf16 copies of the matrices that autocast keeps during a step
    + B T (36 C L + 6 C)   what the backward pass needs from each layer; the same eager and compiled
    + B T V k         the logits, and what the loss keeps of them
    + workspace       what the libraries use

k was counted from the saved tensors of an eager step (14 bytes per logit), and measured on CUDA for a compiled one: 6,
the logits in bf16 and in float32. nanoGPT's train.py (124M, T = 1024, one H200; 4, 8, 12, 16 and 32 sequences) takes
2.25 GiB + 0.607 GiB per sequence, so 15 fit in 12 GiB. Its model in a bare loop takes 0.417 GiB per sequence, as if k
were 2; nobody trains like that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import ceil

from nanopace.hardware.flops import Size, parameters
from nanopace.memory_ladder import (
    ALL_KEPT,
    averages_bytes,
    host_ladders,
    keeps_gradients,
    kept_numbers,
    on_host,
    useful_steps,
)

GIB = 1 << 30

_WORKSPACE = GIB // 6  # what the measured 2.25 GiB holds in addition to weights and optimizer
_BYTES_PER_LOGIT_COMPILED = 6  # train.py; 2 in a bare loop (docs/experiments/memory.md)
_BYTES_PER_LOGIT_EAGER = 14
_HEADROOM = 0.05  # for fragmentation, and whatever else is on the card
_LITTLE_HEADROOM = 0.02  # where the next memory step is tried if this one fails
_OF_CUDA = GIB // 2  # on an H200, with our kernels and the libraries loaded; cards with fewer SMs need less


def peak_bytes(size: Size, batch_size: int, *, compiled: bool = True, single: bool = False) -> int:
    """Peak memory of a step of nanoGPT's train.py, or of ours without our kernels, with `batch_size` sequences in a
    micro-batch. `single`: in float32, which keeps twice as much of each layer and no copies of the matrices."""
    n_layer, n_embd, vocab_size, block_size = size
    everything = parameters(n_layer, n_embd, vocab_size, block_size)
    matrices = 12 * n_layer * n_embd * n_embd + vocab_size * n_embd
    layers = (36 * n_embd * n_layer + 6 * n_embd) * (2 if single else 1)
    logits = vocab_size * (_BYTES_PER_LOGIT_COMPILED if compiled else _BYTES_PER_LOGIT_EAGER)
    copies = 0 if single else 2 * matrices
    return 16 * everything + copies + batch_size * block_size * (layers + logits) + _WORKSPACE


def largest_micro_batch(size: Size, memory_gb: float, compiled: bool = True, *, single: bool = False) -> int:
    """How many sequences fit on a card with nanoGPT's train.py, with a little headroom; 0 if the model alone is too
    large.

    A card's "GB" are GiB: a 12 GB card reports 12,282 MiB.
    """
    empty = peak_bytes(size, 0, compiled=compiled, single=single)
    each = peak_bytes(size, 1, compiled=compiled, single=single) - empty
    return max(0, int((memory_gb * GIB * (1 - _HEADROOM) - empty) // each))


# --- our own passes (train/fused) ------------------------------------------------------------------------------------

_MOST_LOGITS = 800 << 20  # bytes: all of 8 GPT-2 sequences; splitting them in two cost 0.5% of a micro-step's speed
_OWN_WORKSPACE = GIB // 8
_MOST_SEQUENCES = 4096  # more than anyone asks for
HOST_PIECE = 1 << 22  # numbers of a tensor that come from the host's memory at once: 16 MiB, for a bus's full rate
HOST_SLOTS = 3  # on the card: one piece arrives, one is computed with, one leaves


def fused_peak_bytes(
    size: Size, batch_size: int, steps: Collection[str] = (), *, recipe: str = "gpt2", fp8: bool = False
) -> int:
    """Peak memory of a step of our trainer, after some steps of the memory ladder.

        18 N + 4 V C           weights, gradients and averages; matrices in bfloat16; the head's gradient
        - 4 N                  averages in bfloat16
        - 4 (N - 12 C^2 - (V + T) C)   gradients of one layer at a time, and of the tables
        + 2 B T C k L          what is kept of each layer: k is 14, 10, 6 or 2
        + 2 B T C (3 to 18)    temporary values: at the head, or in the last layer's backward pass
        + 18 C^2 L + 2 V C     matrices after norms in 8 bits, twice, the MLP's second once, and gradients in 8 bits, if
                               fp8 is on

    With the host's memory, gradients and the matrices in bfloat16 are left, and the slots through which all else
    passes: 72 C^2 L + 10 (N - 12 C^2 L) + 4 V C; of gradients, matrices and activations that are there as well, a few
    layers.

    Recipe fast has two more tables, which are not multiplied, and one average less per matrix. The gradient of its head
    is stored where its table's is.
    """
    n_layer, n_embd, vocab_size, block_size = size
    stream = 2 * batch_size * block_size * n_embd  # the residual stream once
    table = vocab_size * n_embd
    matrices = 12 * n_layer * n_embd**2
    if recipe == "fast":
        state = 14 * matrices + (18 + 2 * 16) * table
        if on_host(steps):
            state = _layers_on_card(n_layer, n_embd, steps) + (10 + 2 * 8) * table
            state += HOST_SLOTS * max((8 + _streamed(steps)) * 4 * n_embd**2, 8 * min(HOST_PIECE, table))
        beside = 1 + n_layer // 4  # the embedding, whose norm has a backward pass, and shifted keys
        more = 2  # attention's output without the own value, and the gradient of that
    else:
        everything = parameters(n_layer, n_embd, vocab_size, block_size)
        state = (10 + 2 * averages_bytes(steps)) * everything + 4 * table
        if not keeps_gradients(steps):
            state -= 4 * (everything - 12 * n_embd**2 - (vocab_size + block_size) * n_embd)
        if on_host(steps):
            state = _layers_on_card(n_layer, n_embd, steps) + 10 * (everything - matrices) + 4 * table
            updated = (12 + _streamed(steps)) * min(HOST_PIECE, 4 * n_embd**2)
            unfolded = (8 if "host_gradients" in steps else 4) * 4 * n_embd**2  # whole matrices
            state += HOST_SLOTS * max(updated, unfolded, 8 * min(HOST_PIECE, table))
        beside = more = 0
    kept = kept_numbers(steps, recipe)
    again = ALL_KEPT - kept  # what the last layer recomputes exists during its backward pass
    logits = rows_at_a_time(batch_size * block_size, vocab_size) * vocab_size
    at_the_head, going_back = 3 * stream + 2 * logits, (6 + more + min(again, 8)) * stream
    if fp8:  # as if fp8 sped up all products after norms
        state += 18 * n_layer * n_embd**2 + 2 * table
        at_the_head += stream // 2 + logits
        going_back += stream // 2 + 2 * stream  # the stream's gradient and that into the MLP in 8 bits
    layers = min(n_layer, HOST_SLOTS) if "host_activations" in steps else n_layer
    return state + (layers * kept + beside) * stream + max(at_the_head, going_back) + _OWN_WORKSPACE


def _streamed(steps: Collection[str]) -> int:
    """Bytes per weight of a matrix that an update brings and takes, in addition to the weight and its averages."""
    return 4 * ("host_gradients" in steps) + 2 * ("host_weights" in steps)


def _layers_on_card(n_layer: int, n_embd: int, steps: Collection[str]) -> int:
    """Bytes of the layers' matrices in bfloat16 and of their gradients, of which only a few layers may be there."""
    gradients = HOST_SLOTS if "host_gradients" in steps else n_layer
    weights = HOST_SLOTS - 1 if "host_weights" in steps else n_layer
    return 12 * n_embd**2 * (4 * gradients + 2 * weights)


def host_bytes(size: Size, batch_size: int, steps: Collection[str], *, recipe: str = "gpt2", muon: bool = True) -> int:
    """Host memory of a run with these memory steps: three float32 numbers per weight of a matrix, two with Muon, and
    two per weight of a table; gradients, matrices in bfloat16 and activations where they are there. `muon`: whether
    recipe fast has it."""
    if not on_host(steps):
        return 0
    n_layer, n_embd, vocab_size, block_size = size
    per_matrix, tables = 8 if recipe == "fast" and muon else 12, 3 if recipe == "fast" else 1
    averages = 8 * (tables * vocab_size + (block_size if recipe == "gpt2" else 0)) * n_embd
    activations = 2 * 2 * batch_size * block_size * n_embd * n_layer if "host_activations" in steps else 0
    matrices = (per_matrix + _streamed(steps)) * 12 * n_layer * n_embd**2
    return matrices + averages + activations + 2 * 4 * HOST_PIECE


def rows_at_a_time(rows: int, vocab_size: int, bytes_per_logit: int = 2) -> int:
    """For how many tokens the head computes logits at once: all, or equal parts, each a multiple of 128."""
    pieces = max(1, ceil(rows * vocab_size * bytes_per_logit / _MOST_LOGITS))
    return min(rows, ceil(rows / pieces / 128) * 128)


def usable_bytes(memory_gb: float) -> float:
    """The memory that a run of ours can use on a card: CUDA takes some, and a little is lost to fragmentation."""
    return (memory_gb * GIB - _OF_CUDA) * (1 - _LITTLE_HEADROOM)


def fits(
    size: Size, batch_size: int, memory_gb: float, steps: Collection[str], *, recipe: str = "gpt2", fp8: bool = False
) -> bool:
    """Whether so many sequences fit on a card with these memory steps."""
    return fused_peak_bytes(size, batch_size, steps, recipe=recipe, fp8=fp8) <= usable_bytes(memory_gb)


def climb(
    size: Size, batch_size: int, memory_gb: float, *, recipe: str = "gpt2", fp8: bool = False, single: bool = False
) -> tuple[str, ...]:
    """As many memory steps as it takes to fit. If none suffice, all those that work with smaller micro-batches; if even
    one sequence is too many, those that use the host's memory."""
    steps = useful_steps(recipe, single=single)
    for count in range(len(steps) + 1):
        if fits(size, batch_size, memory_gb, steps[:count], recipe=recipe, fp8=fp8):
            return steps[:count]
    if fits(size, 1, memory_gb, useful_steps(recipe), recipe=recipe, fp8=fp8):
        return useful_steps(recipe)
    return climb_with_host(size, batch_size, memory_gb, recipe=recipe, fp8=fp8)


def climb_with_host(
    size: Size, batch_size: int, memory_gb: float, *, recipe: str = "gpt2", fp8: bool = False
) -> tuple[str, ...]:
    """As many memory steps with the host's memory as it takes to fit. Where averages and matrices are enough, smaller
    micro-batches come before more of it: everything else passes the bus with every micro-batch."""
    ladders = host_ladders(recipe, fp8=fp8)
    last = max(number for number, steps in enumerate(ladders) if steps[-1] == "host")  # which recomputes all it can

    def fitting(count: int, some: Sequence[tuple[str, ...]]) -> tuple[str, ...] | None:
        return next((steps for steps in some if fits(size, count, memory_gb, steps, recipe=recipe, fp8=fp8)), None)

    found = fitting(batch_size, ladders[: last + 1]) or fitting(1, ladders[last : last + 1])
    return found or fitting(batch_size, ladders[last + 1 :]) or ladders[-1]


def largest_fused_micro_batch(
    size: Size, memory_gb: float, steps: Collection[str] = (), *, recipe: str = "gpt2", fp8: bool = False
) -> int:
    """How many sequences fit with these memory steps. Found by bisection: the peak is not quite linear in them."""
    low, high = 0, _MOST_SEQUENCES
    while low < high:
        middle = (low + high + 1) // 2
        enough = fits(size, middle, memory_gb, steps, recipe=recipe, fp8=fp8)
        low, high = (middle, high) if enough else (low, middle - 1)
    return low
