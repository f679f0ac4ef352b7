"""`nanopace prepare`: from names and files to a corpus for training, and what it prints on the way."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanopace.cli.display import prepare_progress
from nanopace.cli.main import main
from nanopace.corpus.shards.corpus import open_corpus

from ...corpus.file_server import FileServer, serving
from ..conftest import unmeasured
from ..refused import refused

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """Stands in for GitHub and Hugging Face."""
    with serving({}) as server:
        server.names_checksums = True
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setattr("nanopace.corpus.download.named._CHAR_RNN", server.url)
        yield server


def texts(path: str, count: int = 150) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("".join(json.dumps({"text": f"some text, number {n}"}) + "\n" for n in range(count)))
    return path


# --- what is said ----------------------------------------------------------------------------------------------------


def test_the_summary(capsys: Capture) -> None:
    texts("rows.jsonl")
    assert main(["prepare", "rows.jsonl", "rows.jsonl", texts("more.jsonl", 152), "--tokenizer", "bytes"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == "data/rows"
    assert [line.split("  ")[1] for line in lines[1:-1]] == ["documents", "train", "val", "bytes per token", "time"]
    assert lines[1].endswith("152 (150 duplicates left out)")
    assert lines[4].endswith("0.95")
    assert lines[5].endswith(" MB/s")
    assert lines[-1] == "next: nanopace train --dataset=rows"
    assert err == ""
    assert open_corpus(Path("data/rows")).name == "rows"


def test_a_second_time(capsys: Capture) -> None:
    main(["prepare", texts("rows.jsonl"), "--tokenizer", "bytes"])
    first = capsys.readouterr().out.splitlines()
    assert main(["prepare", "rows.jsonl", "--tokenizer", "bytes"]) == 0
    again = capsys.readouterr().out.splitlines()
    assert again[0] == "data/rows: already prepared"
    assert again[1:4] == first[1:4]


def test_bytes_that_are_not_utf_8(capsys: Capture) -> None:
    Path("a.txt").write_bytes(b"text \xff\xfe text" * 10)
    assert main(["prepare", "a.txt", "--tokenizer", "bytes"]) == 0
    assert "not UTF-8        20 characters replaced" in capsys.readouterr().out


def test_another_language(capsys: Capture) -> None:
    assert main(["prepare", texts("rows.jsonl", 2000), "--tokenizer", "bytes", "--lang", "de"]) == 0
    assert "2.000" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["books/a.jsonl.gz"], "a"),
        (["books"], "books"),
        (["books/*.gz"], "books"),
        (["books/a.jsonl.gz", "--name", "own"], "own"),
    ],
)
def test_names(arguments: list[str], name: str) -> None:
    import gzip

    plain = Path(texts("books/a.jsonl"))
    Path("books/a.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert main(["prepare", *arguments, "--tokenizer", "bytes"]) == 0
    assert open_corpus(Path("data", name)).name == name


def test_another_place(capsys: Capture) -> None:
    assert main(["prepare", texts("a b.jsonl"), "--tokenizer", "bytes", "--out", "there/my corpus"]) == 0
    assert open_corpus(Path("there/my corpus")).name == "my-corpus"
    assert capsys.readouterr().out.endswith("--dataset=there/my corpus\n")


def test_choices() -> None:
    Path("a.jsonl").write_text("".join(json.dumps({"body": f"some text {n}"}) + "\n" for n in range(200)))
    flags = ["--vocab_size=300", "--val_fraction=0.5", "--shard_tokens", "1_000", "--text_field=body"]
    assert main(["prepare", "a.jsonl", "--tokenizer=bpe", *flags]) == 0
    corpus = open_corpus(Path("data/a"))
    assert corpus.tokenizer is not None
    assert (corpus.tokenizer.kind, corpus.vocab_size) == ("bpe", corpus.tokenizer.vocab_size)
    assert corpus.vocab_size is not None
    assert corpus.vocab_size <= 300
    assert corpus.val.tokens > corpus.train.tokens / 3
    assert len(corpus.train.shards) > 0


# --- what goes wrong -------------------------------------------------------------------------------------------------


def test_mistakes(capsys: Capture) -> None:
    assert refused(capsys, "prepare", "none.txt").startswith("none.txt: there is no file or corpus of that name")
    assert refused(capsys, "prepare", "finweb-edu") == "finweb-edu: no such corpus; did you mean fineweb-edu?"
    assert refused(capsys, "prepare", "python", "a.txt").startswith("python: a named corpus is prepared on its own")
    assert refused(capsys, "prepare", texts("a.jsonl"), "--files=2") == "--files works only with named corpora"
    assert refused(capsys, "prepare", "a.jsonl", "--tokenizer=words").startswith("--tokenizer words: unknown")
    assert refused(capsys, "prepare", "a.jsonl", "--vocab_size=500").startswith("--vocab_size is only for")
    assert "invalid number: '0'" in refused(capsys, "prepare", "a.jsonl", "--shard_tokens=0")
    Path("b.jsonl").write_text('{"text": "x"}\n{"txt": "x"}\n')
    assert refused(capsys, "prepare", "b.jsonl").startswith("b.jsonl: line 2 has no 'text'")
    assert "File name too long; fix that" in refused(capsys, "prepare", "a.jsonl", f"--out={'x' * 300}")
    assert not Path("data").exists()


def test_other_settings(capsys: Capture) -> None:
    main(["prepare", texts("a.jsonl"), "--tokenizer=bytes"])
    capsys.readouterr()
    assert "--restart" in refused(capsys, "prepare", "a.jsonl", "--tokenizer=chars")
    assert main(["prepare", "a.jsonl", "--tokenizer=chars", "--restart"]) == 0


# --- names -----------------------------------------------------------------------------------------------------------


def test_the_embedded_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("lib").mkdir()
    for number in range(120):
        Path(f"lib/m{number}.py").write_text(f"def f{number}():\n    return {number}\n" * 5)
    monkeypatch.setattr("sysconfig.get_path", lambda _: "lib")
    assert main(["prepare", "python"]) == 0
    corpus = open_corpus(Path("data/python"))
    assert corpus.tokenizer is not None
    assert corpus.tokenizer.kind == "bpe"


def test_shakespeare(server: FileServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"To be, or not to be.\n" * 100
    server.files["/data/tinyshakespeare/input.txt"] = text
    assert "is not the expected file" in refused(capsys, "prepare", "shakespeare")
    monkeypatch.setattr("nanopace.corpus.download.named._SHAKESPEARE", (len(text), hashlib.sha256(text).hexdigest()))
    assert main(["prepare", "shakespeare", "--tokenizer", "chars"]) == 0
    corpus = open_corpus(Path("data/shakespeare"))
    assert (corpus.train.tokens, corpus.val.tokens) == (1890, 210)
    asked = len(server.asked)
    assert main(["prepare", "shakespeare", "--out", "data/again"]) == 0  # from what is already downloaded
    assert len(server.asked) == asked


@pytest.mark.slow
def test_parquet_from_hugging_face(server: FileServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nanopace.corpus.download.named._OPENWEBTEXT_KNOWN", {})
    address = "/datasets/Skylion007/openwebtext/resolve/79d93d786212f7344586290adb811d4ae6a1762c/plain_text/"
    for number in range(2):
        file = io.BytesIO()
        pq.write_table(pa.table({"text": [f"page {number}-{row}" for row in range(3000)]}), file)
        server.files[f"{address}train-{number:05}-of-00080.parquet"] = file.getvalue()
    server.breaks_after = [1000]
    assert main(["prepare", "openwebtext", "--files=2", "--tokenizer=bytes"]) == 0
    assert "6,000" in capsys.readouterr().out
    assert [wanted for _, wanted in server.asked] == [None, "bytes=1000-", None]
    message = refused(capsys, "prepare", "openwebtext", "--files=3", "--out=data/three", "--tokenizer=bytes")
    assert "404 Not Found" in message
    assert "train-00002-of-00080.parquet" in message


def test_no_network(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    message = refused(capsys, "prepare", "fineweb-edu")
    assert message.startswith("127.0.0.1 does not serve http://127.0.0.1:1/datasets/HuggingFaceFW/fineweb-edu/")
    assert message.endswith("put the file here yourself: data/download/fineweb-edu/000_00000.parquet")


# --- while it works --------------------------------------------------------------------------------------------------


def test_lines_when_piped(capsys: Capture, monkeypatch: pytest.MonkeyPatch, server: FileServer) -> None:
    monkeypatch.setattr(prepare_progress, "_SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr("nanopace.corpus.prepare.intake.BATCH", 1 << 19)
    monkeypatch.setattr("nanopace.corpus.documents.pieces.PIECE", 1 << 16)
    monkeypatch.setattr("nanopace.corpus.documents.pieces._IN_MEMORY", 1 << 16)
    monkeypatch.setattr("nanopace.corpus.download.named._SHAKESPEARE", (None, None))
    server.files["/data/tinyshakespeare/input.txt"] = b"To be, or not to be.\n" * 100_000
    assert main(["prepare", "shakespeare", "--tokenizer=chars"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("downloading 1/1: 0 MB, ")
    assert any(line.startswith("building the tokenizer: 2 / 2 MB, ") for line in lines)
    assert lines[-1].startswith("tokenizing: 2 / 2 MB, ")
    assert re.fullmatch(r"tokenizing: 2 / 2 MB, [\d.]+ MB/s, 2.1M tokens, 0\sms left", lines[-1])
    assert "\x1b" not in "".join(lines)


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert main(["prepare", texts("a.jsonl"), "--tokenizer=chars"]) == 0
    shown = terminal.getvalue()
    assert "building the tokenizer" in shown
    assert "tokenizing" in shown
    assert "━" in shown


def test_ctrl_c_and_going_on() -> None:
    texts("a.jsonl", 100_000)
    command = [sys.executable, "-m", "nanopace", "prepare", "a.jsonl", "--tokenizer=bytes"]
    for _ in range(5):  # on a busy machine it may be done before we press
        shutil.rmtree("data", ignore_errors=True)
        process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=unmeasured(),
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
        )
        deadline = time.monotonic() + 20
        while not Path("data/a/prepare.json").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
        if process.returncode:
            break
    assert process.returncode == 130
    assert err == "Interrupted. Run the same command again to continue.\n"
    assert subprocess.run(command, check=False, capture_output=True, env=unmeasured()).returncode == 0
    assert open_corpus(Path("data/a")).train.tokens > 1_000_000
