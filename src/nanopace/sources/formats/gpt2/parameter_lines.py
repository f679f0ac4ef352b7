"""The lines about parameter groups, which build-nanogpt and train_gpt2.py adopted from nanoGPT."""

from __future__ import annotations

import re

from nanopace.sources.printed_numbers import to_int

_GROUP = re.compile(
    r"num (non-)?decayed parameter tensors: (\d{1,9})(?:, with |\. total (?:non-)?decayed parameters: )(\d[\d,]{0,20})",
    re.IGNORECASE | re.ASCII,
)


def read_groups(line: str) -> dict[str, int]:
    """Facts from which the shape is inferred. Each rank may print the line, and several of them on one line."""
    groups: dict[str, int] = {}
    for non, tensors, count in _GROUP.findall(line):
        which = "non_decayed" if non else "decayed"
        groups |= {f"{which}_tensors": to_int(tensors), f"{which}_parameters": to_int(count)}
    return groups
