"""A disk that loses power: every state in which a cut may leave a directory, given everything that was done to it.

The model is that of crash-consistency checkers (ALICE, CrashMonkey), and as harsh as POSIX allows. Data written to a
file survives after an fsync of that file, changes to the names in a directory after an fsync of that directory.
Everything else may survive or not, in any order: data without its name, a name without its data, a rename without the
one before it. Only a rename itself is atomic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree

Tree = Mapping[str, bytes | None]  # by path below the root; None for a directory
Kept = Mapping[int, "Change"]  # what survived of the unsynced operations, by their number


class Node:
    """A file or a directory, whatever its current name."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names in a directory that were added, removed, or both at once."""

    node: Node
    changes: Mapping[str, Node | None]


@dataclass(frozen=True, slots=True)
class Data:
    node: Node
    at: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Size:
    node: Node
    size: int


@dataclass(frozen=True, slots=True)
class Sync:
    """An fsync of a file's data, or of a directory's names."""

    node: Node
    site: str | None  # our line that requested it


@dataclass(frozen=True, slots=True)
class Mark:
    """Not a disk operation: a promise was made here, which must hold from now on."""

    promise: object


Change = Names | Data | Size
Operation = Change | Sync | Mark


@dataclass(frozen=True, slots=True)
class State:
    """What a power cut has left."""

    tree: Tree
    promises: tuple[object, ...]  # until then
    after: int  # operations
    lost: str


def write(tree: Tree, root: Path) -> None:
    """Replace whatever is at `root` with this state."""
    rmtree(root, ignore_errors=True)
    root.mkdir()
    for path, data in tree.items():
        if data is None:
            (root / path).mkdir()
        else:
            (root / path).write_bytes(data)


@dataclass(slots=True)
class Trace:
    """Everything that was done to a directory, in order."""

    root: Node
    directories: set[Node]
    operations: list[Operation] = field(default_factory=list)
    first: int = 0  # the first operation that a cut may undo: earlier ones describe what already existed

    @property
    def sites(self) -> set[str]:
        return {each.site for each in self.operations if isinstance(each, Sync) and each.site is not None}

    def without(self, site: str) -> Trace:
        """The trace as if that line had not synced."""
        left = [each for each in self.operations if not isinstance(each, Sync) or each.site != site]
        return Trace(self.root, self.directories, left, self.first)

    def whole(self) -> Tree:
        """The state with everything done and nothing lost."""
        changes = {n: each for n, each in enumerate(self.operations) if isinstance(each, Change)}
        return self._tree(changes, {})

    def states(self) -> Iterator[State]:
        """All states; those that lose everything of one kind come first, since they usually expose a missing fsync."""
        seen: set[object] = set()
        contents: dict[object, bytes] = {}
        safe_after = self._safe_after()
        for ways in (_together, _one_by_one):
            for after in range(self.first, len(self.operations) + 1):
                done = self.operations[:after]
                changes = {n: each for n, each in enumerate(done) if isinstance(each, Change)}
                safe = {n: each for n, each in changes.items() if safe_after[n] < after}
                pending = {n: each for n, each in changes.items() if n not in safe}
                promises = tuple(each.promise for each in done if isinstance(each, Mark))
                for lost, kept in ways(pending):
                    tree = self._tree({**safe, **kept}, contents)
                    key = frozenset(tree.items()), len(promises)
                    if key not in seen:
                        seen.add(key)
                        yield State(tree, promises, after, lost)

    def _safe_after(self) -> list[float]:
        """For each operation, the number of the fsync that makes it safe."""
        following: dict[Node, int] = {}
        found: list[float] = []
        for number, each in reversed(list(enumerate(self.operations))):
            if isinstance(each, Sync):
                following[each.node] = number
            found.append(float("inf") if isinstance(each, Mark) else following.get(each.node, float("inf")))
        return found[::-1]

    def _tree(self, changes: Kept, contents: dict[object, bytes]) -> Tree:
        names: dict[Node, dict[str, Node]] = {}
        written: dict[Node, list[tuple[int, Data | Size]]] = {}
        for number in sorted(changes):
            match changes[number]:
                case Names(node, renamed):
                    here = names.setdefault(node, {})
                    for name, target in renamed.items():
                        here.pop(name, None)
                        if target is not None:
                            here[name] = target
                case Data() | Size() as change:
                    written.setdefault(change.node, []).append((number, change))
        tree: dict[str, bytes | None] = {}

        def walk(directory: Node, below: str) -> None:
            for name, node in sorted(names.get(directory, {}).items(), key=lambda item: item[0]):
                if node in self.directories:
                    tree[below + name] = None
                    walk(node, f"{below}{name}/")
                else:
                    parts = written.get(node, [])
                    key = node, *((number, type(each), getattr(each, "data", None)) for number, each in parts)
                    if key not in contents:
                        contents[key] = _content([each for _, each in parts])
                    tree[below + name] = contents[key]

        walk(self.root, "")
        return tree


def _content(changes: Sequence[Data | Size]) -> bytes:
    content = bytearray()
    for each in changes:
        if isinstance(each, Size):
            content = content[: each.size].ljust(each.size, b"\0")
        else:
            content = content.ljust(each.at, b"\0")
            content[each.at : each.at + len(each.data)] = each.data
    return bytes(content)


# --- what may be lost ------------------------------------------------------------------------------------------------

Ways = Iterator[tuple[str, Kept]]


def _together(pending: Kept) -> Ways:
    names = {n: each for n, each in pending.items() if isinstance(each, Names)}
    data = {n: each for n, each in pending.items() if n not in names}
    yield "nothing", pending
    yield "everything", {}
    yield "data", names
    yield "names", data
    yield "data, of which there is the size", names | _damaged(data, lambda each: bytes(len(each)))
    yield "the second half of each write", names | _damaged(data, lambda each: each[: len(each) // 2])


def _damaged(data: Kept, damage: Callable[[bytes], bytes]) -> dict[int, Change]:
    return {
        n: Data(each.node, each.at, damage(each.data)) if isinstance(each, Data) else each for n, each in data.items()
    }


def _one_by_one(pending: Kept) -> Ways:
    names = {n: each for n, each in pending.items() if isinstance(each, Names)}
    for number, each in pending.items():
        yield f"operation {number}", {n: other for n, other in pending.items() if n != number}
        if number in names:
            others = names.keys() - {number}
            yield f"names but those of {number}", {n: other for n, other in pending.items() if n not in others}
            yield f"all but the names of {number}", {number: each}
        else:
            yield f"data but that of {number}", {**names, number: each}
