from __future__ import annotations

import pytest

from nanopace.sources.text import LONGEST_LINE, clean, lines, looks_binary, unify_line_ends, whole_lines, width_of


def told(*chunks: bytes) -> list[tuple[str, bool]]:
    return list(lines(chunks))


@pytest.mark.parametrize(
    ("debris", "shown"),
    [
        ("\x1b[32miter 5\x1b[0m: loss", "iter 5: loss"),
        ("\x1b]0;a title\x07iter", "iter"),
        ("^[[A^[[B^[OAiter", "iter"),
        ("it\x00er\x08 \x7f5", "iter 5"),
        ("\ufeffiter", "iter"),
        ("a^b [x] ^", "a^b [x] ^"),
        ("\x1b[2K\x1b[1Giter", "iter"),
    ],
)
def test_clean(debris: str, shown: str) -> None:
    assert clean(debris) == shown


@pytest.mark.parametrize("data", [b"a\r\nb\r\n", b"a\rb\r", b"a\nb\n", b"a\r\r\nb\r\r\r\n"])
def test_line_ends(data: bytes) -> None:
    assert unify_line_ends(data) == b"a\nb\n"
    assert told(data) == [("a", True), ("b", True)]


def test_an_overwritten_line_is_not_lost() -> None:
    assert told(b" 10%|#    |\r 20%|##   |\riter 5: loss\n") == [
        (" 10%|#    |", True),
        (" 20%|##   |", True),
        ("iter 5: loss", True),
    ]


def test_the_last_line_may_be_cut() -> None:
    assert told(b"a\nb") == [("a", True), ("b", False)]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_chunks_may_end_anywhere(size: int) -> None:
    data = "iter 1 – ä\r\niter 2\r\n\x1b[1miter 3\rx".encode()
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    assert told(*chunks) == [("iter 1 – ä", True), ("iter 2", True), ("iter 3", True), ("x", False)]


def test_bytes_that_are_no_utf8() -> None:
    assert told(b"\xff\xfe iter \xc3\n") == [("\ufffd\ufffd iter \ufffd", True)]


def test_utf16_as_windows_writes_it() -> None:
    shown = [line.strip("\ufffd") for line, _ in told("iter 1\r\niter 2\r\n".encode("utf-16"))]
    assert [line for line in shown if line] == ["iter 1", "iter 2"]


def test_an_endless_line_keeps_its_ends() -> None:
    ((line, _),) = told(b"begin", *[b"x" * 100_000] * 50, b"end\n")
    assert line.startswith("begin")
    assert line.endswith("end")
    assert len(line) <= LONGEST_LINE


@pytest.mark.parametrize("chunk", [100_000, 5000])
def test_a_line_of_64_kb_is_kept_and_a_longer_one_loses_its_middle(chunk: int) -> None:
    half = 32 * 1024

    def shown(line: bytes) -> str:
        data = line + b"\n"
        ((text, ended),) = told(*(data[at : at + chunk] for at in range(0, len(data), chunk)))
        assert ended
        return text

    assert shown(b"a" * half + b"b" * half) == "a" * half + "b" * half
    assert shown(b"a" * half + b"middle" + b"b" * half) == "a" * half + "b" * half


def test_whole_lines_keep_what_is_not_yet_ended() -> None:
    assert list(whole_lines([b"a\nb", b"c\n", b"d"])) == [(b"a\n", True), (b"bc\n", True), (b"d", False)]


def test_width() -> None:
    assert width_of(["a", "abc", "ab"]) == 3
    assert width_of([]) == 0


def test_binary() -> None:
    assert looks_binary(bytes(range(256)) * 4)
    assert looks_binary(b"\x00" * 100)
    assert not looks_binary("Größe 5\n".encode() * 5)
    assert not looks_binary("iter 5".encode("utf-16"))
    assert not looks_binary(b"\0" * 9000 + b"iter 5\n")  # a log that was emptied while a program wrote to it
    assert looks_binary(b"\0" * 9000 + b"\0\1\2\3iter")


@pytest.mark.parametrize("byte", range(128))
def test_bytes_that_no_text_has(byte: int) -> None:
    """Tabs, line ends and colour escapes are in many logs."""
    odd = byte == 127 or (byte < 32 and byte not in b"\t\n\v\f\r\x1b")
    assert looks_binary(bytes([byte]) * 11 + b"a" * 89) == odd
    assert not looks_binary(bytes([byte]) * 10 + b"a" * 90)
