"""Finds the four GPT-2 models by nanoGPT's names for them on this machine, and downloads them on request.

They are in a directory of that name, or in huggingface_hub's download cache, which all programs share:

    <cache>/models--openai-community--gpt2-xl/refs/main              holds the name of a snapshot
    <cache>/models--openai-community--gpt2-xl/snapshots/<commit>/    links to the files
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from nanopace.errors import InputError, UsageError
from nanopace.files import read_bounded
from nanopace.train.formats.huggingface_files import CONFIG, WEIGHTS

_NAMES = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
_OWNER = "openai-community"  # their owner on the hub; they used to have none
_FILES = (CONFIG, WEIGHTS[0], "vocab.json", "merges.txt")
_LONGEST_REASON = 200


def is_of_the_hub(name: str) -> bool:
    """Whether it names a GPT-2, with or without the owner."""
    return name.removeprefix(f"{_OWNER}/") in _NAMES


def find_model(name: str, download: bool = False) -> Path:
    """The path of the weights that --init_from names: a path or a GPT-2, which `download` fetches if necessary."""
    if not is_of_the_hub(name):
        if Path(name).exists():
            return Path(name)
        raise UsageError(
            "--init_from={name}: no such file or directory; the models known by name are {known}",
            name=name,
            known=", ".join(_NAMES),
        )
    short = name.removeprefix(f"{_OWNER}/")
    found = next(filter(_is_complete, (Path(short), *_snapshots(short))), None)
    if found is not None:
        return found
    if download:
        return _downloaded(short)
    if Path(name).exists():
        return Path(name)  # something else with this name: reading it will report what is wrong
    raise UsageError(
        "--init_from={name}: is neither in ./{short} nor in the Hugging Face cache; get it with --download, or "
        "with: {command}",
        name=name,
        short=short,
        command=f"hf download {_OWNER}/{short} {' '.join(_FILES)} --local-dir {short}",
    )


def _is_complete(directory: Path) -> bool:
    """Whether it has config and weights. A link to a file that was never downloaded does not count."""
    return (directory / CONFIG).is_file() and any((directory / name).is_file() for name in WEIGHTS)


def _snapshots(name: str) -> Iterator[Path]:
    """The snapshots in the cache, the current `main` first."""
    for folder in (f"models--{_OWNER}--{name}", f"models--{name}"):
        try:
            main = (read_bounded(_cache() / folder / "refs" / "main", 100) or b"").decode("ascii", "replace").strip()
        except OSError:
            main = ""
        try:
            found = sorted((_cache() / folder / "snapshots").iterdir())
        except OSError:
            continue
        yield from sorted(found, key=lambda path: path.name != main)


def _cache() -> Path:
    """The cache directory, found as huggingface_hub does."""
    known = os.environ
    caches = known.get("XDG_CACHE_HOME") or "~/.cache"
    home = known.get("HF_HOME") or os.path.join(caches, "huggingface")
    cache = known.get("HF_HUB_CACHE") or known.get("HUGGINGFACE_HUB_CACHE") or os.path.join(home, "hub")
    return Path(os.path.expandvars(os.path.expanduser(cache)))


def _downloaded(name: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise UsageError("--download needs huggingface_hub: pip install huggingface_hub") from None
    repository = f"{_OWNER}/{name}"
    try:
        found = Path(snapshot_download(repository, allow_patterns=list(_FILES), cache_dir=str(_cache())))
    except Exception as error:  # the library's exceptions for a missing network keep changing
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(
            "{name}: cannot be downloaded: {reason}", name=repository, reason=lines[0][:_LONGEST_REASON]
        ) from None
    if not _is_complete(found):
        raise InputError("{path}: was downloaded, but {file} is not in it", path=found, file=WEIGHTS[0])
    return found
