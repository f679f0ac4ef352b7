"""A JSON object in a file of bounded size, whoever wrote it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nanopace.errors import InputError


def read_object(path: Path, largest: int) -> dict[str, Any] | None:
    """None where the file holds anything else, or more bytes than `largest`: callers know what they had hoped for."""
    try:
        with path.open("rb") as file:
            data = file.read(largest + 1)
        content = json.loads(data) if len(data) <= largest else None
    except OSError as error:
        raise InputError("{path}: cannot be read: {reason}", path=path, reason=error.strerror or str(error)) from None
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
