"""Kernel classes for kernels.py: which kernel belongs to which, and the least work that each class has per step.

Products are counted in FLOPs, everything else in bytes: every input is read once, every output written once. Single
numbers per row do not count, nor does rereading what is still in a cache.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

HALF, WHOLE = 2, 4  # bytes of bfloat16 and float32

PRODUCTS, ATTENTION, CROSS_ENTROPY, NORMS = "matrix products", "attention", "cross entropy", "norms"
ACTIVATION, AROUND_ATTENTION, TOKENS = "GELU, ReLU^2", "around attention", "tokens"
UPDATE, REST = "update", "everything else"

# Prefixes of our own kernels' names.
OURS = {
    "_cross_entropy": CROSS_ENTROPY,
    "_norm": NORMS,
    "_attention": ATTENTION,
    "_gelu": ACTIVATION,
    "_relu2": ACTIVATION,
    "_qk_norm_rope": AROUND_ATTENTION,
    "_shift_keys": AROUND_ATTENTION,
    "_without_own": AROUND_ATTENTION,
    "_embed": TOKENS,
    "_add_value_embeddings": TOKENS,
    "_adamw": UPDATE,
    "_muon": UPDATE,
    "_quantize": UPDATE,
    "_checksum": UPDATE,
}
# Parts of other kernels' names. Attention first: some of its kernels are built with cutlass, too.
OTHERS = {
    ATTENTION: ("sdpa", "flash", "fmha", "convert_dq", "dot_do_o"),
    PRODUCTS: ("nvjet", "gemm", "gemv", "cutlass", "cublas", "splitk", "xmma"),
}


class Kernel(NamedTuple):
    name: str
    ms: float


class Work(NamedTuple):
    flops: float = 0.0
    bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Ceilings:
    """A card's ceilings, per second."""

    flops: float
    bytes: float

    def ms(self, work: Work) -> float:
        return 1000 * (work.flops / self.flops + work.bytes / self.bytes)


@dataclass(frozen=True, slots=True)
class Shape:
    """Everything the limits depend on."""

    layers: int
    width: int
    vocabulary: int
    length: int
    batch: int
    seen: int  # distinct tokens in the micro-batch
    has: frozenset[str] = frozenset()  # ingredients of recipe fast; none for GPT-2
    tables: int = 1  # with a row per vocabulary entry, including the head
    valued: int = 0  # layers with value embeddings

    @property
    def rows(self) -> int:
        return self.batch * self.length

    @property
    def stream(self) -> int:
        """Bytes of one row of `width` per token."""
        return self.rows * self.width * HALF


# --- which is of which -----------------------------------------------------------------------------------------------


def class_of(name: str) -> str:
    for begin, kind in OURS.items():
        if name.startswith(begin):
            return kind
    for kind, parts in OTHERS.items():
        if any(part in name.lower() for part in parts):
            return kind
    return REST


def by_class(step: Iterable[Kernel], update: Iterable[Kernel]) -> dict[str, float]:
    """Milliseconds by class. Whatever an update launches counts as the update, including Muon's products."""
    total = dict.fromkeys(
        (PRODUCTS, ATTENTION, CROSS_ENTROPY, NORMS, ACTIVATION, AROUND_ATTENTION, TOKENS, REST, UPDATE), 0.0
    )
    for kernel in step:
        total[class_of(kernel.name)] += kernel.ms
    total[UPDATE] += sum(kernel.ms for kernel in update)
    return total


# --- limits ----------------------------------------------------------------------------------------------------------


def least(shape: Shape) -> dict[str, Work]:
    return {
        PRODUCTS: Work(flops=product_flops(shape)),
        ATTENTION: Work(flops=attention_flops(shape)),
        CROSS_ENTROPY: Work(bytes=cross_entropy_bytes(shape)),
        NORMS: Work(bytes=norm_bytes(shape)),
        ACTIVATION: Work(bytes=activation_bytes(shape)),
        AROUND_ATTENTION: Work(bytes=around_attention_bytes(shape)),
        TOKENS: Work(bytes=token_bytes(shape)),
        REST: Work(),
        UPDATE: Work(update_flops(shape), update_bytes(shape)),
    }


def product_flops(shape: Shape) -> float:
    """Two FLOPs forward and four backward, for each row and weight."""
    return 6 * shape.rows * (12 * shape.layers * shape.width**2 + shape.vocabulary * shape.width)


def attention_flops(shape: Shape) -> float:
    """Two products forward and five backward, which recomputes the scores: memory cannot hold them. Half is masked."""
    return 7 * shape.layers * shape.batch * (2 * shape.length**2 * shape.width) / 2


def cross_entropy_bytes(shape: Shape) -> float:
    """Logits are read, their gradient is written."""
    return 2 * shape.rows * shape.vocabulary * HALF


def norm_bytes(shape: Shape) -> float:
    """Forward, x is read and y written; backward, d_y, y and the residual's gradient are read and d_x written. The last
    norm has no residual."""
    return (2 * (2 * shape.layers + 1) + 4 * 2 * shape.layers + 3) * shape.stream


def activation_bytes(shape: Shape) -> float:
    """Forward one read and one write, backward two reads and one write, four times as wide as the stream."""
    return 5 * 4 * shape.layers * shape.stream


def around_attention_bytes(shape: Shape) -> float:
    """Forward, queries and keys are read and written; backward, so are three gradients, and the norm rereads both.
    Shifted keys are written once more. xsa reads attention's output and the values, and writes one row; backward, it
    also reads and writes a gradient, and writes one of the values, which is read later."""
    if not shape.has:
        return 0.0
    there = 4 if shape.has & {"rope", "qk_norm"} else 0
    back = 6 + (2 if "qk_norm" in shape.has else 0)
    own = 3 + 6 + 1 if "xsa" in shape.has else 0
    shifted = 2 * (shape.layers // 4) if "key_shift" in shape.has else 0
    return ((there + back + own) * shape.layers + shifted) * shape.stream


def token_bytes(shape: Shape) -> float:
    """Forward, rows of the tables are read and x written; backward, d_x is read, also x if a norm follows, and the
    rows' gradients are read and written."""
    table = shape.seen * shape.width * WHOLE
    positions = 0 if "rope" in shape.has else shape.length * shape.width * WHOLE
    # Values are read and written forward, their gradients read backward; the table is read both times, for the gate.
    values = shape.valued * (3 * shape.stream + 4 * table)
    return 3 * (table + positions) + (3 if shape.has else 2) * shape.stream + values


def update_bytes(shape: Shape) -> float:
    """AdamW reads a gradient, a weight and two averages, and writes all four, the gradient as 0; Muon has one average.
    Matrices that are multiplied also get a bfloat16 copy."""
    matrices = 12 * shape.layers * shape.width**2
    table = shape.vocabulary * shape.width
    positions = 0 if "rope" in shape.has else shape.length * shape.width
    of_matrix = 6 if "muon" in shape.has else 8
    numbers = of_matrix * matrices + 8 * (shape.tables * table + positions)
    return numbers * WHOLE + (matrices + table) * HALF


def update_flops(shape: Shape) -> float:
    """Muon's five rounds of three products: 6 C^3 for a matrix of C x C, 18 C^3 for one of C x 4 C."""
    return 5 * shape.layers * (4 * 6 + 2 * 18) * shape.width**3 if "muon" in shape.has else 0.0
