"""Makes a corpus without a download, in nanoGPT's format for both trainers: every .py and .pyi file on this machine.

Files with the same text count once. They are ordered by hash, which also decides what is held out (2%), so the same
files give the same tokens wherever they are. The vocabulary is a byte-level BPE of 50,256 entries, trained on every
fourth file, plus an end of text before each document: 50,257 in all, rounded up to 50,304 in both trainers.

    python bench/python_corpus.py data/code                                # a minute on 16 cores, for 400 MB
    python bench/python_corpus.py data/again --tokenizer data/code         # with an existing vocabulary
    python bench/python_corpus.py data/small --limit_mb 1 --chars          # as large as Shakespeare, by characters

`nanopace prepare --tokenizer bpe` can make such a corpus, too, and this script uses its BPE and its tokenizer.json. It
does not use the rest: prepare reads files in pieces, in little memory, and encodes with tiktoken, which may be missing
here.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import pickle
import site
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np

from nanopace.corpus.tokenizers.bpe import TrainedBpe, train
from nanopace.corpus.tokenizers.characters import Characters
from nanopace.corpus.tokenizers.tokenizer import Tokenizer, load_tokenizer

EVERY = 4  # the vocabulary is trained on one file in this many
LARGEST_SHARE = 20  # in a small corpus no file is more than 1 / 20: otherwise one file might be all that is held out
SMALL_MB = 10  # 2% of which would be a handful of files
ROUND = 64  # vocabularies are rounded up to a multiple of this
PIECE = 1 << 20  # characters that a process encodes at a time, or one file


@dataclass(frozen=True, slots=True)
class Document:
    digest: bytes  # sha256 of the text
    text: str

    def held_out(self, share: float) -> bool:
        """Decided by the end of the hash: its start orders the documents, and a small corpus ends early."""
        return int.from_bytes(self.digest[-8:]) < share * 2**64


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


# --- tokens ----------------------------------------------------------------------------------------------------------


def pieces(documents: Sequence[Document]) -> Iterator[list[str]]:
    """The texts in order, about PIECE characters at a time."""
    gathered: list[str] = []
    characters = 0
    for each in documents:
        gathered.append(each.text)
        characters += len(each.text)
        if characters >= PIECE:
            yield gathered
            gathered, characters = [], 0
    if gathered:
        yield gathered


_encoder: Any = None  # Hugging Face's; the processes that encode inherit it


def _ids(texts: Sequence[str]) -> np.ndarray:
    """The ids of some texts, with an end of text before each."""
    between = np.array([_encoder.token_to_id("<|endoftext|>")], dtype=np.uint16)
    encoded = [np.array(each.ids, dtype=np.uint16) for each in _encoder.encode_batch(texts, add_special_tokens=False)]
    return np.concatenate([part for each in encoded for part in (between, each)])


def encode(tokenizer: Tokenizer, documents: Sequence[Document], path: Path) -> int:
    """Write the tokens of all documents, and return their number.

    Threads of one process share a cache of words and free each other's memory; processes do not, and stay fast on many
    cores. They return only uint16 arrays.
    """
    global _encoder
    if not isinstance(tokenizer, TrainedBpe):
        return _write(path, (np.asarray(tokenizer.encode(each.text), dtype=np.uint16) for each in documents), documents)
    _encoder = tokenizer.huggingface()
    _encoder.encode_special_tokens = True  # an end of text that a file only mentions is plain text
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with multiprocessing.get_context("fork").Pool() as pool:
        return _write(path, pool.imap(_ids, pieces(documents)), documents)


def _write(path: Path, parts: Iterable[np.ndarray], documents: Sequence[Document]) -> int:
    tokens, shown = 0, time.monotonic()
    characters = sum(len(each.text) for each in documents)
    with path.open("wb") as file:
        for part in parts:
            part.tofile(file)
            tokens += len(part)
            if time.monotonic() - shown >= 5:
                shown = time.monotonic()
                print(
                    f"  {path.name}: {tokens / 1e6:.1f}M tokens, {characters / 1e6:.0f}M characters in all", flush=True
                )
    return tokens


def make_tokenizer(documents: Sequence[Document], given: Path | None, entries: int, chars: bool) -> Tokenizer:
    if given is not None:
        found = load_tokenizer(given if given.is_dir() else given.parent)
        if found is None:
            raise SystemExit(f"{given}: no tokenizer.json found")
        return found
    if chars:
        return Characters(sorted(set().union(*(each.text for each in documents))))
    return train((each.text for each in documents[::EVERY]), entries + 1)


def rounded_up(vocab_size: int) -> int:
    return -(-vocab_size // ROUND) * ROUND


def write_meta(directory: Path, tokenizer: Tokenizer) -> int:
    """Write meta.pkl, from which nanoGPT reads the vocabulary size, and its sample.py also the characters."""
    chars = tokenizer.alphabet if isinstance(tokenizer, Characters) else ()
    size = tokenizer.vocab_size if chars else rounded_up(tokenizer.vocab_size)
    meta: dict[str, Any] = {"vocab_size": size}
    if chars:
        meta |= {"itos": dict(enumerate(chars)), "stoi": {each: number for number, each in enumerate(chars)}}
    (directory / "meta.pkl").write_bytes(pickle.dumps(meta))
    tokenizer.save(directory)
    return size


# --- the command -----------------------------------------------------------------------------------------------------


@contextmanager
def _phase(name: str) -> Iterator[None]:
    print(f"{name} ...", flush=True)
    begin = time.monotonic()
    yield
    print(f"  {time.monotonic() - begin:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--roots", type=Path, nargs="+", help="folders to search (default: Python's own and /opt)")
    parser.add_argument("--limit_mb", type=float, help="about this many million characters, files chosen by hash")
    parser.add_argument("--vocab", type=int, default=50256, help="BPE entries, without the end of text")
    parser.add_argument("--chars", action="store_true", help="use characters instead of a BPE")
    parser.add_argument("--tokenizer", type=Path, help="use this tokenizer.json instead of training one")
    parser.add_argument("--val", type=float, help="share to hold out (default: 0.02, or 0.1 of a small corpus)")
    args = parser.parse_args()
    small = args.limit_mb is not None and args.limit_mb <= SMALL_MB
    share = args.val if args.val is not None else 0.1 if small else 0.02
    roots = outermost(args.roots or default_roots())
    with _phase(f"reading .py and .pyi files under {', '.join(map(str, roots))}"):
        paths = source_files(roots)
        documents = read(paths)
        print(f"  {len(paths):,} files, {len(documents):,} after removing duplicates and non-text", flush=True)
        if args.limit_mb is not None:
            documents = limited(documents, int(args.limit_mb * 1e6))
        characters = sum(len(each.text) for each in documents)
        print(f"  {len(documents):,} documents, {characters / 1e6:.1f}M characters", flush=True)
    kept = {
        "train": [each for each in documents if not each.held_out(share)],
        "val": [each for each in documents if each.held_out(share)],
    }
    if not all(kept.values()):
        raise SystemExit("too little text to hold some out: add --roots, or raise --limit_mb")
    with _phase("building the vocabulary"):
        tokenizer = make_tokenizer(documents, args.tokenizer, args.vocab, args.chars)
        if tokenizer.vocab_size > 1 << 16:
            raise SystemExit(f"{tokenizer.vocab_size:,} entries do not fit in nanoGPT's uint16")
        print(f"  {tokenizer.kind}, {tokenizer.vocab_size:,} entries", flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    with _phase("encoding"):
        tokens = {name: encode(tokenizer, each, args.out / f"{name}.bin") for name, each in kept.items()}
    size = write_meta(args.out, tokenizer)
    counts = ", ".join(f"{name} {count:,} tokens from {len(kept[name]):,} documents" for name, count in tokens.items())
    print(f"{args.out}: {counts}")
    print(f"vocab_size = {size} (nanoGPT reads it from meta.pkl; give nanopace --vocab_size={size})")


if __name__ == "__main__":
    main()
