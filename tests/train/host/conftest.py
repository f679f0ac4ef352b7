from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("triton") else ["test_states.py"]
