"""Makes a corpus of English prose and documentation from Debian's packages, in nanoGPT's format for both trainers.

It needs apt-get and dpkg-deb, and package lists (`apt-get update`), but neither root nor an installation: packages are
downloaded into the cache and read there. HTML, DocBook, man pages and info files become plain text. Other languages,
licences, changelogs, indexes and listings with little prose are left out, and a paragraph counts once.

    python bench/prose_corpus.py data/prose                         # 0.7 GB to download, then 5 minutes on two cores
    python bench/prose_corpus.py data/prose --also path/to/docs     # and the text below a folder
    python bench/prose_corpus.py data/books --packages anarchism debian-handbook --least 1

Documents are ordered by hash, which also decides what is held out (2%): the same versions of the packages give the same
tokens. A machine without apt-get needs only the folder: train.bin is what both trainers read, two bytes a token. Of 76M
tokens, xz makes 72 MB, and split -b 60M makes pieces of them.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import dropwhile, groupby
from pathlib import Path

from corpus_writer import Document, add_options, phase, write_corpus
from prose_text import plain, words

# Chosen by hand from about 700 documentation packages of Debian 12, by how much text each has that no other has (1.3 to
# 35 MB) and by a look at some: most of those that are API listings, and some others of about 1.5 MB, are not here.
# Names with a version are Debian 12's: another release leaves them out.
PACKAGES = sorted(
    words("""
        abs-guide ada-reference-manual-2020 anarchism apache2-doc aplus-fsf-doc brz-doc clang-22-doc cmake-doc
        cppreference-doc-en-html csound-doc db5.3-doc derby-doc dict-foldoc dict-gcide dpdk-doc dx-doc erlang-doc
        ffmpeg-doc freebsd-manpages gap-doc gcl-doc ghc-doc git-doc grass-doc haproxy-doc kea-doc libboost1.81-doc
        libglib2.0-doc libreoffice-help-en-us libssl-doc libstarlink-ast-doc libvirt-doc libx11-doc
        lilypond-doc-html linux-doc-6.1 llvm-22-doc manpages manpages-dev mh-book nodejs-doc octave-doc openafs-doc
        openjdk-17-doc perl-doc postfix-doc postgresql-doc-15 python-astropy-doc python-django-doc python-pandas-doc
        python-scipy-doc python-sklearn-doc python-sqlalchemy-doc python-sympy-doc python3.11-doc qtbase5-doc-html
        qtdeclarative5-doc-html r-doc-info racket-doc rust-web-doc sagemath-doc slurm-wlm-doc
        sqlite3-doc swi-prolog-doc tcl8.6-doc twisted-doc vim-doc wx3.2-doc zsh-doc
    """)
)
CACHE = Path(tempfile.gettempdir(), "prose_packages")

SHORTEST = 300  # characters of a document: less is a stub
LONGEST = 200_000  # a longer document is divided, so that a book is not held out as a whole
REPEATED = 50  # letters: a sentence of that many counts once
OFTEN = 5  # documents of a package: what so many share may be navigation
MENU = 6  # paragraphs in a row that are names: fewer may be headings and a short example
LEAST_PROSE = 0.5  # share of a document's characters that are in sentences
LEAST_LETTERS = 0.55  # share of a paragraph's characters, without spaces: less is a table of numbers, or line noise
STOP_WORDS = words(
    "the of and to in is a for that be with as are on this by it an or not from if can which at will you have may "
    "when all but used was has one more other any then must only its into also than some there these should they "
    "were their your we been do does so no what would how such i he his her had my him she who me our them"
)


# --- filters: what is no prose ---------------------------------------------------------------------------------------

LANGUAGES = (
    "ar|bg|ca|cs|da|de|el|es|et|fa|fi|fr|gl|he|hr|hu|id|it|ja|ko|lt|lv|nb|nl|nn|no|pl|pt|ro|ru|sk|sl|sr|sv|tr|uk|vi|zh"
)
OTHER_LANGUAGE = re.compile(rf"[/._](?:{LANGUAGES})(?:[_-]\w\w|\.utf-?8)?(?:[/.]|$)", re.I)
NOT_PROSE_FOLDER = re.compile(
    r"/(?:_sources|_modules|_static|src-html|class-use|hoogle|examples?|tests?|locale|\.[^/]*)/"
)
NOT_PROSE_NAME = re.compile(
    r"/(?:genindex|search|(?:py-)?modindex|index-all|theindex|bookindex|doc-index|sitemap"  # indexes
    r"|allclasses|overview-|package-(?:tree|use)|constant-values|serialized-form|help-doc"  # javadoc
    r"|hierarchy|annotated|namespace|globals|functions_|files|classes|graph_legend|dir_"  # doxygen
    r"|changelog|changes|news|history|copyright|copying|licen[sc]e|authors|contributors|thanks|todo|readme\.debian"
    r"|cmakelists|requirements|robots)[^/]*$"
    r"|(?:-members|_source|-example|_all|-tree|-index|-frame|-symbols|_8(?:c|cc|cpp|h|hh|hpp))\.html?$"
    r"|/src/.*\.html?$",  # listings
    re.I,
)
LICENCE = re.compile(
    r"\b(?:GNU (?:\w+ )+Licen[sc]e|Apache License|Public License|Licen[sc]e Agreement|COPYRIGHT NOTICE)\b", re.I
)
LICENCE_PARAGRAPH = re.compile(
    r"without warranty of any kind|redistribution and use in source and binary forms|permission is hereby granted, free"
    r"|is free software; you can redistribute it|implied warranty of merchantability|permission is granted to copy",
    re.I,
)
BOILERPLATE = re.compile(
    r"(?:Definition at line|References? |Referenced by|Reimplemented (?:from|in)|Implements |Implemented in"
    r"|Inherit(?:ed|s)|(?:Methods|Fields) inherited|All (?:Implemented|Known|Superinterfaces)|Direct Known"
    r"|List of all members|The documentation for this \w+ was|Here is the (?:call|caller) graph|This graph shows"
    r"|Go to the (?:source|docum)|Generated (?:by|on)|Created using|Built with|Last (?:updated|modified)"
    r"|This page (?:was|is)|Copyright\b|©|\(c\) |License:|SPDX|Table of Contents|Next(?: topic)?:"
    r"|Previous(?: topic)?:|Up:|\[ ?<)",
    re.I,
)
WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")
LETTERS = re.compile(r"[A-Za-z]+")
SENTENCE_END = re.compile(r"[.!?:;]\s|\n\s*[-*•]")


def letters_of(text: str) -> str:
    return "".join(LETTERS.findall(text))


def wanted_name(name: str) -> bool:
    """Whether a file may be English prose, by its path."""
    return not any(each.search(name) for each in (NOT_PROSE_FOLDER, NOT_PROSE_NAME, OTHER_LANGUAGE))


def is_sentence(paragraph: str) -> bool:
    """Whether a paragraph is English sentences: several words, and a fifth of them such as `the` and `of`."""
    found = WORD.findall(paragraph.lower())
    return len(found) >= 8 and sum(map(STOP_WORDS.__contains__, found)) >= 0.2 * len(found)


def is_numbers(paragraph: str) -> bool:
    """Whether a paragraph is a table of numbers, a ruler, or letters that are not English ones."""
    return len(letters_of(paragraph)) < LEAST_LETTERS * len("".join(paragraph.split()))


def is_boilerplate(paragraph: str) -> bool:
    """Whether a paragraph is what a documentation generator or a lawyer adds to each page."""
    return BOILERPLATE.match(paragraph.lstrip()) is not None or LICENCE_PARAGRAPH.search(paragraph) is not None


def is_licence(text: str) -> bool:
    """Whether a text begins as a licence does."""
    return LICENCE.search(text[:200]) is not None


def is_prose(paragraphs: Sequence[str]) -> bool:
    """Whether a document is long enough, and sentences are most of it: not an API listing, not another language."""
    in_all = sum(map(len, paragraphs))
    return in_all >= SHORTEST and sum(len(each) for each in paragraphs if is_sentence(each)) >= LEAST_PROSE * in_all


# --- documents -------------------------------------------------------------------------------------------------------


def paragraphs_of(text: str) -> list[str]:
    """A text's paragraphs without tables of numbers and boilerplate."""
    found = (each.strip("\n").rstrip() for each in re.split(r"\n\s*\n", text))
    kept = [each for each in found if each and not is_numbers(each) and not is_boilerplate(each)]
    return [each for number, each in enumerate(kept) if number == 0 or each != kept[number - 1]]


