"""The named corpora: the standard library of the running Python, and three downloads.

Each download is pinned to a revision, so that the same command gives the same tokens next year. Checksums are those of
the files at Hugging Face and GitHub; if one is missing here, Hugging Face must send it with its answer.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nanopace.corpus.download.fetch import Remote
from nanopace.corpus.download.web import hub
from nanopace.errors import InputError

EMBEDDED = "python"

_CHAR_RNN = "https://raw.githubusercontent.com/karpathy/char-rnn/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e"
_FINEWEB_EDU = "HuggingFaceFW/fineweb-edu/resolve/87f09149ef4734204d70ed1d046ddc9ca3f2b8f9/sample/10BT"
_OPENWEBTEXT = "Skylion007/openwebtext/resolve/79d93d786212f7344586290adb811d4ae6a1762c/plain_text"

_SHAKESPEARE = (1_115_394, "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed")
# Size and sha256 of sample/10BT/000_00000.parquet to 013_00000.parquet.
_FINEWEB_EDU_FILES = (
    (2152819114, "b1ba7b2ce4cb5ea6ef42dca40263eabb85f37700d01693a68e9b30a31d78e871"),
    (2152222432, "3fcf2dc69cd52503986276d3d2d26a8c356d0f2ea28a0de4fdbda8cf87755693"),
    (2151796315, "547ae182d132c9f06b6ce63149567208ea9f57630bfd9b1a2938e504f0c9ebd7"),
    (2152437524, "22184e6eb25759ddd97783751ffc73e1705dfa2542e630dae1f2a8bac8ee6ddb"),
    (2152338550, "33557ddd87a07a4ae6fcaf7a4789c7b484e5cc0c273ca12a65b74200e6d8748b"),
    (2152189947, "e08d79927ecb377786572cd854817c748ceb8880878b1a0eb91abf8c85d505ea"),
    (2152689867, "554fa2613c9261d6c9c396caab881de3160175794c6c3e1856bf28a0e9cb9b76"),
    (2150686637, "4b7d1f697d4afff7f5f65cb7aa4d83acc6db716da4d46ea23399d0c50608c6e3"),
    (2151274846, "a6d9dcc0c72ecd7c7f0173c2d06b3a4249a2ccaa94961469d1a522ca689bbf1a"),
    (2151913277, "f836cd3c70b95776699eb6c356b2dbf702816e25dcf39992f5c80a29029d23c3"),
    (2152798864, "e5a2eae25f057f0856a10bfae314c6ca8ea8bb08456d2131e9e89b2b8305e2f6"),
    (2152323681, "db71cf0425bb3d1813a09f12ff1acd6dabdfb91a2e4f141960254ee5a7f036e7"),
    (2152069689, "08b47a3e1c25161f796d2f8dbf99ccf60affdebdcea4910833d0d5783315551f"),
    (540632672, "b393f51fefab26cd6f4c8f65707c1924f6666c4961a0ebebe04bb57f7ec832de"),
)
_OPENWEBTEXT_FILES = 80
# By number. Only the first is published in several places that agree; for the others, the server must send the sha256.
_OPENWEBTEXT_KNOWN = {0: (302848326, "caed9f4b7053d7cd4d1a13ce9ec9224d84a3bba1f11579193562a7e31ebe656e")}


@dataclass(frozen=True, slots=True)
class NamedCorpus:
    """What `nanopace prepare NAME` knows about a corpus."""

    about: str
    tokenizer: str = "gpt2"
    vocab_size: int | None = None  # of a tokenizer to be trained


CORPORA: Mapping[str, NamedCorpus] = {
    EMBEDDED: NamedCorpus("the source of this Python's standard library; no download", "bpe", 2048),
    "shakespeare": NamedCorpus("tiny Shakespeare, 1 MB, split as nanoGPT does"),
    "fineweb-edu": NamedCorpus("educational web pages, the sample of 10 billion tokens, 28.5 GB"),
    "openwebtext": NamedCorpus("the open copy of GPT-2's training text, 24 GB"),
}


def remote_files(name: str) -> list[Remote]:
    """The files to download for a corpus, in order; none for the embedded one."""
    if name == "shakespeare":
        return [Remote(f"{_CHAR_RNN}/data/tinyshakespeare/input.txt", "input.txt", *_SHAKESPEARE)]
    if name == "fineweb-edu":
        datasets = f"{hub()}/datasets"
        files = [(f"{number:03}_00000.parquet", *known) for number, known in enumerate(_FINEWEB_EDU_FILES)]
        return [Remote(f"{datasets}/{_FINEWEB_EDU}/{file}", file, size, checksum) for file, size, checksum in files]
    if name == "openwebtext":
        datasets = f"{hub()}/datasets"
        names = [f"train-{number:05}-of-{_OPENWEBTEXT_FILES:05}.parquet" for number in range(_OPENWEBTEXT_FILES)]
        return [
            Remote(f"{datasets}/{_OPENWEBTEXT}/{file}", file, *_OPENWEBTEXT_KNOWN.get(number, ()))
            for number, file in enumerate(names)
        ]
    return []


def python_files(root: Path | None = None) -> list[Path]:
    """The standard library's source, by path, without files that teach a small model little.

    Left out: tests (two thirds of the library, mostly data and repetitive code), `encodings` (tables with a line per
    character), `pydoc_data` (the manual as one string literal), and files generated for this machine.
    """
    root = Path(sysconfig.get_path("stdlib")) if root is None else root
    found: list[Path] = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        names = [name for name in files if name.endswith(".py") and not name.startswith("_sysconfigdata")]
        found += [path for name in names if (path := Path(folder, name)).is_file()]
    if not found:
        raise InputError("{path}: does not contain the standard library's source; prepare files of your own", path=root)
    return sorted(found)


_LEFT_OUT = frozenset(("site-packages", "dist-packages", "test", "tests", "idle_test", "encodings", "pydoc_data"))
