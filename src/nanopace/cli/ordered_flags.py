"""Words and flags in the order given.

With nanoGPT's config files and flags, the later one wins. argparse loses that order, and takes files only in a row.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence


class KeepOrder(argparse.Action):
    """Appends (name, text) to `in_order`, which the parser must set to () with set_defaults."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        namespace.in_order = (*namespace.in_order, (self.dest, values))


def spelled_out(arguments: Sequence[str], flag: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """The arguments, with `flag` before every word that is neither a flag nor a flag's value."""
    takes_a_value = {name for action in parser._actions if action.nargs != 0 for name in action.option_strings}
    words = iter(arguments)
    for word in words:
        if word == "--":
            yield from (f"{flag}={each}" for each in words)
        elif word == "-" or not word.startswith("-"):
            yield f"{flag}={word}"
        else:
            yield word
            if word in takes_a_value:
                yield from (each for each in [next(words, None)] if each is not None)
