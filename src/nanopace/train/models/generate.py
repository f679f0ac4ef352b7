"""Generates text from a model token by token, with earlier keys and values in a cache.

Positions are learned, so a model sees at most `block_size` tokens. nanoGPT then shifts its window by one for each
token, which invalidates every cached key. Here a full window is cut to its newer half, which is read again, and then
refilled: each token has between half a block and a full block before it, and on average costs hardly more than within
the first block. `cache=False` rereads the window for every token. Its logits differ only by rounding (1e-6), so it
gives the same tokens, unless a draw falls between the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from nanopace.corpus.tokenizers.tokenizer import Tokenizer
from nanopace.errors import InputError
from nanopace.train.models.gpt2 import GPT, KVCache

_CUT = "\ufffd"  # how a tokenizer decodes an incomplete character
_COLDEST = 1e-4  # a lower temperature counts as 0: float32 could not distinguish the probabilities


def generate(
    model: GPT,
    tokens: Sequence[int],
    count: int,
    *,
    temperature: float = 0.8,
    top_k: int | None = 200,
    top_p: float = 1.0,
    seed: int = 1337,
    vocabulary: int | None = None,
    end_of_text: int | None = None,
    cache: bool = True,
) -> Iterator[int]:
    """Yield at most `count` tokens that follow `tokens`; stops at the end of a text, without yielding that token.

    `temperature` 0 takes the most likely token each time. `vocabulary` is the number of real ids, if the model's table
    is padded. The model has to be in eval mode.
    """
    assert not model.training, "dropout would be sampled from, too"
    assert tokens, "there has to be something that the first token follows"
    device = next(model.parameters()).device
    generator = torch.Generator(device).manual_seed(seed)
    window = _Window(model, tokens, cache, device)
    for _ in range(count):
        token = _pick(window.next_logits()[:vocabulary], temperature, top_k, top_p, generator)
        if token == end_of_text:
            return
        yield token
        window.append(token)


@contextmanager
def precision(device: torch.device, dtype: str) -> Iterator[None]:
    """Compute products in `dtype`, as nanoGPT does on a CUDA card; elsewhere both sample in float32.

    On an H200, a 124M model takes 2.8 to 3.1 ms per token in float32 and 4.2 ms in bfloat16: a single row leaves the
    tensor cores idle, and casting costs launches. cuDNN's attention would take 35 to 60 ms, since it plans for every
    new length.
    """
    if device.type != "cuda" or dtype == "float32":
        yield
        return
    kernels = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    with torch.autocast(device.type, dtype=getattr(torch, dtype)), sdpa_kernel(kernels):
        yield


class _Window:
    """The tokens that the model still sees, and, with a cache, which of them it has not read yet."""

    def __init__(self, model: GPT, tokens: Sequence[int], cache: bool, device: torch.device) -> None:
        self._model, self._device = model, device
        self._tokens = list(tokens[-model.shape.block_size :])
        self._unread = len(self._tokens)
        self._cache = KVCache(model.shape, 1, device, next(model.parameters()).dtype) if cache else None

    def append(self, token: int) -> None:
        if len(self._tokens) == self._model.shape.block_size:
            self._tokens = self._tokens[len(self._tokens) // 2 + 1 :]
            self._unread = len(self._tokens)
            if self._cache is not None:
                self._cache.length = 0
        self._tokens.append(token)
        self._unread += 1

    @torch.inference_mode()
    def next_logits(self) -> Tensor:
        read = self._tokens if self._cache is None else self._tokens[-self._unread :]
        logits = self._model.next_logits(torch.tensor([read], device=self._device), self._cache)[0]
        self._unread = 0
        return logits


@torch.inference_mode()
def _pick(logits: Tensor, temperature: float, top_k: int | None, top_p: float, generator: torch.Generator) -> int:
    """Draw a token by id, not by rank: rounding may swap two equally likely tokens, and must not change the draw."""
    logits = logits.float() / max(temperature, _COLDEST)
    kept = 1 if temperature < _COLDEST else min(top_k or logits.numel(), logits.numel())
    if kept == logits.numel() and top_p >= 1:
        chances = torch.softmax(logits, dim=-1)
    else:
        best, candidates = torch.topk(logits, kept)
        ranked = torch.softmax(best, dim=-1)
        before = ranked.cumsum(-1) - ranked
        ranked = torch.where((before < top_p) | (top_p >= 1), ranked, 0.0)  # the likeliest one always stays
        chances = torch.zeros_like(logits).scatter(0, candidates, ranked)
    if not bool(chances.sum() > 0):  # also true for NaN
        raise InputError("the model's outputs are not finite numbers: its training has diverged")
    return int(torch.multinomial(chances, 1, generator=generator))


class TextStream:
    """Turns tokens into text as soon as it is certain: a character may span two tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._held: list[int] = []
        self._said = 0  # characters of the held tokens already returned

    def add(self, token: int) -> str:
        self._held.append(token)
        text = self._tokenizer.decode(self._held)
        if not text.endswith(_CUT):
            return self.end()
        said = text[self._said : -1]
        self._said += len(said)
        return said

    def end(self) -> str:
        """The text held back so far."""
        rest = self._tokenizer.decode(self._held)[self._said :]
        self._held, self._said = [], 0
        return rest
