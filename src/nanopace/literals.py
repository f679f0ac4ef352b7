"""Evaluates Python literals and expressions of them from a syntax tree, without running anything.

Every value is bounded, and so is the total text created. So no program (`9**9**9`, ten thousand brackets,
`f'{x}{x}{x}'` of a long x) takes more than a moment or much memory.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import reprlib
from collections.abc import Callable, Mapping
from typing import Final

Value = bool | int | float | str

UNKNOWN: Final = object()  # the value of a name that only running Python could determine

_LARGEST_INT = 1 << 63  # no count of anything in a training run is near it
_LONGEST_TEXT = 4096
_MOST_TEXT = 1 << 20  # characters created in total, over all lines
_MOST_DIGITS = 99  # after the decimal point, in round() or a format
_DEEPEST = 50
_FORMAT = re.compile(r"(?:.?[<>=^])?[-+ ]?#?0?\d{0,3}[,_]?(?:\.\d{1,2})?[a-zA-Z%]?")  # 999 characters at most

_ARITHMETIC: Mapping[type[ast.operator], Callable[[float, float], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[..., object]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CONVERSIONS: Mapping[int, Callable[[object], str]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}


class NotLiteralError(Exception):
    """Something that would have to be run to be known. The caller reports it to the user."""

    def __init__(self, node: ast.expr) -> None:
        self.line = node.lineno
        super().__init__(f"line {node.lineno}")


def evaluate(node: ast.expr, known: Mapping[str, object]) -> object:
    """The value of one expression; see Evaluator."""
    return Evaluator(known).value(node)


class Evaluator:
    """Evaluates literals, arithmetic, comparisons, f-strings and a few functions on numbers, strings and known names.

    `known` is read at each evaluation and may change in between. As in Python, a name in it hides the function of that
    name.
    """

    def __init__(self, known: Mapping[str, object]) -> None:
        self._known = known
        self._text_left = _MOST_TEXT

    def value(self, node: ast.expr, depth: int = 0) -> object:
        """The value of an expression. NotLiteralError if it is anything else, too large, or an error in Python too."""
        if depth > _DEEPEST:
            raise NotLiteralError(node)
        try:
            return _bounded(self._found(node, depth + 1), node)
        except (ArithmeticError, ValueError, TypeError):
            raise NotLiteralError(node) from None

    def _found(self, node: ast.expr, depth: int) -> object:
        match node:
            case ast.Constant(value=constant):
                return constant
            case ast.Name(id=name) if self._known.get(name, UNKNOWN) is not UNKNOWN:
                return self._known[name]
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
                value = _number(self.value(operand, depth))
                return -value if isinstance(sign, ast.USub) else +value
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self.value(operand, depth)
            case ast.BinOp(left=left, op=operation, right=right):
                return self._calculated(self.value(left, depth), operation, self.value(right, depth))
            case ast.Compare(left=left, ops=operations, comparators=others):
                return self._compared(self.value(left, depth), operations, others, depth)
            case ast.BoolOp(op=kind, values=parts):
                return self._decisive(parts, isinstance(kind, ast.Or), depth)
            case ast.IfExp(test=test, body=body, orelse=otherwise):
                return self.value(body if self.value(test, depth) else otherwise, depth)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return tuple(self.value(item, depth) for item in items)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name not in self._known:
                return self._called(name, [self.value(each, depth) for each in arguments])
            case ast.JoinedStr(values=parts):
                return self._joined(parts, depth)
        raise NotLiteralError(node)

    def _calculated(self, a: object, operation: ast.operator, b: object) -> object:
        if isinstance(a, str) and isinstance(b, str) and isinstance(operation, ast.Add):
            return self._made(a + b)
        a, b = _number(a), _number(b)
        if isinstance(operation, ast.Pow) and isinstance(a, int) and abs(a) > 1 and b >= _LARGEST_INT.bit_length():
            raise OverflowError  # before computing it: the result would be too large or fill the memory
        if type(operation) not in _ARITHMETIC:
            raise TypeError
        return _ARITHMETIC[type(operation)](a, b)

    def _compared(self, a: object, operations: list[ast.cmpop], others: list[ast.expr], depth: int) -> bool:
        for operation, other in zip(operations, others, strict=True):
            b = self.value(other, depth)
            if type(operation) not in _COMPARISONS or isinstance(a, tuple) or isinstance(b, tuple):
                raise TypeError
            if not _COMPARISONS[type(operation)](a, b):
                return False
            a = b
        return True

    def _decisive(self, parts: list[ast.expr], stops_at: bool, depth: int) -> object:
        """The first value that decides an `and` or `or`, else the last. The rest is not evaluated."""
        value: object = None
        for part in parts:
            value = self.value(part, depth)
            if bool(value) == stops_at:
                break
        return value

    def _called(self, name: str, arguments: list[object]) -> object:
        match name, arguments:
            case "int" | "float", [bool() | int() | float() | str() as value]:
                return int(value) if name == "int" else float(value)
            case "str", [None | bool() | int() | float() | str() as value]:
                return self._made(str(value))
            case "round", [int() | float() as value]:
                return round(value)
            case "round", [int() | float() as value, int() as digits] if abs(digits) <= _MOST_DIGITS:
                return round(value, digits)
            case "min" | "max", [_, _, *_]:
                numbers = [_number(each) for each in arguments]
                return min(numbers) if name == "min" else max(numbers)
            case "len", [str() | tuple() as value]:
                return len(value)
        raise TypeError

    def _joined(self, parts: list[ast.expr], depth: int) -> str:
        """An f-string. Stops as soon as the text is too long."""
        text, length = [], 0
        for part in parts:
            if isinstance(part, ast.FormattedValue):
                text.append(self._formatted(part, depth))
            else:
                text.append(str(self.value(part, depth)))
            length += len(text[-1])
            if length > _LONGEST_TEXT:
                raise OverflowError
        return self._made("".join(text))

    def _formatted(self, part: ast.FormattedValue, depth: int) -> str:
        value = self.value(part.value, depth)
        if isinstance(value, tuple):
            raise TypeError
        if part.conversion != -1:
            value = _CONVERSIONS[part.conversion](value)
        wanted = "" if part.format_spec is None else self.value(part.format_spec, depth)
        if not isinstance(wanted, str) or _FORMAT.fullmatch(wanted) is None:
            raise TypeError
        return self._made(format(value, wanted))

    def _made(self, text: str) -> str:
        self._text_left -= len(text)
        if self._text_left < 0:
            raise OverflowError
        return text


def _number(value: object) -> int | float:
    if not isinstance(value, (int, float)):
        raise TypeError
    return value


def _bounded(value: object, node: ast.expr) -> object:
    match value:
        case None | bool() | tuple():
            return value
        case int() if abs(value) < _LARGEST_INT:
            return value
        case float() if math.isfinite(value):
            return value
        case str() if len(value) <= _LONGEST_TEXT:
            return value
    raise NotLiteralError(node)


def shown(value: object) -> str:
    """A value for a message, always short: nested tuples that repeat each other can hold 2**60 values."""
    return _SHORT.repr(value)


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60
_SHORT.maxlevel = 2