def without_menus(paragraphs: Sequence[str]) -> list[str]:
    """Paragraphs without those that are a list of names: many short ones in a row, and no sentence among them."""
    runs = [(named, list(run)) for named, run in groupby(paragraphs, key=_is_name)]
    return [each for named, run in runs if not named or len(run) < MENU for each in run]


def _is_name(paragraph: str) -> bool:
    return len(paragraph) < 80 and not paragraph.endswith((".", "!", "?", ":", ";")) and not is_sentence(paragraph)


def without_frame(documents: Sequence[list[str]]) -> Iterator[list[str]]:
    """Documents without what many of them begin or end with: links to the next page, the name of the manual."""
    times = Counter(each for document in documents for each in set(document) if len(each) < 200)
    for document in documents:
        kept = list(dropwhile(lambda each: times[each] >= OFTEN, document))
        yield list(dropwhile(lambda each: times[each] >= OFTEN, kept[::-1]))[::-1]


def divided(paragraphs: Sequence[str], longest: int = LONGEST) -> Iterator[str]:
    """A document's text, or several of at most about `longest` characters."""
    part: list[str] = []
    length = 0
    for each in paragraphs:
        if part and length + len(each) > longest:
            yield "\n\n".join(part) + "\n"
            part, length = [], 0
        part.append(each)
        length += len(each)
    if part:
        yield "\n\n".join(part) + "\n"


