"""What a browser would make of a page."""

from __future__ import annotations

import json
from html.parser import HTMLParser

DATA = 1  # of the scripts: the points of the charts; the first is in the head
VOID = frozenset(("meta", "link", "input", "br", "hr", "wbr"))


class Seen(HTMLParser):
    """Elements, scripts and text. Every element must be closed in its turn."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.parents: list[str] = []  # of each element
        self.scripts: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.parents.append("".join(self.open[-1:]))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts[-1] += data
        elif self.open[-1:] != ["style"]:
            self.text += data

    def with_tag(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]

    def children_of(self, parent: str) -> list[str | None]:
        """The ids of the direct children of all such elements."""
        pairs = zip(self.parents, self.tags, strict=True)
        return [attributes.get("id") for inside, (_, attributes) in pairs if inside == parent]

    @property
    def data(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.scripts[DATA])
        return found


def plain(text: str) -> str:
    return " ".join(text.split())
