"""Reads a Jupyter notebook (.ipynb) as the log that its cells printed.

A notebook is one JSON document, in which the lines of a log are strings with escaped quotes and colours, among the code
that printed them. Behind this module, it is a text like any other: what the cells printed, in their order, each behind
a line that says where it begins. A table that an output shows in HTML alone is text, too, as a browser copies it: cells
are separated by tabs. Everything else that is no text, such as an image, is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nanopace.errors import NotALog
from nanopace.sources.text import CHUNK

CELL = "In [ ]:"  # before what a cell printed, as Jupyter shows it
_MOST_BYTES = 64 << 20  # of a notebook, which is parsed as a whole
_OPENING = re.compile(
    rb'(?:\xef\xbb\xbf)?\s{0,100}\{\s{0,100}"(?:cells|metadata|nbformat|nbformat_minor|worksheets)"\s{0,100}:'
)
# All that an output in HTML says as a text.
_AN_OBJECT = re.compile(rb"\s{0,9}<[\w.]{1,200} (?:object|at 0x\w{1,20})>\s{0,9}")
_BLANKS = re.compile(r"\s+")
_BETWEEN_CELLS = re.compile(r"</t[dh]> ?<t[dh]\b[^<>]{0,500}>")
_LINE_END = re.compile(r"</?(?:tr|div|p|table|thead|tbody|progress|br)\b[^<>]{0,500}>")
_TAG = re.compile(r"<[^<>]{0,500}>")


def without_notebook(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """The bytes of a file. Those of a notebook are replaced by what its cells printed.

    A notebook that is damaged or too large is left as it is: most rows can be recognised in its JSON, too.
    """
    data = next(chunks, b"")
    if _OPENING.match(data):
        data = _gathered(data, chunks)
        printed = _printed(data)
        if printed == b"":
            raise NotALog("{path}: a notebook whose cells have no text output", path=name)
        data = data if printed is None else printed
    for at in range(0, len(data), CHUNK):
        yield data[at : at + CHUNK]
    yield from chunks


def _gathered(first: bytes, chunks: Iterator[bytes]) -> bytes:
    """All bytes, or the first ones if there are too many. The rest stays in `chunks`."""
    parts, size = [first], len(first)
    while size <= _MOST_BYTES and (part := next(chunks, b"")):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _printed(data: bytes) -> bytes | None:
    """What the cells of a notebook printed; None if this is not one, or cannot be parsed."""
    import json

    from nanopace.files import takes_much_memory

    if len(data) > _MOST_BYTES or takes_much_memory(data):
        return None
    try:
        document = json.loads(data.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or "nbformat" not in document:
        return None
    sheets = [document, *_objects(document.get("worksheets"))]  # which hold the cells until version 3
    cells = (b"".join(_outputs(cell)) for sheet in sheets for cell in _objects(sheet.get("cells")))
    return b"\n".join(b"%b\n%b" % (CELL.encode(), text) for text in cells if text.strip())


def _outputs(cell: dict[str, object]) -> Iterator[bytes]:
    """The text of each output of a cell."""
    for output in _objects(cell.get("outputs")):
        if output.get("output_type") == "stream":
            yield b"".join(_texts(output.get("text")))  # the next one may continue its last line
        elif "traceback" in output:
            yield b"\n".join([b"", *_texts(output["traceback"]), b""])
        else:
            data = output.get("data", output)  # until version 3, the output itself holds the text
            if isinstance(data, dict):
                text = b"".join(_texts(data.get("text/plain", data.get("text"))))
                html = data.get("text/html", data.get("html")) if not text or _AN_OBJECT.fullmatch(text) else None
                yield b"\n%b\n" % (b"".join(_texts(html and _table(html))) or text)


def _table(html: object) -> str:
    """The text of a table in HTML; empty if there is no table, or a program in it."""
    text = b"".join(_texts(html)).decode()
    if "<table" not in text or "<script" in text or "<style" in text:
        return ""
    from html import unescape

    text = _BETWEEN_CELLS.sub("\t", _BLANKS.sub(" ", text))
    lines = _TAG.sub("", _LINE_END.sub("\n", text)).split("\n")
    return "\n".join(unescape(line.strip(" ")) for line in lines if line.strip(" "))


def _texts(found: object) -> list[bytes]:
    """A text of a notebook, which is a string or a list of them. Encoded, since one character can make a string four
    times as wide."""
    parts = found if isinstance(found, list) else [found]
    return [part.encode(errors="replace") for part in parts if isinstance(part, str)]


def _objects(found: object) -> list[dict[str, object]]:
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
