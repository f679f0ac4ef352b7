from __future__ import annotations

from importlib.util import find_spec

if find_spec("triton"):
    from .. import interpreter  # noqa: F401
