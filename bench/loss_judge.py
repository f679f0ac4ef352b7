"""One evaluator for the weights of all trainers in time_to_loss.py: on the same windows, and on whole documents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from nanopace.corpus.shards.corpus import open_corpus
from nanopace.train.formats.convert import open_pretrained
from nanopace.train.loop.evaluate import Estimate, Evaluator
from nanopace.train.models import fast
from nanopace.train.models.fast import FastGPT

SEQUENCE = 262144  # tokens of whole documents at a time, as modded-nanogpt evaluates
_AT_ONCE = 8192  # tokens whose logits are in memory at once


class Judge:
    """Evaluates on windows of the validation data, always the same ones."""

    def __init__(self, corpus: Path, device: str, block_size: int, windows: int | None, batch_size: int) -> None:
        self._device = torch.device(device)
        self._model: Any = None
        self.split = open_corpus(corpus).val
        self._evaluator = Evaluator(
            lambda tokens, targets: self._model.sequence_losses(tokens, targets),
            self.split,
            block_size=block_size,
            batch_size=batch_size,
            windows=windows or 1 << 30,
            seed=7,
            device=self._device,
        )

    def windows(self) -> np.ndarray:
        """The windows' tokens, each with its last target."""
        return self._evaluator._tokens.cpu().numpy()

    def evaluate(
        self, weights: Path, stream: np.ndarray | None = None, end_of_text: int = 0, reach: tuple[int, ...] = ()
    ) -> dict[str, Any]:
        """The loss; also, for each reach, the loss on the documents in a stream of tokens."""
        self._model = open_pretrained(weights).model(self._device)
        half = torch.autocast("cuda", torch.bfloat16) if self._device.type == "cuda" else nullcontext()
        with torch.no_grad(), half:
            self._evaluator.evaluate(0)
            found = judged(np.asarray(self._evaluator.state()["before"]))
            if stream is not None and isinstance(self._model, FastGPT):
                tokens = torch.from_numpy(stream).to(self._device)
                documents = {each: document_loss(self._model, tokens, end_of_text, each) for each in reach}
                found["documents_by_reach"] = documents
        self._model = None
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        return found


def judged(losses: np.ndarray) -> dict[str, Any]:
    """The mean of the windows' losses with its error, and the losses, so that runs can be compared window by window."""
    loss = Estimate.of(losses)
    return {"loss": loss.mean, "error": loss.error, "windows": loss.count, "losses": [round(x, 5) for x in losses]}


# --- whole documents -------------------------------------------------------------------------------------------------


def document_loss(model: FastGPT, stream: Tensor, end_of_text: int, reach: int) -> float:
    """The mean loss of a stream of tokens with separate documents. A token sees at most `reach` tokens before it."""
    shape = model.shape
    model.shape = replace(shape, block_size=max(shape.block_size, SEQUENCE))  # relative positions: no table limits them
    total, count = 0.0, len(stream) - 1
    try:
        for first in range(0, count, SEQUENCE):
            piece = stream[first : min(first + SEQUENCE, count) + 1].long()
            tokens, targets = piece[:-1], piece[1:]
            with documents_apart(tokens, end_of_text, reach):
                hidden = model._hidden(tokens[None], None)[0]
            for some, next_ones in zip(hidden.split(_AT_ONCE), targets.split(_AT_ONCE), strict=True):
                logits = model.lm_head(some)
                total += float(functional.cross_entropy(model.capped(logits), next_ones, reduction="sum"))
    finally:
        model.shape = shape
    return total / count


@contextmanager
def documents_apart(tokens: Tensor, end_of_text: int, reach: int) -> Iterator[None]:
    """Inside this context, `fast` attends only within documents. Positions start at 0, where angles are exact."""
    places = torch.arange(len(tokens), device=tokens.device)
    begins = (tokens == end_of_text) | (places == 0)
    starts = places[begins]
    positions = places - starts[begins.cumsum(0) - 1]
    ends = torch.cat((starts, places.new_tensor([len(tokens)]))).int()
    longest = int((ends[1:] - ends[:-1]).max())
    attend, rope_angles, shift_keys = fast.attend, fast.rope_angles, fast.shift_keys

    def apart(q: Tensor, k: Tensor, v: Tensor, *_: Any, scale: float | None = None, **__: Any) -> Tensor:
        if q.device.type == "cuda":
            from torch.nn.attention.varlen import varlen_attn

            q, k, v = (each[0].transpose(0, 1).bfloat16() for each in (q, k, v))
            found = varlen_attn(q, k, v, ends, ends, longest, longest, scale=scale, window_size=(reach, 0))
            return found.transpose(0, 1)[None]
        back = places[:, None] - places
        visible = (back >= 0) & (back <= reach) & (back <= positions[:, None])
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=visible, scale=scale)

    fast.attend = apart
    fast.rope_angles = lambda _, width, half: rope_angles(positions, width, half=half)
    fast.shift_keys = lambda k, _: torch.where((positions == 0)[:, None, None], k, shift_keys(k))
    try:
        yield
    finally:
        fast.attend, fast.rope_angles, fast.shift_keys = attend, rope_angles, shift_keys
