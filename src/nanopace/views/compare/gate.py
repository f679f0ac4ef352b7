"""What `nanopace gate` prints: a sentence for each check."""

from __future__ import annotations

from nanopace.diagnosis.compare.gate import Check, Gate
from nanopace.diagnosis.result import Number
from nanopace.wording.catalog import Words
from nanopace.wording.gates import BY_ITERATION, COMPARED, GATES

_MOST_DIGITS = 4
_SIGNED = frozenset(("change", "low", "high", "lowest", "highest"))
_SHARES = frozenset(("limit", "least_limit", "mfu", "overhead"))


def sentences(gate: Gate, words: Words) -> list[str]:
    """One for each check, in the order of the checks."""
    return [_sentence(check, words) for check in gate.checks]


def _sentence(check: Check, words: Words) -> str:
    values: dict[str, object] = {name: _shown(check, name, each, words) for name, each in check.numbers.items()}
    for unit in ("ms", "tokens_per_s"):
        new, base = check.numbers.get(f"new_{unit}"), check.numbers.get(f"base_{unit}")
        if isinstance(new, float) and isinstance(base, float):
            values[f"new_{unit}"], values[f"base_{unit}"] = words.apart(f"new_{unit}", new, base)
    if "change" in values:
        values["compared"] = words.say(COMPARED, values)
    said = words.say(GATES[check.code], values)
    if check.by_iteration:
        said = f"{said} {words.text(BY_ITERATION)}"
    return said if check.because is None else f"{said} {words.finding(check.because.code, check.because.numbers)}"


def _shown(check: Check, name: str, number: Number, words: Words) -> str | None:
    """A number with as many digits as comparing it with its limit needs."""
    if number is None:
        return None
    if not isinstance(number, float):
        return words.value(name, number)
    if check.check == "max_step_ratio":
        return words.number(number, None if name == "limit" else 4)
    if name in _SIGNED:
        return words.percent(number, 2, signed=True)
    if name in _SHARES:
        return words.percent(number, _digits(number) if name == "limit" else 2)
    return words.value(name, number)


def _digits(share: float) -> int:
    """As few decimals as the percentage was typed with."""
    return next((digits for digits in range(_MOST_DIGITS) if abs(round(100 * share, digits) / 100 - share) < 1e-9), 4)
