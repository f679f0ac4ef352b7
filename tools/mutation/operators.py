"""Makes the mutants of a source file: each changes one comparison, constant, operator or statement."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

COMPARISONS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "*",
    ast.Pow: "*",
    ast.BitOr: "&",
    ast.BitAnd: "|",
    ast.LShift: ">>",
    ast.RShift: "<<",
}
SIGN = re.compile(rb"not\s+in\b|in\b|is\s+not\b|is\b|and\b|or\b|<<|>>|<=|>=|==|!=|\*\*|//|[<>+*/%|&-]")


@dataclass(frozen=True)
class Mutant:
    """One change: the bytes from `start` to `end` of the file become `new`."""

    path: str  # below src/nanopace
    function: str  # its qualified name; "" for code that runs on import
    number: int  # of the line
    line: str  # its text, stripped
    start: int
    end: int
    old: str
    new: str
    nth: int = 0  # among equal changes in equal lines of the file

    @cached_property
    def change(self) -> str:
        return f"{self.old} -> {self.new}"

    @property
    def key(self) -> str:
        """Stays the same as long as the line and the change do, wherever they move in the file."""
        return f"{self.path} | {self.line} | {self.change} | {self.nth}"

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.end :]


def mutants_of(path: str, source: bytes, lines: Collection[str] | None = None) -> list[Mutant]:
    """All mutants that Python can compile, each with its own key; if `lines` are given, only of those."""
    found: list[Mutant] = []
    seen: dict[str, int] = {}
    whole = ast.dump(ast.parse(source))
    for mutant in sorted(_Walk(path, source).run(), key=lambda each: (each.start, each.end, each.new)):
        if lines is not None and mutant.line not in lines:
            continue
        try:
            if ast.dump(ast.parse(mutant.apply(source))) == whole:
                continue
        except SyntaxError:
            continue
        seen[mutant.key] = seen.get(mutant.key, -1) + 1
        found.append(replace(mutant, nth=seen[mutant.key]))
    return found


def functions_of(source: bytes) -> dict[int, str]:
    """The function whose body contains each line; other lines are left out."""
    lines: dict[int, str] = {}

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = name
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{name}.{child.name}" if name else child.name
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                last = child.end_lineno or child.lineno
                lines.update(dict.fromkeys(range(child.body[0].lineno, last + 1), inner))
            visit(child, inner)

    visit(ast.parse(source), "")
    return lines


class _Walk:
    """Walks the tree. Leaves alone annotations, docstrings and code for type checkers, assertions and zip's `strict=`,
    which state what cannot happen, and the messages of exceptions."""

    def __init__(self, path: str, source: bytes) -> None:
        self.path, self.source = path, source
        self.lines = source.split(b"\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.functions = functions_of(source)

    def run(self) -> Iterator[Mutant]:
        yield from self._visit(ast.parse(self.source))

    def _visit(self, node: ast.AST) -> Iterator[Mutant]:
        if isinstance(node, ast.Assert | ast.JoinedStr) or (isinstance(node, ast.keyword) and node.arg == "strict"):
            return
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        yield from self._mutants(node)
        if isinstance(node, ast.Raise):
            return
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self._visit(child)

    def _mutants(self, node: ast.AST) -> Iterator[Mutant]:
        match node:
            case ast.Compare():
                values = [node.left, *node.comparators]
                for left, op, right in zip(values, node.ops, values[1:], strict=False):
                    for new in COMPARISONS[type(op)]:
                        yield from self._between(left, right, new)
            case ast.BoolOp():
                new = "or" if isinstance(node.op, ast.And) else "and"
                for left, right in zip(node.values, node.values[1:], strict=False):
                    yield from self._between(left, right, new)
            case ast.BinOp() if type(node.op) in ARITHMETIC and not _text(node.left):
                yield from self._between(node.left, node.right, ARITHMETIC[type(node.op)])
            case ast.AugAssign() if type(node.op) in ARITHMETIC:
                yield from self._between(node.target, node.value, ARITHMETIC[type(node.op)])
            case ast.UnaryOp(op=ast.Not() | ast.USub()):
                start = self._start(node)
                yield self._mutant(start, self._start(node.operand), "")
            case ast.Constant():
                for new in _constants(node.value):
                    yield self._mutant(self._start(node), self._end(node), new)
            case ast.Return(value=ast.expr() as value) if not _is(value, None, True, False):
                yield self._mutant(self._start(value), self._end(value), "None")
            case ast.Raise() | ast.Expr(value=ast.Call()):
                yield self._mutant(self._start(node), self._end(node), "pass")
            case ast.Break():
                yield self._mutant(self._start(node), self._end(node), "continue")
            case ast.Continue():
                yield self._mutant(self._start(node), self._end(node), "break")
            case ast.If(test=test) | ast.IfExp(test=test) if not _is(test, True, False):
                yield self._mutant(self._start(test), self._end(test), "True")
                yield self._mutant(self._start(test), self._end(test), "False")
            case ast.While(test=test) if not _is(test, False):
                yield self._mutant(self._start(test), self._end(test), "False")

    def _between(self, left: ast.expr, right: ast.expr, new: str) -> Iterator[Mutant]:
        """Change the operator between two operands; there may also be brackets and line breaks."""
        start, stop = self._end(left), self._start(right)
        if sign := SIGN.search(self.source, start, stop):
            yield self._mutant(sign.start(), sign.end(), new)

    def _mutant(self, start: int, end: int, new: str) -> Mutant:
        number = self.source.count(b"\n", 0, start) + 1
        line = self.lines[number - 1].decode().strip()
        old = " ".join(self.source[start:end].decode().split())
        return Mutant(self.path, self.functions.get(number, ""), number, line, start, end, old, new)

    def _start(self, node: ast.stmt | ast.expr) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.stmt | ast.expr) -> int:
        return self.starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)


def _constants(value: object) -> tuple[str, ...]:
    match value:
        case bool():
            return (str(not value),)
        case int():
            return ("1",) if value == 0 else ("0", "2") if value == 1 else (str(value + 1), str(value * 2))
        case float():
            return ("1.0",) if value == 0 else (repr(value * 2), repr(value / 2))
    return ()


def _is(node: ast.expr, *values: object) -> bool:
    return isinstance(node, ast.Constant) and any(node.value is value for value in values)


def _text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
