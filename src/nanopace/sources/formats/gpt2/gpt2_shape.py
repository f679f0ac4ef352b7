"""The shape of a GPT-2 by its parameter groups, where no setting is printed."""

from __future__ import annotations

import re
from collections.abc import Mapping

from nanopace.sources.build import RunBuilder
from nanopace.sources.infer.parameter_groups import GROUP_FACTS, shape_of_groups, vocabulary_of_groups
from nanopace.sources.infer.vocabulary_of_loss import COMMON
from nanopace.sources.printed_numbers import to_int

_GROUP = re.compile(
    r"num (non-)?decayed parameter tensors: (\d{1,9})(?:, with |\. total (?:non-)?decayed parameters: )(\d[\d,]{0,20})",
    re.IGNORECASE | re.ASCII,
)
_GPT2_VOCABULARY = 50257  # as it is; COMMON has it padded
_CONTEXTS = tuple(1 << power for power in range(6, 15))


def read_groups(line: str) -> dict[str, int]:
    """What a line says of them. Every rank may print it, and several into one line."""
    groups: dict[str, int] = {}
    for non, tensors, count in _GROUP.findall(line):
        names = GROUP_FACTS[2:] if non else GROUP_FACTS[:2]
        groups.update(zip(names, (to_int(tensors), to_int(count)), strict=True))
    return groups


def give_shape(builder: RunBuilder, groups: Mapping[str, int]) -> None:
    """Layers, width and biases; the vocabulary and the context only where one common pair adds up."""
    shape = shape_of_groups(groups)
    for name, value in shape.items():
        builder.fact(name, value, "inferred", "parameter_groups")
    if not shape:
        return
    builder.drop_fact("parameters")  # as forks print them, with the positions; those of the shape are exact
    fits = []
    for vocabulary in (*COMMON, _GPT2_VOCABULARY):
        _, context = vocabulary_of_groups(groups, None, vocabulary, None)
        if context in _CONTEXTS:
            fits.append((vocabulary, context))
    if len(fits) == 1:
        for name, value in zip(("vocab_size", "block_size"), fits[0], strict=True):
            builder.fact(name, value, "inferred", "parameter_groups")
