"""A run whose log says that compile is off has no compilation in its report."""

from __future__ import annotations

import io

import pytest

from nanopace import diagnose, render
from nanopace.sources.runs import open_runs


@pytest.mark.parametrize(("compiles", "said"), [("True", True), ("False", False)])
def test_compile_is_off(compiles: str, said: bool) -> None:
    rows = "".join(f"iter {n}: loss 3.1000, time {9000 if n == 0 else 100}.00ms, mfu 12.00%\n" for n in range(60))
    log = f"Overriding: compile = {compiles}\nstep 0: train loss 4.2000, val loss 4.3000\n{rows}"
    (run,) = open_runs(io.BytesIO(log.encode()))
    diagnosis = diagnose(run)
    assert ("compilation" in render(diagnosis, lang="en")) == said
    assert ("compilation and warm-up" in render(diagnosis, format="html", lang="en")) == said
    assert ("Kompilieren" in render(diagnosis, lang="de")) == said
