"""Plain text from documentation: HTML, DocBook and Mallard, man pages, info files, and what is plain text already.

`plain` takes a file's name and bytes. It knows the format by the name, and returns None for any other file.
"""

from __future__ import annotations

import bz2
import gzip
import html
import lzma
import re
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KINDS = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    **dict.fromkeys((".docbook", ".page", ".xml", ".sgml"), "xml"),
    **dict.fromkeys((".txt", ".text", ".rst", ".md", ".markdown", ".asciidoc", ".adoc"), "text"),
    ".dict": "dictionary",
    ".pod": "pod",
}
UNPACK = {".gz": gzip.decompress, ".dz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress}
MAN_PAGE = re.compile(r"/man\d\w*/[^/]+\.\d\w*$")
INFO = re.compile(r"\.info(-\d+)?$")
LARGEST = 64 << 20  # bytes: more is data, not documentation


def plain(name: str, data: bytes) -> str | None:
    """The text of a file, or None if its format is unknown or it is no text."""
    path = PurePosixPath(name)
    if path.suffix in UNPACK:
        if (kind := _kind(path.with_suffix(""))) is None:
            return None
        try:
            data = UNPACK[path.suffix](data)
        except (OSError, EOFError, zlib.error, lzma.LZMAError):
            return None
    else:
        kind = _kind(path)
    if kind is None or len(data) > LARGEST or b"\0" in data[:4096]:
        return None
    text = decoded(data)
    if kind == "xml" and not DOCUMENT_XML.search(text[:4000]):
        return None
    return CONVERT[kind](text)


def _kind(path: PurePosixPath) -> str | None:
    if path.suffix == ".en":  # apache's index.html.en
        path = path.with_suffix("")
    if MAN_PAGE.search(f"/{path}"):
        return "man"
    if INFO.search(path.name):
        return "info"
    return KINDS.get(path.suffix.lower())


def decoded(data: bytes) -> str:
    """As UTF-8 or, if it is not, as Latin-1, which anything is."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.replace("\r\n", "\n")


# --- HTML and XML ----------------------------------------------------------------------------------------------------

DOCUMENT_XML = re.compile(r"docbook|mallard|<(book|article|chapter|section|sect1|refentry)\b", re.I)
HIDDEN = re.compile(
    r"<(script|style|head|svg|noscript|template|annotation)\b[^>]*>.*?</\1\s*>|<!--.*?-->|<!\[CDATA\[|\]\]>"
    r"|<[!?](?:[^>\[]++|\[[^]]*+\]?)*+>",
    re.S | re.I,
)
TAG = re.compile(r"""<(/?)([a-zA-Z][\w:-]*)((?:[^>"']++|"[^"]*"|'[^']*'|["'])*+)>""")
LEFT_OUT = words(
    "nav header footer aside form button select map info bookinfo articleinfo legalnotice revhistory indexterm "
    "copyright author remark comment"
)
ENCLOSING = words("div ul ol table section span p td tr dl")  # elements that may be navigation
NAVIGATION = re.compile(
    r"""(?:class|id|role)\s*=\s*["']?(?:[^"'>]*\s)?(?:"""
    r"nav|navigation|navbar\w*|navheader|navfooter|navpath|navset\w*|navList\w*|nav[-_]\w+|wy-nav-side|wy-nav-top"
    r"|wy-breadcrumbs\S*|rst-footer-buttons|rst-versions|topNav|subNav|bottomNav|breadcrumbs?|prevnext|menu|skip\w*"
    r"|sphinxsidebar\w*|sidebar\w*|related|toc|toctree-wrapper|contents (?:topic|local)|topic contents|footer|search\w*"
    r"|headerlink|viewcode-link|lineno|linenos|linenodiv|tabs\d?|dynheader|dyncontent|inherit|inherit_header|copyright"
    r"""|address|langs|toplang|bottomlang)["'\s>]""",
)
PARAGRAPHS = words(
    "p div h1 h2 h3 h4 h5 h6 table ul ol dl blockquote section article main hr center body fieldset figure para "
    "simpara formalpara title subtitle sect1 sect2 sect3 sect4 chapter variablelist itemizedlist orderedlist note "
    "tip warning caution important example informalexample informaltable refsect1 refsect2 refsection refnamediv "
    "refentry abstract steps page terms list"
)
LINES = words("br tr li dt dd caption listitem varlistentry term row item member seg step")
CODE = {"pre", "programlisting", "screen", "synopsis", "literallayout", "verbatim"}
CELLS = {"td", "th", "entry"}
SPACE = re.compile(r"\s+")


def markup_text(page: str) -> str:
    """Paragraphs with an empty line between them; code keeps its lines; navigation is left out."""
    page = HIDDEN.sub("", page)
    parts: list[str] = []
    left_out, depth = "", 0  # the element that is being left out, and how deep we are in others of its name
    code = 0
    place = 0
    at_start = True  # of a line
    for tag in TAG.finditer(page):
        if not left_out and place < tag.start():
            text = page[place : tag.start()]
            if not code:
                text = SPACE.sub(" ", text)
                text = text.lstrip() if at_start else text
            if text:
                parts.append(text)
                at_start = text.endswith("\n")
        place = tag.end()
        closing, name = tag[1], tag[2].lower()
        if left_out:
            if name == left_out and not tag[3].endswith("/"):
                depth += -1 if closing else 1
                left_out = left_out if depth else ""
        elif name in CODE:
            code = max(code + (-1 if closing else 1), 0)
            parts.append("\n\n")
            at_start = True
        elif not closing and _is_navigation(name, tag[3]):
            left_out, depth = name, 1
        elif name in LINES or (name == "div" and 'class="line"' in tag[3]):
            parts.append("\n")
            at_start = True
        elif name in PARAGRAPHS and not code:
            parts.append("\n\n")
            at_start = True
        elif name in CELLS and closing:
            parts.append(" ")
    if not left_out:
        parts.append(SPACE.sub(" ", page[place:]))
    return tidy(html.unescape("".join(parts)))


def _is_navigation(name: str, attributes: str) -> bool:
    if attributes.endswith("/"):
        return False
    return name in LEFT_OUT or (name in ENCLOSING and NAVIGATION.search(attributes + " ") is not None)


def tidy(text: str) -> str:
    """Without signs for links, spaces at the end of a line, and more than one empty line."""
    text = re.sub("[¶\u200b\u00ad\uf0c1]|\\x1b\\[[\\d;]*m", "", text).replace("\u00a0", " ")
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).strip()


