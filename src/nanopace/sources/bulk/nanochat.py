"""Reads nanochat logs of many megabytes: usual step lines, exactly as its programs print them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from nanopace.sources.bulk.usual import Matches, column, feed_usual, folded
from nanopace.sources.formats.nanochat import NanochatReader

if TYPE_CHECKING:
    from nanopace.sources.readers import LineReader

_STEP = re.compile(
    rb"step (\d{1,12})(/\d{1,12})? \([\d.]{1,9}%\) \| loss: (\d{1,9}\.\d{1,9})( \| grad norm: [\d.]{1,20})?"
    rb" \| lrm: (\d{1,3}\.\d{1,5}) \| dt: (\d{1,12}\.\d\d)ms \| tok/sec: (\d[\d,]{0,19})"
    rb" \| (bf16_)?mfu: (\d{1,5}\.\d{1,6})"
    rb"( \| epoch: [^|\r]{1,80}?)? \| total time: (\d{1,9}\.\d{1,6})m( \| eta: [^|\r]{1,30})?"
)


def feed_bulk_nanochat(reader: LineReader, chunks: Iterable[bytes]) -> None:
    """Feed all lines of a log to the reader, in order, with similar steps folded into one row."""
    assert isinstance(reader, NanochatReader)
    chat = reader

    def take(steps: Matches) -> bool:
        numbers, totals, losses, norms, lrms, times, rates, bf16, mfus, epochs, minutes, etas = zip(
            *(step.groups() for step in steps), strict=True
        )
        forms = {(total is not None, epoch is not None) for total, epoch in zip(totals, epochs, strict=True)}
        total, epoch = forms.pop()
        ms = column(times)
        if forms or not chat.has_form(total=total, epoch=epoch) or not (ms > 0).all():
            return False
        rows = folded(column(numbers), ms, column(losses), column(mfus) / 100)
        if rows is not None:
            per_s = column(rate.replace(b",", b"") for rate in rates)
            modern = any(any(each) for each in (norms, etas, epochs, bf16))
            chat.feed_steps(rows, ms, per_s, float(minutes[-1]), float(lrms[-1]), rate_is_right=modern)
        return rows is not None

    feed_usual(chat, chunks, _STEP, take)
