"""What a view of trials or of recommendations prints."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from nanopace.views.terminal.writer import TerminalWriter
from nanopace.wording.catalog import words


def printed(write: Callable[..., None], found: Any, lang: str = "en") -> str:
    out = io.StringIO()
    writer = TerminalWriter(out, 80, False)
    write(found, words(lang), writer)
    writer.finish()
    return out.getvalue()
