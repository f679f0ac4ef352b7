"""All formats: those of the table, and those of other packages.

A package adds a format with an entry point in the group "nanopace.formats" that names a LogFormat. Packages are
searched only if none of our formats fits: that takes longer than reading most logs.
"""

from __future__ import annotations

import warnings

from nanopace.sources.formats.table import BUILT_IN, PATTERN, PATTERN_ELAPSED
from nanopace.sources.log_format import LogFormat

GROUP = "nanopace.formats"

_known: dict[str, LogFormat] = {format.name: format for format in BUILT_IN}
_never_detected: dict[str, LogFormat] = {format.name: format for format in (PATTERN, PATTERN_ELAPSED)}
_asked = False  # the packages have been searched


def known_formats() -> tuple[LogFormat, ...]:
    """All formats registered so far, ours first."""
    return tuple(_known.values())


def known_trainers() -> str:
    """The trainers whose logs can be read, for a message."""
    return ", ".join(dict.fromkeys(each.trainer for each in _known.values()))


def find_format(name: str) -> LogFormat:
    if name in _never_detected:
        return _never_detected[name]
    if name not in _known:
        add_formats_of_packages()
    return _known[name]


def register(format: LogFormat) -> None:
    """Add a format after the known ones. If two have the same name, the first one counts."""
    if not isinstance(format, LogFormat):
        raise TypeError(f"{format!r} is no LogFormat")
    _known.setdefault(format.name, format)


def add_formats_of_packages() -> bool:
    """Register the formats of other packages. Return whether any is new."""
    global _asked
    if _asked:
        return False
    _asked = True
    from importlib.metadata import entry_points

    before = len(_known)
    for entry in entry_points(group=GROUP):
        try:
            register(entry.load())
        except Exception as error:  # someone else's code must not get in our way
            warnings.warn(f"the log format {entry.name!r} of {entry.value} cannot be loaded: {error}", stacklevel=2)
    return len(_known) > before
