"""Reads logs of losses alone: build-nanogpt's log.txt and llm.c's main.log. They contain no times.

250 val 6.4300              s:250 tel:6.4300                    an evaluation before the step of that number
250 hella 0.2440            s:250 eval:0.2440                   HellaSwag
250 train 6.387966          s:250 trl:6.3880 lr:0.000600 norm:0.85
"""

from __future__ import annotations

import re

from nanopace.sources.build import RunBuilder
from nanopace.sources.printed_numbers import nan_as_inf
from nanopace.sources.rates import printed_rate

_REAL = r"(-?(?:\d{1,9}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?|nan|inf))"
_DECIMALS = 4  # the fewest that both print


class _LossLogReader:
    """Reads one of them."""

    line: re.Pattern[str]
    kinds: tuple[str, str, str]  # its names for the step, the evaluation and HellaSwag

    def __init__(self, builder: RunBuilder, _width: int = 0) -> None:
        self._builder = builder

    def feed(self, line: str) -> bool:
        found = self.line.match(line)
        if found is None:
            return False
        iteration, kind, value = int(found[1]), found[2], nan_as_inf(float(found[3]))
        train, val, _ = self.kinds
        if kind == train:
            self._builder.untimed_row(iteration, value)
            self._builder.rate(iteration, printed_rate(line[found.end() :]))
        else:
            self._builder.evaluation(iteration, None, value, metric="loss" if kind == val else "core")
        return True

    def feed_cut(self, line: str) -> bool:
        """The last number may lack digits."""
        found = self.line.match(line)
        whole = found is not None and len(found[3].partition(".")[2]) >= _DECIMALS
        return whole and self.feed(line)

    def finish(self) -> None:
        """Nothing is held back."""


class BuildNanogptLogReader(_LossLogReader):
    """log/log.txt"""

    line = re.compile(rf"\s{{0,8}}(\d{{1,12}}) (train|val|hella) {_REAL}(?![\w.])", re.ASCII)
    kinds = ("train", "val", "hella")


class LlmcLogReader(_LossLogReader):
    """main.log, which modded-nanogpt used at first"""

    line = re.compile(rf"\s{{0,8}}s:(\d{{1,12}}) (trl|tel|eval):{_REAL}(?![\w.])", re.ASCII)
    kinds = ("trl", "tel", "eval")