class Seen:
    """The sentences so far. Two are the same if they differ only in case, digits, signs and spaces."""

    def __init__(self) -> None:
        self._hashes: set[bytes] = set()

    def new(self, paragraphs: Sequence[str]) -> list[str]:
        """The paragraphs that are new; none if they are less than half of the document, which then is a copy."""
        kept = [each for each in paragraphs if self._is_new(each)]
        return kept if 2 * sum(map(len, kept)) >= sum(map(len, paragraphs)) else []

    def _is_new(self, paragraph: str) -> bool:
        """Whether less than half of a paragraph's sentences are known: formats divide a text in different ways."""
        letters = [letters_of(each) for each in SENTENCE_END.split(paragraph.lower())]
        found = {_hash(each) for each in [*letters, "".join(letters)] if len(each) >= REPEATED}
        known = len(found & self._hashes)
        self._hashes |= found
        return not found or 2 * known < len(found)


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


Files = Iterable[tuple[str, Callable[[], bytes]]]  # name, and how to read it


def documents_in(files: Files) -> list[list[str]]:
    """The paragraphs of each file that is English prose."""
    found: dict[str, list[str]] = {}
    for name, read in files:
        if not wanted_name(name):
            continue
        text = plain(name, read())
        if text and not is_licence(text) and is_prose(paragraphs := without_menus(paragraphs_of(text))):
            found[name] = paragraphs
    return [each for each in without_frame([found[name] for name in one_format(found)]) if is_prose(each)]


def one_format(names: Iterable[str]) -> list[str]:
    """The names without files that are likely to be an HTML page once more: its source, or the manual for info."""
    names = list(names)
    pages = {_stem(name) for name in names if ".htm" in name}
    return [name for name in names if ".htm" in name or not (pages and (".info" in name or _stem(name) in pages))]


def _stem(name: str) -> str:
    return name.rpartition("/")[2].partition(".")[0]


# --- sources ---------------------------------------------------------------------------------------------------------


def download(packages: Sequence[str], cache: Path) -> list[Path]:
    """The packages in the cache, after downloading those that are not there; a line for each that is not found."""
    for tool in ("apt-get", "dpkg-deb") if packages else ():
        if shutil.which(tool) is None:
            raise SystemExit(
                f"{tool} not found: packages need Debian or Ubuntu; for folders alone: --packages --also DIR"
            )
    cache.mkdir(parents=True, exist_ok=True)
    found = [max(cache.glob(f"{each}_*.deb"), default=None) or _downloaded(each, cache) for each in packages]
    return [path for path in found if path is not None]


