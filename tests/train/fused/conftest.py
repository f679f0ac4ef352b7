from __future__ import annotations

from importlib.util import find_spec

if find_spec("triton"):
    from .. import interpreter  # noqa: F401
else:
    collect_ignore = ["test_fast.py", "test_gpt2.py", "test_release_run.py", "test_step_in_backward.py"]
