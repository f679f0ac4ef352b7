"""What two runs are called in findings about both."""

from __future__ import annotations

from nanopace.diagnosis.result import Diagnosis


def both_names(a: Diagnosis, b: Diagnosis) -> tuple[str, str]:
    """The names of their logs, with (A) and (B) where they are the same."""
    of_a, of_b = a.source.name, b.source.name
    return (of_a, of_b) if of_a != of_b else (f"{of_a} (A)", f"{of_b} (B)")
