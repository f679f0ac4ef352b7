"""The kernels of a run, compiled side by side before the first of them is needed.

Triton compiles a kernel when it is launched for the first time: ten of them and more, one after the other, 0.2 to 1 s
each. Here each is called once with a few rows in the host's memory, and the launch is written down instead of made: it
is compiled for types, widths and what sizes are multiples of, not for how many rows there are. Four fifths of compiling
happen outside Python, so that threads do it side by side, while the model is drawn and the data opened.

What was not foreseen is compiled when it is launched, as ever. A test holds what is foreseen against whole passes.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor
from triton.runtime.jit import JITFunction

from nanopace.config import ingredients
from nanopace.train.fast_model import CAP
from nanopace.train.fused import Again
from nanopace.train.kernels.activation import gelu, gelu_backward
from nanopace.train.kernels.adamw import adamw
from nanopace.train.kernels.head import cross_entropy
from nanopace.train.kernels.layer_norm import layer_norm, layer_norm_backward
from nanopace.train.kernels.mixing import Mixing, mix_norm, mix_norm_backward, norm, norm_backward
from nanopace.train.kernels.muon import ahead, subtract
from nanopace.train.kernels.relu2 import relu2, relu2_backward
from nanopace.train.kernels.rotary import turn, turn_backward
from nanopace.train.kernels.start import begin, begin_backward
from nanopace.train.kernels.tokens import embed, embed_backward
from nanopace.train.kernels.values import add_values, add_values_backward
from nanopace.train.model import ModelShape

_MOST_THREADS = 16


class Launch(NamedTuple):
    """A kernel and what it is called with."""

    kernel: Any  # a JITFunction
    arguments: tuple[object, ...]
    options: dict[str, object]


class Building:
    """Kernels that are being compiled by threads of their own."""

    def __init__(self, launches: Iterable[Launch], device: torch.device) -> None:
        self._left = deque(launches)
        count = min(len(self._left), os.cpu_count() or 1, _MOST_THREADS)
        self._threads = [
            threading.Thread(target=self._work, args=(device,), name="kernels", daemon=True) for _ in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def wait(self) -> None:
        """Until all are compiled. Who launches one before that compiles it again."""
        for thread in self._threads:
            thread.join()

    def _work(self, device: torch.device) -> None:
        if device.type == "cuda":
            torch.cuda.set_device(device)  # every thread begins with the first card
        while True:
            try:
                each = self._left.popleft()
            except IndexError:
                return
            with suppress(Exception):  # who launches it will see it, too
                kernel = each.kernel.warmup(*each.arguments, grid=(1,), **each.options)
                if device.type == "cuda":
                    getattr(kernel, "run", None)  # puts it on the card; some versions compile C for that, too


def begin_to_build(shape: ModelShape, batch: int, saving: Collection[str], device: torch.device) -> Building:
    """What `kernels_of` foresees. Nothing is compiled ahead where Triton interprets, or is not as we know it."""
    launches: list[Launch] = []
    if os.environ.get("TRITON_INTERPRET") != "1":
        with suppress(Exception):  # the first launches will compile, then, or say what is wrong
            launches = kernels_of(shape, batch, saving)
    return Building(launches, device)


def kernels_of(shape: ModelShape, batch: int, saving: Collection[str] = ()) -> list[Launch]:
    """All kernels of a run with micro-batches of so many sequences, in about the order of their first launches.
    `saving`: steps of the ladder."""
    rows = _Rows(shape, batch)
    again = Again.after(saving)
    with written_down() as launches:
        if shape.recipe == "gpt2":
            _gpt2(rows, again)
        else:
            _fast(rows, again, ingredients(shape.recipe, shape.without))
        if "averages" in saving:
            _adamw(shape)
    return each_once(launches)


@contextmanager
def written_down() -> Iterator[list[Launch]]:
    """Inside, no kernel is launched by any thread: what it would have been called with is in the list."""
    launches: list[Launch] = []

    def write_down(kernel: Any, *arguments: object, grid: object, warmup: bool, **options: object) -> None:  # noqa: ARG001
        launches.append(Launch(kernel, arguments, options))

    run = JITFunction.run
    JITFunction.run = write_down
    try:
        yield launches
    finally:
        JITFunction.run = run


def each_once(launches: Iterable[Launch]) -> list[Launch]:
    """In their order, without those that are compiled to the same."""
    return list({code_of(each): each for each in launches}.values())


def code_of(launch: Launch) -> tuple[object, ...]:
    """What Triton compiles for: types, whether addresses and sizes are multiples of 16, and all constants."""
    kinds = tuple(
        _kind(each, aligned=not parameter.do_not_specialize_on_alignment)
        for each, parameter in zip(launch.arguments, launch.kernel.params, strict=False)
    )
    return launch.kernel, kinds, tuple(sorted(launch.options.items()))


def _kind(value: object, *, aligned: bool) -> object:
    if isinstance(value, Tensor):
        return value.dtype, aligned and value.data_ptr() % 16 == 0
    if isinstance(value, int):
        return value == 1, value % 16 == 0, value.bit_length() > 31
    return type(value)


class _Rows:
    """Tensors of a micro-batch, as the passes have them but for their length."""

    def __init__(self, shape: ModelShape, batch: int) -> None:
        self.width, self.heads = shape.n_embd, shape.n_head
        self.batch, self.length, self._vocabulary = _few(batch), _few(shape.block_size), _few(shape.vocab_size)
        windows = torch.empty((self.batch, self.length + 1), dtype=torch.int64)
        self.evaluated = windows[:, :-1]
        self.trained = self.evaluated.contiguous()
        self.table = torch.empty(self._vocabulary, self.width)
        self.positions = torch.empty(self.length, self.width)

    def row(self, width: int) -> Tensor:
        """One for each token."""
        return torch.empty((self.batch * self.length, width), dtype=torch.bfloat16)

    def head(self, cap: float | None) -> None:
        targets, logits = self.trained.view(-1), self.row(self._vocabulary)
        losses = torch.empty(len(logits))
        cross_entropy(logits, targets, losses, targets[0], 1.0, cap)
        cross_entropy(logits, targets, losses, None, 0.0, cap)


def _few(count: int) -> int:
    """With the same remainder by 16: that is all of a number that Triton compiles for."""
    return count if count < 16 else 16 + count % 16


def _gpt2(rows: _Rows, again: Again) -> None:
    x, h = rows.row(rows.width), rows.row(4 * rows.width)
    embed(rows.trained, rows.table, rows.positions)
    y, factor = layer_norm(x)
    g = gelu(h)
    rows.head(None)
    layer_norm_backward(x, y, factor, None)
    gelu_backward(h, h, g if again > Again.ACTIVATION else None)
    layer_norm_backward(x, y, factor, x)
    embed_backward(x, rows.trained, rows.table, rows.positions)
    embed(rows.evaluated, rows.table, rows.positions)


def _fast(rows: _Rows, again: Again, has: Collection[str]) -> None:
    width, heads = rows.width, rows.heads
    d_y, h, packed = rows.row(width), rows.row(4 * width), rows.row(3 * width)
    positions = None if "rope" in has else rows.positions
    x, start_factor = begin(rows.trained, rows.table, positions)
    begin(rows.evaluated, rows.table, positions)
    y, factor = norm(x)
    norm_backward(d_y, y, factor, None)
    norm_backward(d_y, y, factor, x)
    d_start = None
    if "embed_skip" in has:
        mixing = Mixing(x, *(torch.empty(1) for _ in range(4)))
        mix_norm(x, mixing, x)
        for d_start in (None, x):
            mix_norm_backward(d_y, y, factor, x, mixing, d_start)
    if "value_embeddings" in has:
        for tokens in (rows.trained, rows.evaluated):
            add_values(packed, tokens, rows.table, torch.empty(heads))
        add_values_backward(packed, rows.trained, rows.table, torch.empty(heads), rows.table, torch.empty(heads))
    half = torch.empty(rows.length, width // heads // 2)
    angles = (half, half) if "rope" in has else None
    factors = turn(packed, rows.batch, heads, angles, normed="qk_norm" in has)
    slope = d_y.view(rows.batch, rows.length, heads, -1).transpose(1, 2)
    turn_backward((slope, slope, slope), packed, factors, angles)
    if "relu2" in has:
        relu2_backward(h, relu2(h))
    else:
        g = gelu(h)
        gelu_backward(h, h, None if again == Again.ACTIVATION else g)
    rows.head(CAP if "soft_cap" in has else None)
    begin_backward(x, d_start, x, start_factor, rows.trained, rows.table, positions)
    if "muon" in has:
        _muon(width, has)


def _muon(width: int, has: Collection[str]) -> None:
    """A matrix of each shape."""
    table, number = torch.empty(1, dtype=torch.int64), torch.empty(())
    for high, wide in ((width, width), (4 * width, width), (width, 4 * width)):
        change = ahead(table, torch.empty((1, high, wide)), number, number, torch.bfloat16, aligned=True)
        by_row = "normuon" not in has or high >= wide
        factors = torch.empty((1, high, 1) if by_row else (1, 1, wide))
        subtract(table, change, factors, 1.0, number, cautious="cautious" in has, aligned=True)


def _adamw(shape: ModelShape) -> None:
    weight, number = torch.empty(shape.n_embd * 16), torch.empty(())
    average = torch.empty_like(weight, dtype=torch.bfloat16)
    adamw(weight, weight, average, average, number, number, rate=1.0, decay=1.0, betas=(0.9, 0.95), seed=1337)