def _downloaded(package: str, cache: Path) -> Path | None:
    command = ["apt-get", "download", "-q", package]
    with tempfile.TemporaryDirectory(dir=cache) as folder:  # what was interrupted must not look complete
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        for path in Path(folder).glob("*.deb") if done.returncode == 0 else ():
            print(f"  {package}: {path.stat().st_size / 1e6:.1f} MB", flush=True)
            return path.rename(cache / path.name)
    reasons = [line.removeprefix("E: ") for line in done.stderr.splitlines() if line.startswith("E: ")]
    print(f"  {package}: left out: {reasons[0] if reasons else 'apt-get downloaded nothing'}", flush=True)
    return None


def documents_of(source: Path) -> list[list[str]]:
    """The documents of a Debian package, or of all files below a folder; none if it is not a package."""
    if source.is_dir():
        paths = sorted(path for path in source.rglob("*") if path.is_file() and not path.is_symlink())
        return documents_in(("/" + path.relative_to(source).as_posix(), partial(_bytes, path)) for path in paths)
    command = ["dpkg-deb", "--fsys-tarfile", str(source)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as unpacking:
        assert unpacking.stdout is not None
        try:
            with tarfile.open(fileobj=unpacking.stdout, mode="r|") as archive:
                return documents_in(_members(archive))
        except tarfile.TarError:
            return []


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # we may not read it


def _members(archive: tarfile.TarFile) -> Files:
    for member in archive:
        if member.isfile():  # a link leads to a file that is read as itself
            yield member.name.removeprefix("."), partial(_content, archive, member)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return b"" if file is None else file.read()


def collect(sources: Sequence[Path]) -> list[Document]:
    """The documents of all sources by hash, each paragraph once: the first source that has it keeps it."""
    seen = Seen()
    found: dict[bytes, Document] = {}
    with multiprocessing.get_context("fork").Pool(initializer=_uninterrupted) as pool:
        for source, documents in zip(sources, pool.imap(documents_of, sources), strict=True):
            new = [kept for each in documents if is_prose(kept := seen.new(each))]
            texts = [Document.of(text) for each in new for text in divided(each)]
            found |= {each.digest: each for each in texts}
            characters = sum(len(each.text) for each in texts)
            name = source.name.removesuffix(".deb")
            print(f"  {name}: {len(texts):,} documents, {characters / 1e6:.2f}M characters", flush=True)
    return [found[digest] for digest in sorted(found)]


def _uninterrupted() -> None:
    """Leave an interruption to the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"where packages are kept (default: {CACHE})")
    parser.add_argument("--packages", nargs="*", default=PACKAGES, help="Debian packages (default: the list in here)")
    parser.add_argument("--also", type=Path, nargs="+", default=[], metavar="DIR", help="folders with more text")
    parser.add_argument("--least", type=float, default=60, help="fail below this many million tokens in train.bin")
    parser.add_argument("--val", type=float, default=0.02, help="share to hold out (default: 0.02)")
    args = parser.parse_args()
    for folder in args.also:
        if not folder.is_dir():
            parser.error(f"--also {folder}: no such folder")
    try:
        with phase(f"downloading into {args.cache}"):
            sources = [*download(args.packages, args.cache), *args.also]
        with phase("reading"):
            documents = collect(sources)
            characters = sum(len(each.text) for each in documents)
            print(f"  {len(documents):,} documents, {characters / 1e6:.1f}M characters", flush=True)
        tokens = write_corpus(args.out, documents, args.val, args.tokenizer, args.vocab)
    except KeyboardInterrupt:
        raise SystemExit("interrupted: what is downloaded is kept") from None
    if tokens["train"] < args.least * 1e6:
        raise SystemExit(f"{tokens['train'] / 1e6:.1f}M tokens in train.bin are fewer than --least {args.least:g}")


if __name__ == "__main__":
    main()
