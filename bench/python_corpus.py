"""Makes a corpus without a download, in nanoGPT's format for both trainers: every .py and .pyi file on this machine.

Files with the same text count once. They are ordered by hash, which also decides what is held out (2%), so the same
files give the same tokens wherever they are. bench/corpus_writer.py says which vocabulary they get.

    python bench/python_corpus.py data/code                                # a minute on 16 cores, for 400 MB
    python bench/python_corpus.py data/again --tokenizer data/code         # with an existing vocabulary
    python bench/python_corpus.py data/small --limit_mb 1 --chars          # as large as Shakespeare, by characters
"""

from __future__ import annotations

import argparse
import hashlib
import os
import site
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from glob import glob
from pathlib import Path

from corpus_writer import Document, add_options, phase, write_corpus

LARGEST_SHARE = 20  # in a small corpus no file is more than 1 / 20: otherwise one file might be all that is held out
SMALL_MB = 10  # 2% of which would be a handful of files


def default_roots() -> list[Path]:
    """Where Python and its packages usually are."""
    here = [sys.prefix, sys.base_prefix, *site.getsitepackages(), site.getusersitepackages()]
    usual = [*glob("/usr/lib/python3*"), *glob("/usr/local/lib/python3*"), "/opt"]
    return [Path(each) for each in (*here, *usual)]


def outermost(roots: Iterable[Path]) -> list[Path]:
    """The existing roots that are not inside another one."""
    found = sorted({root.resolve() for root in roots if root.is_dir()})
    return [root for root in found if not any(other in root.parents for other in found)]


def source_files(roots: Sequence[Path]) -> list[Path]:
    paths = []
    for root in roots:
        for folder, _, names in os.walk(root):
            paths += [Path(folder, name) for name in names if name.endswith((".py", ".pyi"))]
    return sorted(paths)


def read(paths: Sequence[Path]) -> list[Document]:
    """The documents by hash, each text once, without files that are empty, unreadable or not UTF-8."""
    with ThreadPoolExecutor(min(16, 2 * (os.cpu_count() or 1))) as pool:
        found = {each.digest: each for each in pool.map(_document, paths, chunksize=64) if each is not None}
    return [found[digest] for digest in sorted(found)]


def _document(path: Path) -> Document | None:
    try:
        data = path.read_bytes() if path.is_file() else b""  # reading a pipe would block
        return Document(hashlib.sha256(data).digest(), data.decode()) if data.strip() else None
    except (OSError, UnicodeDecodeError):
        return None


def limited(documents: Sequence[Document], most: int) -> list[Document]:
    """The first documents by hash, up to about `most` characters; large files are skipped."""
    taken, characters = [], 0
    for each in documents:
        if characters >= most:
            break
        if len(each.text) * LARGEST_SHARE <= most:
            taken.append(each)
            characters += len(each.text)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--roots", type=Path, nargs="+", help="folders to search (default: Python's own and /opt)")
    parser.add_argument("--limit_mb", type=float, help="about this many million characters, files chosen by hash")
    parser.add_argument("--val", type=float, help="share to hold out (default: 0.02, or 0.1 of a small corpus)")
    parser.add_argument("--chars", action="store_true", help="use characters instead of a BPE")
    args = parser.parse_args()
    small = args.limit_mb is not None and args.limit_mb <= SMALL_MB
    share = args.val if args.val is not None else 0.1 if small else 0.02
    roots = outermost(args.roots or default_roots())
    with phase(f"reading .py and .pyi files under {', '.join(map(str, roots))}"):
        paths = source_files(roots)
        documents = read(paths)
        print(f"  {len(paths):,} files, {len(documents):,} after removing duplicates and non-text", flush=True)
        if args.limit_mb is not None:
            documents = limited(documents, int(args.limit_mb * 1e6))
        characters = sum(len(each.text) for each in documents)
        print(f"  {len(documents):,} documents, {characters / 1e6:.1f}M characters", flush=True)
    write_corpus(args.out, documents, share, args.tokenizer, args.vocab, args.chars)


if __name__ == "__main__":
    main()
