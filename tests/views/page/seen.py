"""What a browser would make of a page."""

from __future__ import annotations

import json
from html.parser import HTMLParser

DATA = 1  # of the scripts: the points of the charts; the first is in the head


class Seen(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._inside: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._inside:
            while self._inside.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if self._inside[-1:] == ["script"]:
            self.scripts[-1] += data
        elif self._inside[-1:] != ["style"]:
            self.text += data

    def with_tag(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]

    @property
    def data(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.scripts[DATA])
        return found


def plain(text: str) -> str:
    return " ".join(text.split())


def children_of(page: str, parent: str) -> list[str | None]:
    """The ids of the direct children of all such elements."""
    found: list[str | None] = []
    inside: list[str] = []

    class Children(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if inside[-1:] == [parent]:
                found.append(dict(attrs).get("id"))
            if tag not in ("input", "meta", "wbr", "path", "rect"):
                inside.append(tag)

        def handle_endtag(self, tag: str) -> None:
            if tag in inside:
                while inside.pop() != tag:
                    pass

    Children().feed(page[page.index("<body>") :])
    return found
