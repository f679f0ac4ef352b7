"""nanopace: train GPTs on the GPU you have, and know where every millisecond goes.

from nanopace import open_run, diagnose, compare, render

print(render(diagnose(open_run("train.log", gpu="4070"))))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nanopace.version import __version__

if TYPE_CHECKING:
    from nanopace.api import compare, diagnose, open_run, open_runs, render
    from nanopace.clock.clock import Clock
    from nanopace.diagnosis.comparison import Comparison
    from nanopace.diagnosis.result import Diagnosis, Finding
    from nanopace.errors import NanopaceError
    from nanopace.run import Run

__all__ = [
    "Clock",
    "Comparison",
    "Diagnosis",
    "Finding",
    "NanopaceError",
    "Run",
    "__version__",
    "compare",
    "diagnose",
    "open_run",
    "open_runs",
    "render",
]

_HOME = {
    **dict.fromkeys(("compare", "diagnose", "open_run", "open_runs", "render"), "nanopace.api"),
    **dict.fromkeys(("Diagnosis", "Finding"), "nanopace.diagnosis.result"),
    "Clock": "nanopace.clock.clock",
    "Comparison": "nanopace.diagnosis.comparison",
    "NanopaceError": "nanopace.errors",
    "Run": "nanopace.run",
}


def __getattr__(name: str) -> object:
    """Import a public name on first use, so that `import nanopace` alone is instant."""
    if name not in _HOME:
        raise AttributeError(f"module 'nanopace' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
