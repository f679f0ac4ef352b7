"""Finds the batch size in the program: modded-nanogpt's log starts with its source.

A size counts if it is a number or a product of numbers, and the same wherever it is given.
"""

from __future__ import annotations

import re
from math import prod

_PRODUCT = r"(\d{1,12}(?:\s?\*\s?\d{1,12}){0,5})(?=\s{0,20}(?:$|[#,);]))"
_ASSIGNED = re.compile(
    r"^\s{0,16}(batch_size|sequence_length|train_batch_size|train_seq_len|seq_len)(\s?:\s?int)?\s?=\s?" + _PRODUCT
)
_SEQUENCES = re.compile(r"^\s{0,16}sequence_length\s?[:=]")
_STAGE = re.compile(r"TrainingStage\(.{0,200}?\bbatch_size\s?=\s?" + _PRODUCT)
_SCHEDULE = re.compile(r"^\s{0,16}train_bs_schedule\s?:\s?tuple\s?=\s?\((.{1,300})")
_EACH = re.compile(_PRODUCT)
_GPUS = re.compile(r"^\s{0,16}assert\s{1,4}(?:dist\.get_)?world_size(?:\(\))?\s?==\s?(\d{1,4})\b")
_SHARED = re.compile(r"^\s{0,16}grad_accum_steps\s?=\s?(\d{1,4})\s?//\s?world_size\b")
_ATTENTION = re.compile(
    r"^[^#]{0,200}\b(?:attn_blocksize|sliding_window_\w{1,20}|window_size_blocks|ws_schedule|window_sizes)\b"
)
_LOADER = re.compile(
    r"^\s{0,16}(?:train_loader\s?=.{0,80}?)?args\.train_files,\s?(world_size\s?\*\s?)?args\.(?:train_)?seq_len\b"
)
_WORDS = ("batch_size", "seq", "world_size", "train_bs_schedule", "window", "ws_schedule", "attn_blocksize")
_MOST_SIZES = 64


class SourceCode:
    """Takes the source line by line."""

    def __init__(self) -> None:
        self._sizes: dict[str, set[int]] = {}
        self._scheduled: set[int] = set()
        self._in_sequences = False
        self._gpus: set[int] = set()
        self._shared: set[int] = set()
        self.schedules_attention = False
        self._loader = ""  # the argument of the training data loader: one of two forms

    def read(self, line: str) -> bool:
        """Whether the line says something about the batch."""
        if not any(word in line for word in _WORDS):
            return False
        line = line[:400]
        self.schedules_attention |= _ATTENTION.match(line) is not None
        self._in_sequences |= _SEQUENCES.match(line) is not None
        if found := _ASSIGNED.match(line):
            _add(self._sizes.setdefault(found[1], set()), found[3])
        elif found := _STAGE.search(line):
            _add(self._scheduled, found[1])
        elif found := _SCHEDULE.match(line):
            for each in _EACH.findall(found[1]):
                _add(self._scheduled, each)
        elif found := _GPUS.match(line):
            _add(self._gpus, found[1])
        elif found := _SHARED.match(line):
            _add(self._shared, found[1])
        elif found := _LOADER.match(line):
            self._loader = "of each GPU" if found[1] else "of each micro-batch"
        else:
            return False
        return True

    @property
    def gpus(self) -> int | None:
        """The number of GPUs, if the program runs with no other."""
        return _only(self._gpus)

    @property
    def schedule(self) -> tuple[int, int] | None:
        """The smallest and largest batch in tokens, if it changes."""
        return (min(self._scheduled), max(self._scheduled)) if len(self._scheduled) > 1 else None

    def tokens(self, gpus: int | None) -> int | None:
        """Tokens per step, across all GPUs."""
        if self._scheduled:
            return _only(self._scheduled)
        if "train_batch_size" in self._sizes:
            return self._size("train_batch_size")
        if "batch_size" in self._sizes:
            batch = self._size("batch_size")
            sequence = self._size("sequence_length") if self._in_sequences else 1
            return batch * sequence if batch and sequence else None
        sequence = self._size("train_seq_len" if "train_seq_len" in self._sizes else "seq_len")
        of = {"of each GPU": gpus, "of each micro-batch": _only(self._shared)}.get(self._loader)
        return sequence * of if sequence and of else None

    def _size(self, name: str) -> int | None:
        return _only(self._sizes.get(name, set()))


def _add(sizes: set[int], written: str) -> None:
    value = prod(map(int, written.split("*")))
    if 0 < value < 1 << 48 and len(sizes) < _MOST_SIZES:
        sizes.add(value)


def _only(values: set[int]) -> int | None:
    return next(iter(values)) if len(values) == 1 else None
