"""Frozen, slotted dataclasses that cost nothing to define.

For each class, `@dataclass(frozen=True, slots=True)` writes and compiles six functions. That takes a millisecond at
every start, and its module imports `inspect`. The analyst has forty such classes and 200 ms for everything, so `Record`
does the same with ordinary methods. For `dataclasses.fields`, `replace`, `asdict` and type checkers, a Record is a
dataclass. See docs/decisions/0008-records.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar, cast, dataclass_transform

if TYPE_CHECKING:
    from dataclasses import Field


class _DescribedWhenAsked:
    """`__dataclass_fields__`, created by the dataclasses module on first access."""

    def __get__(self, instance: object, owner: type[Record]) -> dict[str, Field[Any]]:
        from dataclasses import field, fields, make_dataclass
        from functools import partial

        described: list[tuple[str, Any, Any]] = []
        for name in owner._fields:
            known = field(default_factory=partial(owner._defaults.get, name)) if name in owner._defaults else field()
            described.append((name, owner.__annotations__[name], known))
        return {each.name: each for each in fields(make_dataclass(owner.__name__, described))}


@dataclass_transform(frozen_default=True)
class _RecordType(type):
    """Turns annotations into slots and stores their defaults."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _RecordType:
        fields = tuple(namespace.get("__annotations__", ())) if bases else ()
        namespace["_defaults"] = {name: namespace.pop(name) for name in fields if name in namespace}
        namespace["_fields"] = namespace["__match_args__"] = namespace["__slots__"] = fields
        record: Any = super().__new__(mcs, name, bases, namespace)
        record._setters = tuple(vars(record)[field].__set__ for field in fields)  # bypasses __setattr__, and is fast
        return cast(_RecordType, record)


class Record(metaclass=_RecordType):
    """The base class: write `class Point(Record)` with annotated fields. Defaults are shared, so never mutate them."""

    _fields: ClassVar[tuple[str, ...]]
    _defaults: ClassVar[dict[str, Any]]
    _setters: ClassVar[tuple[Any, ...]]
    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    else:
        __dataclass_fields__ = _DescribedWhenAsked()

        def __init__(self, *values: Any, **named: Any) -> None:
            setters = self._setters
            given = len(values)
            for put, value in zip(setters, values, strict=False):
                put(self, value)
            if given < len(setters):
                for field, put in zip(self._fields[given:], setters[given:], strict=True):
                    if field in named:
                        put(self, named.pop(field))
                    elif field in self._defaults:
                        put(self, self._defaults[field])
                    else:
                        raise TypeError(f"{type(self).__name__} needs {field}")
            if named or given > len(setters):
                surplus = ", ".join(named) or "that many values"
                raise TypeError(f"{type(self).__name__} does not take {surplus}")
            self.__post_init__()

    def __post_init__(self) -> None:
        """Override this to complete or check the fields."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        shown = ", ".join(f"{field}={getattr(self, field)!r}" for field in self._fields)
        return f"{type(self).__name__}({shown})"

    def __reduce__(self) -> tuple[type[Record], tuple[object, ...]]:
        return type(self), self._values()

    def _values(self) -> tuple[object, ...]:
        return tuple([getattr(self, field) for field in self._fields])


def shown_in_a_notebook(record: Record, view: str) -> str:
    """Return the record as HTML. Views are above all records in the layers, so the view is looked up by name, and
    imported only here: reading a log never pays for it."""
    from importlib import import_module

    return str(getattr(import_module("nanopace.views.page.notebook"), view)(record))


R = TypeVar("R", bound=Record)


def field_names(record: Record | type[Record]) -> tuple[str, ...]:
    """The names of the fields, in order."""
    return record._fields


def replace(record: R, **changes: Any) -> R:
    """A copy of the record with some fields changed."""
    values = dict(zip(record._fields, record._values(), strict=True))
    return type(record)(**{**values, **changes})
