"""What the tokenizers share: ids that represent bytes, a fingerprint, and a file next to the tokens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nanopace.files import write_durably

TOKENIZER_FILE = "tokenizer.json"
FORMAT = 1  # of tokenizer.json

END_OF_TEXT = "<|endoftext|>"  # how the id between documents is shown; inside a document, this is plain text
REPLACEMENT = "\ufffd"


def fingerprint(kind: str, *parts: Iterable[bytes]) -> str:
    """A hash that identifies how text becomes ids. It includes lengths, so that vocabularies cannot collide."""
    digest = hashlib.sha256(kind.encode())
    for part in parts:
        entries = list(part)
        digest.update(b"\0%d" % len(entries))
        for entry in entries:
            digest.update(b"\0%d:" % len(entry) + entry)
    return digest.hexdigest()


def text_of(ids: Iterable[int], vocabulary: Sequence[bytes]) -> str:
    """The text that the ids represent. A model may sample anything: an invalid id or byte becomes U+FFFD."""
    known = range(len(vocabulary))
    unknown = REPLACEMENT.encode()
    return b"".join([vocabulary[each] if each in known else unknown for each in map(int, ids)]).decode(errors="replace")


def byte_counts(vocabulary: Iterable[bytes], end_of_text: int | None) -> npt.NDArray[np.int32]:
    """How many bytes of text each id represents, to turn a loss per token into bits per byte."""
    counts = np.array([len(entry) for entry in vocabulary], dtype=np.int32)
    if end_of_text is not None:
        counts[end_of_text] = 0
    return counts


def encodable(text: str) -> str:
    """The text as valid UTF-8: surrogate pairs are joined, and lone surrogates become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def write_tokenizer(directory: Path, kind: str, hash: str, **vocabulary: object) -> None:
    """Save a tokenizer next to the tokens it made."""
    content = {"nanopace": FORMAT, "kind": kind, "hash": hash, **vocabulary}
    text = json.dumps(content, separators=(",", ":")) + "\n"  # ASCII, because a lone surrogate is not valid UTF-8
    write_durably(directory / TOKENIZER_FILE, text.encode())


def _byte_letters() -> dict[str, int]:
    """GPT-2's way to write any byte as a letter: itself if printable, else the next one from U+0100 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    letters = {chr(byte): byte for byte in printable}
    for place, byte in enumerate(sorted(set(range(256)) - set(printable))):
        letters[chr(256 + place)] = byte
    return letters


BYTE_OF_LETTER = _byte_letters()


def spelled(letters: str) -> bytes:
    """The bytes of a vocabulary entry written in GPT-2's letters."""
    return bytes([BYTE_OF_LETTER[letter] for letter in letters])
