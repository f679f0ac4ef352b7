"""Logs of nanoGPT, its forks, nanochat and nanopace, with rows lost, duplicated, shuffled or renumbered, absurd
numbers, debris from terminals and schedulers, several runs and restarts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from random import Random

from fuzzing.hostile import NUMBERS, altered_json, encoded, packed, spoil

_NUMBER = re.compile(rb"\d[\d,]*\.?\d*(?:e[+-]?\d+)?")
_ITERATION = re.compile(rb"((?:iter|step|Step) )(\d+)")
_PREFIXES = (b"[rank0]: ", b"[rank1]: ", b"0: ", b"2024-05-01 12:00:00,123 INFO ", b"train-0  | ", b"> ", b"\x1b[32m")
_NANOCHAT = (
    b"GPU: NVIDIA H100 80GB HBM3 | Peak FLOPS (BF16): 9.89e+14\nTokens / micro-batch / rank: 32 x 2048 = 65,536\n"
    b"Total batch size 524,288 => gradient accumulation steps: 1\nEstimated FLOPs per token: 1.234567e+09\n"
)
_OWN = (
    b"nanopace 0.3.0 train: out, 65,536 tokens a step, steps 0 to 2000\n  n_layer: 12: so\n"
    b"step 0: val loss 10.9841, time 812.40ms, val error 0.0031, 1.0 bits\n"
)
_FORK = (
    b"using fused AdamW: True\nnumber of parameters: 123.59M\nbatch_size = 8\nblock_size = 1024\nn_layer = 12\n"
    b"learning_rate = f'{1}{2}'\nOverriding config with config/train.py:\n# a comment\nmax_iters = 600000\n"
)
_CONFIG = (
    b"Overriding: batch_size = 12\n{'eval_interval': 250, 'batch_size': 8}\ntokens per iteration will be: 491,520\n"
)


def _nanogpt_row(dice: Random, number: int) -> bytes:
    loss, ms = 3 + 8 / (1 + number), 250 + dice.random() * 3 + (900 if number % 10 == 0 else 0)
    row = b"iter %d: loss %.4f, time %.2fms, mfu %.2f%%\n" % (number, loss, ms, 18)
    if number % 10 == 0:
        row = b"step %d: train loss %.4f, val loss %.4f\nsaving checkpoint to out\n" % (number, loss, loss) + row
    return row


def _nanochat_row(dice: Random, number: int) -> bytes:
    form = b"step %05d/9999 (0.05%%) | loss: %.6f | lrm: 1.00 | dt: %.2fms | tok/sec: 1 | mfu: 48.10 | total time: 1m\n"
    row = form % (number, 9 / (1 + number / 100), 312 + dice.random() * 4)
    return row + (b"Step %05d | Validation bpb: 1.0432\n" % number if number % 10 == 0 else b"")


def _own_row(dice: Random, number: int) -> bytes:
    row = b"iter %d: loss 3.2841, time %.2fms, mfu 41.20%%, 388652 tok/s, norm 0.84, lr 6.00e-04\n" % (
        number,
        168 + dice.random(),
    )
    if number % 10 == 0:
        row += (
            b"step %d: val loss 3.2841, time 812.40ms, val error 0.0031, train error 0.0103 (last 250 steps)\n" % number
        )
        row += b"saved out/checkpoints/step-%08d, time 12.30ms, in the background 1840.00ms, 1.48 GB\n" % number
    return row


_TRAINERS: tuple[tuple[bytes, Callable[[Random, int], bytes]], ...] = (
    (b"tokens per iteration will be: 32,768\nnumber of parameters: 123.59M\n", _nanogpt_row),
    (_FORK, _nanogpt_row),
    (_CONFIG, _nanogpt_row),
    (b"", _nanogpt_row),
    (_NANOCHAT, _nanochat_row),
    (_OWN, _own_row),
)


def make_log(dice: Random) -> bytes:
    header, row = dice.choice(_TRAINERS)
    rows = dice.choice((1, 2, 3, 4, 6, 9)) if dice.random() < 0.985 else dice.choice((40, 150))
    first, stride = dice.choice((0, 0, 10, 995)), dice.choice((1, 1, 1, 10))
    lines = [*header.splitlines(True), *(row(dice, first + stride * each) for each in range(rows))]
    for _ in range(dice.choice((0, 1, 1, 2, 4))):
        _alter_lines(dice, lines)
    data = b"".join(lines)
    if dice.random() < 0.5:
        data = hostile_numbers(dice, data)
    match dice.randrange(40):
        case 0:
            return packed(dice, data)
        case 1:
            return encoded(dice, data)
        case 2 | 3 | 4:
            return spoil(dice, data)
        case 6:
            return _in_notebook(dice, data)
        case 5 if dice.random() < 0.003:
            return _large(dice, header, row)
        case _:
            return data


def hostile_numbers(dice: Random, data: bytes) -> bytes:
    share = dice.choice((0.02, 0.1, 0.5))
    return _NUMBER.sub(lambda found: dice.choice(NUMBERS).encode() if dice.random() < share else found[0], data)


def _in_notebook(dice: Random, data: bytes) -> bytes:
    """The data as what the cells of a notebook printed, cut anywhere."""
    text = data.decode("utf-8", "replace")
    cuts = [0, *sorted(dice.randrange(len(text) + 1) for _ in range(dice.choice((0, 1, 3)))), len(text)]
    parts = [text[begin:end] for begin, end in pairwise(cuts)]
    outputs: list[dict[str, object]] = [
        {"output_type": "stream", "name": "stdout", "text": part.splitlines(True) if dice.random() < 0.5 else part}
        for part in parts
    ]
    outputs.append({"output_type": "error", "traceback": ["Traceback (most recent call last)", "NameError: x"]})
    outputs.append({"output_type": "display_data", "data": {"text/plain": ["<Figure>"]}})
    dice.shuffle(outputs)
    size = dice.choice((1, 2, 9))
    cells = [{"outputs": outputs[at : at + size]} for at in range(0, len(outputs), size)]
    document = {"cells": cells, "metadata": {}, "nbformat": 4}
    return altered_json(dice, document) if dice.random() < 0.5 else json.dumps(document).encode()


def _alter_lines(dice: Random, lines: list[bytes]) -> None:
    at, to = sorted((dice.randrange(len(lines) + 1), dice.randrange(len(lines) + 1)))
    match dice.randrange(13):
        case 0:
            del lines[at:to]
        case 1:
            lines[at:at] = lines[at:to]
        case 2:
            dice.shuffle(lines)
        case 3:
            lines.reverse()
        case 4:  # a restart, or another run
            lines += [b""] * (dice.random() < 0.2) + lines[: dice.randrange(len(lines) + 1)]
        case 5:  # renumbered
            step = dice.choice((0, 1, 7, -1, 10**6, 10**12))
            for index, line in enumerate(lines[at:to], start=at):
                lines[index] = _ITERATION.sub(lambda found, n=index: found[1] + b"%d" % max(0, n * step), line)
        case 6:  # two processes write to one file
            lines[at:] = [each for pair in zip(lines[at:], lines[at:], strict=True) for each in pair]
        case 7:
            prefix = dice.choice(_PREFIXES)
            lines[at:to] = [prefix + line for line in lines[at:to]]
        case 8:
            lines.insert(at, b"\n" * dice.choice((1, 1, 2, 3, 5, 500)))
        case 9:
            lines.insert(
                at, dice.choice((b"x", b" ", b"\0", b"{1}", b"\x1b[", b"iter ")) * dice.choice((1, 2, 5, 10, 20, 5000))
            )
        case 10:
            _, row = dice.choice(_TRAINERS)
            lines[at:at] = [row(dice, each) for each in range(3)]
        case 11:
            lines.insert(at, dice.choice(_TRAINERS)[0])
        case _:
            lines[at:at] = [dice.choice(lines)[: dice.randrange(60)] if lines else b""]


def _large(dice: Random, header: bytes, row: Callable[[Random, int], bytes]) -> bytes:
    """Megabytes of one kind of line: this exposes a quadratic reader."""
    few = [row(dice, each) for each in range(20)]
    match dice.randrange(7):
        case 0:
            return header + b"".join(few) + b"\n" * 5_000_000
        case 1:  # endless restarts
            return header + b"".join(few[:3]) * 12_000
        case 2:  # two processes, one iteration apart
            return header + b"".join(row(dice, each) + row(dice, max(0, each - 1)) for each in range(9000))
        case 3:
            return header + b"".join(row(dice, each) for each in range(40_000))
        case 4:  # endless runs
            return (header + few[0] + few[1]) * 8000
        case 5:
            return header + b"max_iters = f'" + b"{1}" * 300_000 + b"'\n" + b"".join(few)
        case _:
            return header + b"".join(row(dice, dice.randrange(10**6)) for each in range(20_000))
