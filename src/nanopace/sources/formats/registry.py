"""Which formats there are: those of the table, and those of other people's packages.

A package adds its own by an entry point of the group "nanopace.formats" that names a LogFormat. Packages are only asked
where no format of ours fits: looking for them takes longer than reading most logs.
"""

from __future__ import annotations

import warnings

from nanopace.sources.formats.table import BUILT_IN, PATTERN, PATTERN_ELAPSED
from nanopace.sources.log_format import LogFormat

GROUP = "nanopace.formats"

_known: dict[str, LogFormat] = {format.name: format for format in BUILT_IN}
_never_detected: dict[str, LogFormat] = {format.name: format for format in (PATTERN, PATTERN_ELAPSED)}
_asked = False  # the packages


def known_formats() -> tuple[LogFormat, ...]:
    """All that are registered so far, ours first."""
    return tuple(_known.values())


def known_trainers() -> str:
    """Whose logs can be read, for a message."""
    return ", ".join(dict.fromkeys(each.trainer for each in _known.values()))


def find_format(name: str) -> LogFormat:
    if name in _never_detected:
        return _never_detected[name]
    if name not in _known:
        add_formats_of_packages()
    return _known[name]


def register(format: LogFormat) -> None:
    """Add a format behind those that are known. The first one of a name stays."""
    if not isinstance(format, LogFormat):
        raise TypeError(f"{format!r} is no LogFormat")
    _known.setdefault(format.name, format)


def add_formats_of_packages() -> bool:
    """Whether there is any that was not known before."""
    global _asked
    if _asked:
        return False
    _asked = True
    from importlib.metadata import entry_points

    before = len(_known)
    for entry in entry_points(group=GROUP):
        try:
            register(entry.load())
        except Exception as error:  # somebody else's code: it must not stand in the way of ours
            warnings.warn(f"the log format {entry.name!r} of {entry.value} cannot be loaded: {error}", stacklevel=2)
    return len(_known) > before
