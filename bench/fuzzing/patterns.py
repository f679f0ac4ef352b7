"""Logs read with --pattern, and with the pattern that nanopace suggests for them."""

from __future__ import annotations

import io
import zlib
from functools import cache
from random import Random
from typing import Any

from fuzzing.formats import make_example, spoiled

_BEGINNINGS = ("step {i}", "iter={i:,}", "[{i:>6}/9999]", "{i}", "it {i} of 10", "{{'step': {i}")
_FIELDS = (
    *(
        "loss {loss:.4f}",
        "loss: nan",
        "'loss': {loss}",
        "val_loss={loss:.3f}",
        "lr 3e-4",
        "mem 12.3GB",
        "norm {loss:.2f}",
    ),
    *("dt {ms:.2f}ms", "time: {s:.3f} s", "{rate:.2f} it/s", "elapsed 0:{m:02d}:{i:02d}", "train_time:{total:.0f}ms"),
    *("tok/s {rate:,.0f}", "dt(ms) {ms}", "eta 1:00:00", "step {i}", "time {s}"),
)
_SEPARATORS = (" ", " | ", ", ", "\t", "  ", ";", "")
_PATTERNS = (
    (r"(?P<iteration>[\d,.e+-]+)\D+(?P<ms>\S+)",),
    (r"(?P<iteration>\d+).*?(?P<loss>[\w.+-]+).*?(?P<elapsed_s>[\d.:,]+)", r"(?P<iteration>\d+).(?P<val>\S+)"),
    (r"(?P<iteration>\d+).*?(?P<tokens>\S+) (?P<tokens_per_s>\S+)",),
    (r"(?P<iteration>\d+)\D+(?P<val>\S+)\D+(?P<s>\S+)(?P<mfu_percent>.?)",),
    (r"(?:step|iter)\D*(?P<iteration>\S+).*loss\D*(?P<loss>\S+)(?:.*?(?P<it_per_s>[\d.]+))?",),
)


def make_hand_written(dice: Random) -> bytes:
    """A log as a hand-written loop prints it, or another trainer's."""
    if dice.random() < 0.3:
        return make_example(dice)
    fields = dice.sample(_FIELDS, dice.randint(1, 5))
    template = dice.choice(_SEPARATORS).join([dice.choice(_BEGINNINGS), *fields])
    every, total, lines = dice.choice((1, 10, 500)), 0.0, []
    for number in range(dice.choice((3, 12, 40))):
        ms = dice.uniform(1, 200)
        total += every * ms
        values = {"i": number * every, "loss": dice.uniform(2, 9), "ms": ms, "s": ms / 1000, "rate": 1000 / ms}
        lines.append(template.format(**values, m=number, total=total) + "\n")
    return spoiled(dice, "".join(lines).encode())


def read_by_patterns(data: bytes) -> None:
    """Read with one of the patterns' reader alone; one in sixteen is read in every way."""
    if zlib.crc32(data) % 16 == 0:
        _read_in_every_way(data)
        return
    from nanopace.sources.build import RunBuilder
    from nanopace.sources.formats.pattern_reader import PatternReader
    from nanopace.sources.text import lines

    builder = RunBuilder("a.log")
    reader = PatternReader(builder, _compiled(zlib.crc32(data) % len(_PATTERNS)))
    for line, ended in lines([data]):
        (reader.feed if ended else reader.feed_cut)(line)
    reader.finish()
    builder.finish()


@cache
def _compiled(number: int) -> Any:
    from nanopace.sources.formats.pattern import compile_patterns

    return compile_patterns(_PATTERNS[number])


def _read_in_every_way(data: bytes) -> None:
    """Read with one of the patterns and with the suggested one, which must read the log it was suggested for."""
    from nanopace.diagnosis.diagnose import diagnose
    from nanopace.errors import NanopaceError
    from nanopace.sources.runs import open_runs
    from nanopace.sources.text import lines
    from nanopace.sources.unread.guess import guess

    offer = guess(line for line, _ in lines([data]))
    if offer is not None and not data.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"(\xb5/\xfd")):
        assert open_runs(io.BytesIO(data), patterns=offer.patterns)
    try:
        runs = open_runs(io.BytesIO(data), patterns=_PATTERNS[zlib.crc32(data) % len(_PATTERNS)])
    except NanopaceError:
        return
    for run in runs[:10]:
        diagnose(run)
