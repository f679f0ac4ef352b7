"""Prepare a corpus for training: a named one, or your own text, JSONL, parquet and zip files, directories and globs."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nanopace.cli.display.prepare_progress import PrepareProgress
from nanopace.cli.options import add_language, bounded, words_of
from nanopace.errors import InputError, UsageError
from nanopace.spelling import nearest

if TYPE_CHECKING:
    from nanopace.corpus.prepare.prepare import OnProgress, Recipe, Summary
    from nanopace.wording.catalog import Words

_VOCAB_SIZE = 4096
_MB = 1_000_000
_count = bounded(lambda text: int(text.replace("_", "").replace(",", "")), "number", lambda count: count >= 1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from nanopace.corpus.download.named import CORPORA

    listed = "\n".join(f"  {name:12}  {corpus.about}" for name, corpus in CORPORA.items())
    parser.epilog = f"names:\n{listed}\n\nIf interrupted, run the same command again to continue."
    parser.add_argument("sources", nargs="+", metavar="NAME|PATH", help="one of the names below, or your own files")
    parser.add_argument("--out", metavar="DIR", type=Path, help="output directory (default: data/NAME)")
    parser.add_argument("--name", metavar="NAME", help="name of the corpus (default: taken from its files)")
    parser.add_argument(
        "--tokenizer", metavar="TOKENIZER", help="gpt2 (default), bytes, chars, or bpe, which is trained on the corpus"
    )
    parser.add_argument(
        "--vocab_size", metavar="N", type=_count, help=f"vocabulary size of a bpe tokenizer (default: {_VOCAB_SIZE})"
    )
    parser.add_argument(
        "--val_fraction", metavar="F", type=float, help="fraction for validation (default: depends on the size)"
    )
    parser.add_argument("--shard_tokens", metavar="N", type=_count, help="tokens per file (default: 100,000,000)")
    parser.add_argument(
        "--text_field", metavar="NAME", help="field with the text in JSONL and parquet rows (default: text)"
    )
    parser.add_argument("--files", metavar="N", type=_count, help="only the first N files of a named corpus")
    parser.add_argument("--restart", action="store_true", help="discard what is there and start over")
    add_language(parser)


def run(args: argparse.Namespace) -> int:
    from nanopace.corpus.prepare.choose_tokenizer import check_tokenizer
    from nanopace.corpus.prepare.prepare import prepare

    words = words_of(args)
    if args.name is not None and re.search(r"[/\\]|^\.+$", args.name):
        raise UsageError("--name {name}: is a path; use --out to choose the directory", name=args.name)
    name = _corpus_name(args)
    recipe = _recipe(args, name or args.name or _name_of(args.out, args.sources))
    check_tokenizer(recipe)
    directory = args.out or Path("data", args.name or recipe.name)
    try:
        with PrepareProgress(words) as on_progress:
            files = _files(args, name, directory, on_progress)
            summary = prepare(files, directory, recipe, restart=args.restart, on_progress=on_progress)
    except KeyboardInterrupt:
        print(words.text("Interrupted. Run the same command again to continue."), file=sys.stderr)
        raise
    _show(summary, words)
    return 0


def _corpus_name(args: argparse.Namespace) -> str | None:
    """The known corpus among the sources; None if they are files."""
    from nanopace.corpus.download.named import CORPORA

    known = [source for source in args.sources if source in CORPORA]
    if not known:
        if args.files is not None:
            raise UsageError("--files works only with named corpora")
        return None
    if len(args.sources) > 1:
        raise UsageError(
            "{name}: a named corpus is prepared on its own; for a file of that name, write ./{name}", name=known[0]
        )
    name: str = known[0]
    return name


def _recipe(args: argparse.Namespace, name: str) -> Recipe:
    from nanopace.corpus.download.named import CORPORA
    from nanopace.corpus.prepare.prepare import Recipe

    tokenizer = args.tokenizer or (CORPORA[name].tokenizer if name in CORPORA else "gpt2")
    given = {knob: getattr(args, knob) for knob in ("vocab_size", "val_fraction", "shard_tokens", "text_field")}
    if tokenizer == "bpe" and args.vocab_size is None:
        given["vocab_size"] = (CORPORA[name].vocab_size if name in CORPORA else None) or _VOCAB_SIZE
    return Recipe(name=name, tokenizer=tokenizer, **{knob: value for knob, value in given.items() if value is not None})


def _name_of(out: Path | None, sources: Sequence[str]) -> str:
    """The default name of a corpus: books for books/, books.jsonl.zst and books/*.txt."""
    path = Path(sources[0]).absolute() if out is None else out.absolute()
    while re.search(r"[*?\[]", path.name):
        path = path.parent
    name = path.name if out is not None or os.path.isdir(path) else path.name.partition(".")[0]
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "corpus"


def _files(args: argparse.Namespace, name: str | None, directory: Path, on_progress: OnProgress) -> list[Path]:
    """The files to read. Those of a named corpus are downloaded to a place that other corpora made from them share."""
    from nanopace.corpus.documents.inputs import find_inputs
    from nanopace.corpus.download.fetch import download_all
    from nanopace.corpus.download.named import EMBEDDED, python_files, remote_files
    from nanopace.corpus.prepare.prepare import Status

    if name is None:
        _check_names(args.sources)
        return find_inputs(args.sources)
    if name == EMBEDDED:
        return python_files()[: args.files]
    return download_all(
        remote_files(name)[: args.files],
        directory.parent / "download" / name,
        lambda done, total, which: on_progress(Status("download", done, total, which=which)),
    )


def _check_names(sources: Sequence[str]) -> None:
    """Reject a source that is neither a file nor a pattern but close to the name of a corpus."""
    from nanopace.corpus.download.named import CORPORA

    for source in sources:
        near = None if os.path.lexists(source.replace("\0", "")) else nearest(source, CORPORA)
        if near is not None:
            raise InputError("{dataset}: no such corpus; did you mean {near}?", dataset=source, near=near)


def _show(summary: Summary, words: Words) -> None:
    from nanopace.wording.printable import clean

    counts = summary.counts
    documents = words.count(counts.documents)
    if counts.duplicates:
        documents += " " + words.text("({n} duplicates left out)", n=words.count(counts.duplicates))
    rows = [(words.text("documents"), documents)]
    rows += [(split, words.text("{tokens} tokens", tokens=words.count(n))) for split, n in summary.tokens.items()]
    tokens = sum(summary.tokens.values())
    rows.append((words.text("bytes per token"), words.number(summary.text_bytes / tokens, 2)))
    encoded = summary.encoded
    if encoded.text_bytes:
        rate = words.number(encoded.text_bytes / _MB / encoded.seconds, 1)
        rows.append((words.text("time"), f"{words.duration(summary.seconds)}, {rate} MB/s"))
    if counts.replaced:
        rows.append((words.text("not UTF-8"), words.text("{n} characters replaced", n=words.count(counts.replaced))))
    path = str(summary.directory)
    print(clean(path if encoded.text_bytes else words.text("{path}: already prepared", path=path)))
    width = max(len(label) for label, _ in rows)
    for label, value in rows:
        print(f"  {label:{width}}  {value}")
    print(clean(words.text("next: {command}", command=f"nanopace train --dataset={_dataset(summary.directory)}")))


def _dataset(directory: Path) -> str:
    """The name for `nanopace train`: without the directory if it is under data/."""
    return directory.name if directory.parent == Path("data") else str(directory)
