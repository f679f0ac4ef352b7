"""Names: what is downloaded for them, and what the embedded corpus is made of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nanopace.corpus.download.named import CORPORA, EMBEDDED, python_files, remote_files
from nanopace.corpus.prepare.recipe import Recipe
from nanopace.errors import InputError


def test_every_name_has_a_recipe() -> None:
    for name, corpus in CORPORA.items():
        Recipe(name=name, tokenizer=corpus.tokenizer, vocab_size=corpus.vocab_size)


def test_downloads_are_pinned_to_a_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    counts = {name: len(remote_files(name)) for name in CORPORA}
    assert counts == {"python": 0, "shakespeare": 1, "fineweb-edu": 14, "openwebtext": 80}
    for remote in (remote for name in CORPORA for remote in remote_files(name)):
        assert re.fullmatch(r"https://\S+/[0-9a-f]{40}/\S+", remote.url)
        assert remote.url.endswith(remote.name)
        assert remote.sha256 is None or re.fullmatch("[0-9a-f]{64}", remote.sha256)


def test_names_of_files() -> None:
    edu, web = remote_files("fineweb-edu"), remote_files("openwebtext")
    assert edu[13].url.endswith("/datasets/HuggingFaceFW/fineweb-edu/resolve/"
                                "87f09149ef4734204d70ed1d046ddc9ca3f2b8f9/sample/10BT/013_00000.parquet")  # fmt: skip
    assert sum(remote.size or 0 for remote in edu) == 28_518_193_415
    assert len({remote.sha256 for remote in edu}) == 14
    assert web[79].url.endswith("/plain_text/train-00079-of-00080.parquet")
    assert (web[0].size, (web[0].sha256 or "")[:8]) == (302_848_326, "caed9f4b")
    assert {remote.sha256 for remote in web[1:]} == {None}  # so that the server has to name it


def test_a_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://mirror.example/hf/")
    assert remote_files("openwebtext")[0].url.startswith("http://mirror.example/hf/datasets/Skylion007/openwebtext/")


def test_the_library_of_this_python() -> None:
    files = python_files()
    assert files == sorted(files)
    names = {path.name for path in files}
    assert {"argparse.py", "dataclasses.py", "json", "tokenize.py"} - names == {"json"}
    folders = {part for path in files for part in path.parts}
    assert not folders & {"test", "tests", "site-packages", "encodings", "pydoc_data"}
    assert 5_000_000 < sum(path.stat().st_size for path in files) < 30_000_000


def test_what_is_left_out(tmp_path: Path) -> None:
    for name in ("b.py", "a/c.py", "a/test/t.py", "site-packages/s.py", "_sysconfigdata_linux.py", "data.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("pass")
    assert python_files(tmp_path) == [tmp_path / "a" / "c.py", tmp_path / "b.py"]


def test_a_python_without_its_source(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not contain the standard library's source"):
        python_files(tmp_path)
    assert EMBEDDED in CORPORA
