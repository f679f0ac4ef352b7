"""The classes of kernels.py: which kernel is of which, and the work that each has at least in a step.

What multiplies is counted in FLOPs, what only reads and writes in bytes: every input read once, every output written
once. Single numbers of a row do not count, nor does what is read again while a cache holds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

HALF, WHOLE = 2, 4  # bytes of bfloat16 and float32

PRODUCTS, ATTENTION, CROSS_ENTROPY, NORMS = "matrix products", "attention", "cross entropy", "norms"
ACTIVATION, QUERIES_AND_KEYS, TOKENS = "GELU, ReLU^2", "queries and keys", "tokens"
UPDATE, REST = "update", "everything else"

# How the names of our own kernels begin.
OURS = {
    "_cross_entropy": CROSS_ENTROPY,
    "_norm": NORMS,
    "_gelu": ACTIVATION,
    "_relu2": ACTIVATION,
    "_qk_norm_rope": QUERIES_AND_KEYS,
    "_embed": TOKENS,
    "_add_value_embeddings": TOKENS,
    "_adamw": UPDATE,
    "_muon": UPDATE,
}
# What others' have in theirs. Attention first: some of its kernels are built with cutlass, too.
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
    """Of a card, in a second."""

    flops: float
    bytes: float

    def ms(self, work: Work) -> float:
        return 1000 * (work.flops / self.flops + work.bytes / self.bytes)


@dataclass(frozen=True, slots=True)
class Shape:
    """All that the limits depend on."""

    layers: int
    width: int
    vocabulary: int
    length: int
    batch: int
    seen: int  # different tokens in the micro-batch
    has: frozenset[str] = frozenset()  # ingredients of the recipe fast; none: GPT-2
    tables: int = 1  # of the vocabulary's length, the head among them
    valued: int = 0  # layers whose values get a row of a table

    @property
    def rows(self) -> int:
        return self.batch * self.length

    @property
    def stream(self) -> int:
        """Bytes of a row of `width` for each token."""
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
    """In ms. Whatever an update launches is the update's, the products of Muon too."""
    total = dict.fromkeys(
        (PRODUCTS, ATTENTION, CROSS_ENTROPY, NORMS, ACTIVATION, QUERIES_AND_KEYS, TOKENS, REST, UPDATE), 0.0
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
        QUERIES_AND_KEYS: Work(bytes=qk_bytes(shape)),
        TOKENS: Work(bytes=token_bytes(shape)),
        REST: Work(),
        UPDATE: Work(update_flops(shape), update_bytes(shape)),
    }


def product_flops(shape: Shape) -> float:
    """For each row and each weight two there and four back."""
    return 6 * shape.rows * (12 * shape.layers * shape.width**2 + shape.vocabulary * shape.width)


def attention_flops(shape: Shape) -> float:
    """Two products there and five back, which makes the scores once more: no memory holds them. Half is masked."""
    return 7 * shape.layers * shape.batch * (2 * shape.length**2 * shape.width) / 2


def cross_entropy_bytes(shape: Shape) -> float:
    """Logits read, their gradient written."""
    return 2 * shape.rows * shape.vocabulary * HALF


def norm_bytes(shape: Shape) -> float:
    """There x is read and y written; back d_y, y and what goes past are read and d_x written. Past the last norm goes
    nothing."""
    return (2 * (2 * shape.layers + 1) + 4 * 2 * shape.layers + 3) * shape.stream


def activation_bytes(shape: Shape) -> float:
    """There one read and one written, back two read and one written: four times as wide as the stream."""
    return 5 * 4 * shape.layers * shape.stream


def qk_bytes(shape: Shape) -> float:
    """There queries and keys are read and written; back three gradients, too, and the norm reads both once more."""
    if not shape.has:
        return 0.0
    there = 4 if shape.has & {"rope", "qk_norm"} else 0
    back = 6 + (2 if "qk_norm" in shape.has else 0)
    return (there + back) * shape.layers * shape.stream


def token_bytes(shape: Shape) -> float:
    """There rows of the tables are read and x written; back d_x is read, and x where a norm follows, and the rows'
    gradients are read and written."""
    table = shape.seen * shape.width * WHOLE
    positions = 0 if "rope" in shape.has else shape.length * shape.width * WHOLE
    # Values are read and written there and their gradients read back; the table is read both times, for the gate.
    values = shape.valued * (3 * shape.stream + 4 * table)
    return 3 * (table + positions) + (3 if shape.has else 2) * shape.stream + values


def update_bytes(shape: Shape) -> float:
    """AdamW reads a gradient, a weight and two averages, and writes all four, the gradient as 0; Muon has one average.
    What is multiplied gets a bfloat16 copy, too."""
    matrices = 12 * shape.layers * shape.width**2
    table = shape.vocabulary * shape.width
    positions = 0 if "rope" in shape.has else shape.length * shape.width
    of_matrix = 6 if "muon" in shape.has else 8
    numbers = of_matrix * matrices + 8 * (shape.tables * table + positions)
    return numbers * WHOLE + (matrices + table) * HALF


def update_flops(shape: Shape) -> float:
    """Muon's five rounds of three products: for a matrix of C x C six C^3, for one of C x 4 C eighteen."""
    return 5 * shape.layers * (4 * 6 + 2 * 18) * shape.width**3 if "muon" in shape.has else 0.0
