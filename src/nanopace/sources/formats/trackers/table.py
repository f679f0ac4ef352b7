"""Their declarations: light, since every log is looked at with them. Readers are imported when needed."""

from __future__ import annotations

from nanopace.sources.log_format import LogFormat

FORMATS: tuple[LogFormat, ...] = ()
