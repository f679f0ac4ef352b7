"""The kernels part of deterministic.py: attention's times, and the tables' gradients by segments and by atomics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from atomic_sums import atomic_embed_backward, atomic_value_embeddings_backward
from nanogpt import zipf_tokens
from nanopace.train.fused.attention import OURS, _switch_on, attention_by
from nanopace.train.kernels.embedding import embed_backward
from nanopace.train.kernels.segments import sort_tokens
from nanopace.train.kernels.timing import card_ms
from nanopace.train.kernels.value_embeddings import add_value_embeddings_backward

VOCAB, LENGTH, BATCH = 50304, 1024, 64


def attention(heads: int, width: int) -> Iterator[dict[str, Any]]:
    """Forward and backward apart, and the largest error relative to float32."""
    device = torch.device("cuda", 0)
    packed = torch.randn((BATCH, LENGTH, 3, heads, width), device=device, dtype=torch.bfloat16)
    q, k, v = (each.transpose(1, 2).requires_grad_() for each in packed.unbind(2))
    d_out = torch.randn((BATCH, LENGTH, heads, width), device=device, dtype=torch.bfloat16).transpose(1, 2)
    exact = _exact([each[:2] for each in (q, k, v)], d_out[:2])
    ways = [(each, False) for each in ("cudnn", "flash", "efficient")]
    ways += [(each, True) for each in (OURS, "flash", "efficient")]
    for name, fixed in ways:
        _switch_on(name)
        way = attention_by(name, fixed_order=fixed)
        try:
            found = [way.backward(*way.forward(q, k, v), (q, k, v), d_out) for _ in range(4)]
            equal = all(same_bits(found[0], other) for other in found[1:])
            wrong = max(
                float((one[:2].float() - other).norm() / other.norm())
                for one, other in zip(found[0], exact, strict=True)
            )
            del found
            forward = ms(lambda way=way: way.forward(q, k, v))
            both = ms(lambda way=way: way.backward(*way.forward(q, k, v), (q, k, v), d_out))
        except RuntimeError as error:
            yield {"attention": name, "heads": f"{heads} x {width}", "refused": str(error).splitlines()[0][:90]}
            continue
        result = {"attention": name, "fixed order": fixed, "heads": f"{heads} x {width}"}
        result |= {"forward ms": forward, "backward ms": both - forward, "both ms": both}
        result |= {"error": wrong, "same bits": equal}
        yield {**result, **({"failed": "bits differ"} if fixed and not equal else {})}


def _exact(q_k_v: Sequence[Tensor], d_out: Tensor) -> list[Tensor]:
    q, k, v = (each.detach().float().requires_grad_() for each in q_k_v)
    hidden = torch.full((LENGTH, LENGTH), float("-inf"), device=q.device).triu(1)
    out = torch.softmax(q @ k.mT / q.size(-1) ** 0.5 + hidden, -1) @ v
    return list(torch.autograd.grad(out, (q, k, v), d_out.float()))


def embedding() -> Iterator[dict[str, Any]]:
    tokens, device = tokens_of_text(), torch.device("cuda", 0)
    d_x = torch.randn((tokens.numel(), 768), device=device, dtype=torch.bfloat16)
    for name, seen in {"zipf": tokens, "one token": torch.zeros_like(tokens), "bytes": tokens % 256}.items():
        order = sort_tokens(seen)
        tables = [torch.zeros((rows, 768), device=device) for rows in (VOCAB, LENGTH)]
        others = [torch.zeros_like(each) for each in tables]
        sorting = ms(lambda seen=seen: sort_tokens(seen))
        ours = ms(lambda seen=seen, order=order, tables=tables: embed_backward(d_x, seen, order, *tables))
        theirs = ms(lambda seen=seen, tables=tables: atomic_embed_backward(d_x, seen, *tables))
        again = _twice(lambda into, seen=seen, order=order: embed_backward(d_x, seen, order, *into), others)
        yield _compared(f"token table, {name}", sorting, ours, theirs, again)


def values() -> Iterator[dict[str, Any]]:
    tokens, device = tokens_of_text(), torch.device("cuda", 0)
    d_packed = torch.randn((tokens.numel(), 3 * 768), device=device, dtype=torch.bfloat16)
    table, gate = torch.randn((VOCAB, 768), device=device), torch.ones(6, device=device)
    grads, order = [torch.zeros_like(table), torch.zeros_like(gate)], sort_tokens(tokens)
    others = [torch.zeros_like(each) for each in grads]
    ours = ms(lambda: add_value_embeddings_backward(d_packed, order, table, gate, *grads))
    theirs = ms(lambda: atomic_value_embeddings_backward(d_packed, tokens, table, gate, *grads))
    again = _twice(lambda into: add_value_embeddings_backward(d_packed, order, table, gate, *into), others)
    yield _compared("value table, zipf", ms(lambda: sort_tokens(tokens)), ours, theirs, again)


def _compared(table: str, sorting: float, ours: float, theirs: float, equal: bool) -> dict[str, Any]:
    result = {"table": table, "segments ms": ours, "sorting, once, ms": sorting, "atomics ms": theirs}
    return {**result, "same bits": equal, **({} if equal else {"failed": "bits differ"})}


def _twice(do: Callable[[list[Tensor]], None], into: list[Tensor]) -> bool:
    found = []
    for _ in range(3):
        for each in into:
            each.zero_()
        do(into)
        found.append([each.clone() for each in into])
    return all(same_bits(found[0], other) for other in found[1:])


def same_bits(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    """Bit for bit: NaN equals itself, and 0 is not -0."""
    return all(
        torch.equal(a.view(torch.uint8), b.view(torch.uint8))
        for a, b in zip(map(_flat, some), map(_flat, others), strict=True)
    )


def _flat(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().flatten()


def tokens_of_text() -> Tensor:
    windows = torch.from_numpy(zipf_tokens(BATCH * (LENGTH + 1), VOCAB, 1).astype("int64")).view(BATCH, -1).cuda()
    return windows[:, :-1].contiguous()


def ms(do: Callable[[], object]) -> float:
    return card_ms(do, torch.device("cuda", 0), calls=4)
