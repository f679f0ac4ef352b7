"""A JSON object in a file of bounded size, whoever wrote it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nanopace.corpus.bounded import read_bounded
from nanopace.errors import InputError


def read_object(path: Path, largest: int) -> dict[str, Any] | None:
    """None where the file holds anything else, or more bytes than `largest`: callers know what they had hoped for."""
    try:
        data = read_bounded(path, largest)
        content = None if data is None else json.loads(data)
    except OSError as error:
        raise InputError("{path}: cannot be read: {reason}", path=path, reason=error.strerror or str(error)) from None
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