# --- man pages, info files and POD -----------------------------------------------------------------------------------

ESCAPES = (
    (re.compile(r"\\f(?:\(..|\[\w*\]|.)|\\s[-+]?\d|\\[&/,|^:)~!%]|\\[hvw]'[^']*'|\\[mk](?:\[\w*\]|.)"), ""),
    (re.compile(r"\\\*\([LR]\""), '"'),
    (re.compile(r"\\\*\(Aq"), "'"),
    (re.compile(r"\\\*\(.."), ""),
    (re.compile(r"\\\((?:bu|\*\*)"), "*"),
    (re.compile(r"\\\((?:em|en|hy)|\\-"), "-"),
    (re.compile(r"\\\((?:aq|cq|oq)|\\'"), "'"),
    (re.compile(r"\\\((?:lq|rq|dq)|\\\[(?:lq|rq|dq)\]|\\\*[LR]"), '"'),
    (re.compile(r"\\\(..|\\\[[^]]*\]|\\\*\[[^]]*\]|\\\".*$"), ""),
    (re.compile(r"\\[e\\]"), r"\\"),
    (re.compile(r"\\ "), " "),
)
HEADING = {"SH", "SS", "Sh", "Ss"}
PARAGRAPH = words("PP P LP TP IP HP Pp It TQ sp RS RE Bl El Bd Ed HS")
FONT = words("B I BR RB IR RI BI IB SM SB QW QR")
MDOC = re.compile(r"(?!Dd|Dt|Os|Lb|Rs|Re|Bk|Ek|Sm)[A-Z][a-z]")  # the macros of BSD's man pages
VERBATIM, FILLED = {"nf", "EX", "Vb", "CS"}, {"fi", "EE", "Ve", "CE"}  # code begins, code ends
SKIPPED = {"TS": "TE", "EQ": "EN", "de": ".", "ig": ".", "PS": "PE"}  # from one macro to the other
MDOC_WORD = re.compile(r"\b(?:A[pr]|B[cor]|Cm|D[qv]|E[mrv]|F[aln]|Ic|Li|N[mos]|O[cop]|P[acoq]|Q[lq]|S[qy]|Va|Xr)\b ?")


