"""Config files are small programs. This follows them statement by statement and never runs them.

nanoGPT executes its config files one after another, on top of its defaults. Here, each statement is read from its
syntax tree, and its value computed if that is possible without running anything. If not, what it sets decides. A knob
that changes the training cannot be guessed, so the file is refused and the error names the line. Anything else is
skipped, with a note.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from nanopace.config import KNOBS
from nanopace.errors import ConfigError, Message
from nanopace.literals import UNKNOWN, Evaluator, NotLiteralError, shown

_BOOKKEEPING = ("wandb_project", "wandb_run_name")  # knobs that do not affect training
# These depend on the machine or the data unless a file sets them, so nothing can be computed from their defaults.
_DECIDED_LATER = ("device", "dtype", "compile", "backend", "vocab_size")
# Ways to set a name without naming it. Harmless uses of these are refused, too.
_INDIRECT = frozenset(
    (
        *("exec", "eval", "globals", "locals", "vars", "setattr", "modules", "import_module", "run_path"),
        *("__import__", "__dict__", "__globals__", "f_globals", "f_locals"),
    )
)
_MOST_NOTES = 10
_LONGEST_CODE = 60


class Program:
    """What config files, and flags between them, have set so far. The last setting wins."""

    def __init__(self, known: Mapping[str, object] | None = None) -> None:
        self.values: dict[str, object] = {}  # by name, including names that are not knobs
        self.lines: dict[str, int] = {}  # where the latest file first sets a name
        self._known: dict[str, object] = {"__name__": "__main__", **(known or {})}  # names that later lines may use
        self._evaluator = Evaluator(self._known)
        self._notes: dict[object, str] = {}  # by knob, or by number of the note
        self._passed_over = 0

    @classmethod
    def with_defaults(cls) -> Program:
        """A program that starts with nanoGPT's defaults, which a config file may use."""
        return cls({name: knob.default for name, knob in KNOBS.items() if name not in _DECIDED_LATER})

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages for users: what was skipped."""
        more = self._passed_over - _MOST_NOTES
        rest = [Message("more lines skipped, since nothing is executed: {count}", count=more)] if more > 0 else []
        return (*self._notes.values(), *rest)

    def set(self, name: str, value: object) -> None:
        """Assign a value, from a flag or a line."""
        self.values[name] = self._known[name] = value
        self._notes.pop(name, None)

    def follow(self, tree: ast.Module, text: str, path: str) -> None:
        """Follow one file, given its tree and its text. Errors and notes call it `path`."""
        self.lines = {}
        _File(self, text, path).follow(tree.body)

    def mark_unknown(self, name: str) -> None:
        """The name got a value that cannot be computed. A knob that does not affect training keeps its old one."""
        self._known[name] = UNKNOWN
        if name not in KNOBS:
            self.values.pop(name, None)

    def note(self, key: str | None, text: str) -> None:
        """Keep one note per knob, and a limited number for other lines."""
        if key is None:
            self._passed_over += 1
            if self._passed_over > _MOST_NOTES:
                return
        self._notes[key or self._passed_over] = text

    def value(self, node: ast.expr) -> object:
        return self._evaluator.value(node)


class _File:
    """One file of a program."""

    def __init__(self, program: Program, text: str, path: str) -> None:
        self._program = program
        self._text = text.split("\n")
        self._path = path

    def follow(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self._step(statement)

    def _step(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.AnnAssign(value=None):
                pass  # a docstring; a name without a value
            case ast.Import() | ast.ImportFrom():
                self._mark_unknown(statement)
            case ast.Assign(targets=targets, value=expression):
                self._assign(targets, expression, statement)
            case ast.AnnAssign(target=target, value=ast.expr() as expression):
                self._assign([target], expression, statement)
            case ast.AugAssign(target=ast.Name(id=name) as target, op=operation, value=expression):
                before = ast.copy_location(ast.Name(name, ast.Load()), target)
                combined = ast.copy_location(ast.BinOp(before, operation, expression), expression)
                self._assign([target], combined, statement)
            case ast.If(test=test, body=body, orelse=otherwise):
                try:
                    holds = bool(self._program.value(test))
                except NotLiteralError:
                    self._pass_over(statement)
                else:
                    self.follow(body if holds else otherwise)
            case ast.Raise():
                raise self._refused(statement.lineno)  # running it would have ended here
            case _:
                self._pass_over(statement)

    def _assign(self, targets: Sequence[ast.expr], expression: ast.expr, statement: ast.stmt) -> None:
        try:
            value = self._program.value(expression)
            pairs = [pair for target in targets for pair in _pairs(target, value)]
        except NotLiteralError as reason:
            self._pass_over(statement, reason.line)
            return
        # A line that is skipped may change a list, so nothing is computed from its name.
        fixed = not any(isinstance(each, ast.List) for each in ast.walk(expression))
        for name, each in pairs:
            self._program.lines.setdefault(name, statement.lineno)
            self._program.set(name, self._checked(name, each, statement.lineno))
            if not fixed:
                self._program.mark_unknown(name)

    def _checked(self, name: str, value: object, line: int) -> object:
        knob = KNOBS.get(name)
        if knob is None:
            return value
        fitted = knob.fitted(value) if isinstance(value, (bool, int, float, str)) else None
        if fitted is None:
            raise ConfigError(
                "{path}, line {line}: {knob} must be {kind}, not {value}",
                path=self._path,
                line=line,
                knob=name,
                kind=knob.kind,
                value=shown(value),
            )
        return fitted

    def _pass_over(self, statement: ast.stmt, line: int | None = None) -> None:
        """Skip a statement that would have to be run. `line`: the line that cannot be read."""
        line = line or statement.lineno
        names = self._mark_unknown(statement, line)
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            for name in names:
                self._program.lines.setdefault(name, statement.lineno)
        kept = [name for name in names if name in _BOOKKEEPING]
        if kept and isinstance(getattr(statement, "value", None), ast.Constant):
            raise self._refused(line)  # b'text' needs no running; it is wrong
        for name in kept:
            text = Message(
                "{path}, line {line}: {knob} stays {value}, since nothing is executed",
                path=self._path,
                line=line,
                knob=name,
                value=shown(self._program.values.get(name, KNOBS[name].default)),
            )
            self._program.note(name, text)
        if not kept:
            text = Message(
                "{path}, line {line}: skipped, since nothing is executed: {code}",
                path=self._path,
                line=line,
                code=self._code(line),
            )
            self._program.note(None, text)

    def _mark_unknown(self, statement: ast.stmt, line: int | None = None) -> list[str]:
        """Return the names that a statement may assign to. Their values are unknown from now on."""
        names = list(dict.fromkeys(_names_set(statement)))
        for name in names:
            if name == "*" or name in _INDIRECT or (name in KNOBS and name not in _BOOKKEEPING):
                raise self._refused(line or statement.lineno)
            self._program.mark_unknown(name)
        return names

    def _refused(self, line: int) -> ConfigError:
        return ConfigError(
            "{path}, line {line}: only literals and expressions of them are read; nothing is executed: {code}",
            path=self._path,
            line=line,
            code=self._code(line),
        )

    def _code(self, line: int) -> str:
        code = self._text[line - 1].strip()
        return code if len(code) <= _LONGEST_CODE else code[: _LONGEST_CODE - 1] + "…"


def _pairs(target: ast.expr, value: object) -> Iterator[tuple[str, object]]:
    """The name and value of each assignment in `a = ...` or `a, b = ...`."""
    match target:
        case ast.Name(id=name):
            yield name, value
        case ast.Tuple(elts=items) | ast.List(elts=items) if isinstance(value, tuple) and len(items) == len(value):
            for item, each in zip(items, value, strict=True):
                yield from _pairs(item, each)
        case _:
            raise NotLiteralError(target)


def _names_set(statement: ast.stmt) -> Iterator[str]:
    """Every name that a statement might set or delete, including indirect ways to do so.

    Names set in a function or class are local, unless declared `global`.
    """
    inside = isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    for node in ast.walk(statement):
        match node:
            case ast.Name(id=name) if name in _INDIRECT:
                yield name
            case ast.Attribute(attr=name) if name in _INDIRECT:
                yield name
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if not inside:
                yield name
            case ast.NamedExpr(target=ast.Name(id=name)):
                yield name
            case ast.Global(names=names):
                yield from names
            case ast.alias(name=name, asname=other) if not inside or name == "*":
                yield (other or name).partition(".")[0]
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.ExceptHandler(name=str() as name) | ast.MatchAs(name=str() as name) if not inside:
                yield name
            case ast.MatchStar(name=str() as name) | ast.MatchMapping(rest=str() as name) if not inside:
                yield name
