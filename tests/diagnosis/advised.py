"""Inputs and readers for the tests of advice."""

from __future__ import annotations

from typing import Any

from nanopace.diagnosis.result import Finding
from nanopace.run import Fact, Rows, Run


def run_of(**facts: Any) -> Run:
    return Run("train.log", "nanogpt", Rows(), facts={name: Fact(value, "flag") for name, value in facts.items()})


def codes(advice: list[Finding]) -> list[str]:
    return [finding.code for finding in advice]


GPT2 = {"n_layer": 12, "n_embd": 768, "vocab_size": 50304, "block_size": 1024}