def man_text(page: str) -> str:
    """A man page's paragraphs: macros that set a font or a heading lose their name, tables and others are dropped."""
    return tidy(re.sub(r" *\n\n *", "\n\n", "".join(_man_parts(page))))


def _man_parts(page: str) -> Iterator[str]:
    until = ""
    filled = True  # lines are joined, and not code
    for line in page.replace("\\\n", "").splitlines():
        macro, _, rest = line[1:].strip().partition(" ") if line[:1] in {".", "'"} else ("", "", line)
        if until:
            until = "" if macro == until else until
        elif not macro and line[:1] not in {".", "'"}:
            yield _unescaped(rest) + (" " if filled and rest.strip() else "\n" if rest.strip() else "\n\n")
        elif macro in SKIPPED:
            until = SKIPPED[macro]
        elif macro in VERBATIM | FILLED:
            filled = macro in FILLED
            yield "\n\n"
        elif macro in HEADING:
            yield f"\n\n{_arguments(rest)}\n\n"
        elif macro in PARAGRAPH:
            kept = re.sub(r" ?\d+n?$", "", _arguments(rest)) if macro == "IP" else _mdoc(rest) if macro == "It" else ""
            yield f"\n\n{kept} " if kept else "\n\n"
        elif macro in FONT:
            joined = "" if len(macro) == 2 and macro not in {"SM", "SB"} else " "
            yield _arguments(rest, joined) + (" " if filled else "\n")
        elif MDOC.fullmatch(macro):
            yield _mdoc(rest) + " "


def _arguments(rest: str, joined: str = " ") -> str:
    return _unescaped(joined.join(quoted or word for quoted, word in re.findall(r'"([^"]*)"|(\S+)', rest)))


def _mdoc(rest: str) -> str:
    """Arguments without the macros among them, and without a space before a comma."""
    return re.sub(r" (?=[.,;:)]+(?: |$))", "", MDOC_WORD.sub("", _arguments(rest)))


def _unescaped(text: str) -> str:
    for pattern, sign in ESCAPES:
        text = pattern.sub(sign, text)
    return text


NODE = re.compile(r"^(?:\x1f.*|File: .*Node: .*|Tag Table:|Indirect:|Node: .*\x7f.*|Ref: .*\x7f.*|\* .*::.*)$", re.M)


def info_text(text: str) -> str:
    """An info file without the lines that only link its nodes."""
    return tidy(NODE.sub("", text.split("\x1f\nTag Table")[0]))


DATABASE = re.compile(r"^00-?database-?.*\n(?:[ \t].*\n|\n)*", re.M)  # what a dictionary says about itself
SOURCE = re.compile(r"^[ \t]*\[[\w .+]{1,30}\]\n", re.M)  # where a definition is from: [1913 Webster]


def dictionary_text(text: str) -> str:
    """A dictionary for dictd, in which all but an entry's first line is indented: a paragraph begins at each entry."""
    return tidy(re.sub(r"\n(?=\S)", "\n\n", SOURCE.sub("", DATABASE.sub("", text))))


POD_COMMAND = re.compile(r"^=(?:head\d|item) ?|^=(?:over|back|cut|pod|begin|end|for|encoding).*$", re.M)
POD_FONT = re.compile(r"\b[BCEFILSX](?:<{2,} (.*?) >{2,}|<([^<>]*)>)", re.S)
POD_LETTERS = {"lt": "<", "gt": ">", "sol": "/", "verbar": "|"}


def pod_text(text: str) -> str:
    """Perl's documentation without its commands and fonts."""
    text = POD_COMMAND.sub("", text)
    for _ in range(2):  # one in another
        text = POD_FONT.sub(_without_font, text)
    return tidy(text)


def _without_font(found: re.Match[str]) -> str:
    text = found[1] or found[2] or ""
    kind = found[0][0]
    return POD_LETTERS.get(text, "") if kind == "E" else "" if kind == "X" else text.split("|")[0]


CONVERT = {
    "html": markup_text,
    "xml": markup_text,
    "man": man_text,
    "info": info_text,
    "pod": pod_text,
    "dictionary": dictionary_text,
    "text": tidy,
}
