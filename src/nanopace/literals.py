"""Python's literals, and arithmetic on them: read from a syntax tree, never run.

Every value is bounded, so that no text (`9**9**9`, ten thousand brackets) costs more than a moment to read.
"""

from __future__ import annotations

import ast
import math
import operator
import reprlib
from collections.abc import Callable, Mapping

Value = bool | int | float | str

_LARGEST_INT = 1 << 63  # no count of anything in a training run is near it
_LONGEST_TEXT = 4096
_DEEPEST = 50


_ARITHMETIC: Mapping[type[ast.operator], Callable[[float, float], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


class NotLiteralError(Exception):
    """Something that would have to be run to be known. Whoever reads the file says it to the person."""

    def __init__(self, node: ast.expr) -> None:
        self.line = node.lineno
        super().__init__(f"line {node.lineno}")


def evaluate(node: ast.expr, known: Mapping[str, object], depth: int = 0) -> object:
    """The value of a literal, or of arithmetic on literals and known names; NotLiteralError for anything else."""
    if depth > _DEEPEST:
        raise NotLiteralError(node)
    match node:
        case ast.Constant(value=constant):
            return _bounded(constant, node)
        case ast.Name(id=name) if name in known:
            return known[name]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            value = evaluate(operand, known, depth + 1)
            if not isinstance(value, (int, float)):
                raise NotLiteralError(node)
            return -value if isinstance(sign, ast.USub) else +value
        case ast.BinOp(left=left, op=operation, right=right):
            a, b = evaluate(left, known, depth + 1), evaluate(right, known, depth + 1)
            return _bounded(_calculated(a, operation, b, node), node)
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return tuple(evaluate(item, known, depth + 1) for item in items)
    raise NotLiteralError(node)


def _calculated(a: object, operation: ast.operator, b: object, node: ast.expr) -> object:
    if isinstance(a, str) and isinstance(b, str) and isinstance(operation, ast.Add):
        return a + b
    if not isinstance(a, (int, float)) or not isinstance(b, (int, float)) or type(operation) not in _ARITHMETIC:
        raise NotLiteralError(node)
    if isinstance(operation, ast.Pow) and isinstance(a, int) and abs(a) > 1 and b >= _LARGEST_INT.bit_length():
        raise NotLiteralError(node)  # before it is calculated: it would be too large, or fill the memory
    try:
        return _ARITHMETIC[type(operation)](a, b)
    except ArithmeticError:
        raise NotLiteralError(node) from None


def _bounded(value: object, node: ast.expr) -> object:
    match value:
        case None | bool():
            return value
        case int() if abs(value) < _LARGEST_INT:
            return value
        case float() if math.isfinite(value):
            return value
        case str() if len(value) <= _LONGEST_TEXT:
            return value
    raise NotLiteralError(node)


def shown(value: object) -> str:
    """A value for a message: short, whatever it holds. Tuples of tuples of the same tuples can hold 2**60 of them."""
    return _SHORT.repr(value)


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60
_SHORT.maxlevel = 2
