"""Networks and servers that answer with something else, or endlessly, and full disks."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanopace.cli.main import main
from nanopace.corpus.download import fetch as module
from nanopace.corpus.download.fetch import Remote, download
from nanopace.errors import InputError

from ...cli.conftest import unmeasured
from ..file_server import FileServer, serving

DATA = bytes(range(256)) * 4096  # 1 MB
SHA256 = hashlib.sha256(DATA).hexdigest()
PAGE = b"<!DOCTYPE html>\n<html><body>Welcome to our network. Log in!</body></html>\n" * 50
OPENWEBTEXT = "/datasets/Skylion007/openwebtext/resolve/79d93d786212f7344586290adb811d4ae6a1762c/plain_text/"
FIRST = "train-00000-of-00080.parquet"

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FileServer]:
    """Stands in for Hugging Face; no checksums of its files are known here."""
    with serving({"/a.bin": DATA, OPENWEBTEXT + FIRST: parquet()}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setattr("nanopace.corpus.download.named._OPENWEBTEXT_KNOWN", {})
        monkeypatch.chdir(tmp_path)
        server.names_checksums = True
        yield server


def parquet(column: str = "text") -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({column: [f"text {number}" for number in range(300)]}), file)
    return file.getvalue()


def remote(server: FileServer, size: int | None = len(DATA)) -> Remote:
    return Remote(f"{server.url}/a.bin", "a.bin", size, SHA256)


def refused(capsys: Capture, *arguments: str) -> str:
    assert main(["prepare", *(arguments or ("openwebtext", "--files=1", "--tokenizer=bytes"))]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1, err
    return err


def left(directory: str = "data") -> list[str]:
    return sorted(path.name for path in Path(directory).rglob("*") if path.is_file())


# --- something else --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", None])
@pytest.mark.parametrize("names", [True, False])
def test_a_network_that_wants_a_login(kind: str | None, names: bool, server: FileServer, capsys: Capture) -> None:
    whole = server.files[OPENWEBTEXT + FIRST]
    server.files[OPENWEBTEXT + FIRST] = PAGE
    server.kind, server.names_checksums = kind, names
    assert "returned a web page instead of http" in refused(capsys)
    assert left() == []
    server.files[OPENWEBTEXT + FIRST], server.kind, server.names_checksums = whole, None, True
    assert main(["prepare", "openwebtext", "--files=1", "--tokenizer=bytes"]) == 0


def test_what_has_come_outlives_the_login(server: FileServer, tmp_path: Path) -> None:
    server.breaks_after = [400_000] + [0] * 9
    with pytest.raises(InputError, match="try again later"):
        download(remote(server), tmp_path, pause=0)
    server.breaks_after, server.kind, server.ranges = [], "text/html", False
    with pytest.raises(InputError, match="web page"):
        download(remote(server), tmp_path)
    server.kind, server.ranges = None, True
    assert download(remote(server), tmp_path).read_bytes() == DATA
    assert server.asked[-1][1] == "bytes=400000-"


@pytest.mark.parametrize(
    "content", [b"some text\n" * 900, PAGE[50:], b"PAR1" + bytes(900), parquet()[:-9], parquet("body")]
)
def test_a_right_checksum_of_what_is_no_parquet(content: bytes, server: FileServer, capsys: Capture) -> None:
    server.files[OPENWEBTEXT + FIRST] = content
    refused(capsys)
    assert left() == []


@pytest.mark.usefixtures("server")
def test_a_page_that_an_earlier_version_took(capsys: Capture) -> None:
    Path("data/download/openwebtext").mkdir(parents=True)
    Path("data/download/openwebtext", FIRST).write_bytes(PAGE)
    assert "does not begin and end like a parquet file" in refused(capsys)
    Path("page.parquet").write_bytes(PAGE)
    assert "page.parquet: its content does not match its name" in refused(capsys, "page.parquet", "--tokenizer=bytes")


# --- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    ["mirror.example", "//mirror.example", "file:///etc", "ftp://a.example", "http://", "http://[", "http://a:b",
     "http://a b", "https://a/?x", "http://a\n", "http://..", "javascript:1", " http://a"],
)  # fmt: skip
def test_mirrors_that_are_none(address: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", address)
    assert "HF_ENDPOINT=" in refused(capsys)
    assert "is not an address; write it as https://HOST" in refused(capsys, "fineweb-edu", "--tokenizer=bytes")


@pytest.mark.parametrize(
    "location",
    ["http://[", "//", "", "/a.bin", "file:///etc/passwd", "ftp://a.example/x", "http://a..b/", "gopher://x", "http://",
     "http://a:99999/", "data:text/plain,x", "//[::1"],
)  # fmt: skip
def test_redirections_that_lead_nowhere(location: str, server: FileServer, tmp_path: Path) -> None:
    server.leads_to = location
    began = time.monotonic()
    with pytest.raises(InputError, match=r"^127\.0\.0\.1 does not serve http://\S+: [^\n]+$"):
        download(remote(server), tmp_path)
    assert time.monotonic() - began < 3
    assert list(tmp_path.iterdir()) == []


# --- without an end --------------------------------------------------------------------------------------------------


def test_an_answer_without_an_end(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.endless, server.names_checksums = True, False
    monkeypatch.setattr(module, "_LARGEST", 20 << 20)
    with pytest.raises(InputError, match=r"reports no length, and 2\d MB arrived without end"):
        download(remote(server, None), tmp_path)
    with pytest.raises(
        InputError, match="is not the expected file"
    ):  # where the size is known, no more than that is taken
        download(remote(server), tmp_path)

    class Usage:
        free = 50 << 20

    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage)
    with pytest.raises(InputError, match="0 MB arrived without end; they were removed"):
        download(remote(server, None), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_part_that_leads_elsewhere(kind: str, server: FileServer, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    part = tmp_path / "a.bin.part"
    if kind == "link":
        part.symlink_to(victim)
    else:
        os.mkfifo(part)
    with pytest.raises(InputError, match=r"a\.bin\.part: cannot be written: it is (a link|not a regular file)"):
        download(remote(server), tmp_path)
    assert victim.read_bytes() == b"mine"


# --- a full disk -----------------------------------------------------------------------------------------------------

FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
from nanopace.cli.main import main
import nanopace.corpus.download.named as corpora
corpora._OPENWEBTEXT_KNOWN = {}
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("limit", [1000, 2000])
def test_a_disk_that_fills_during_a_download(limit: int, server: FileServer) -> None:
    command = ["prepare", "openwebtext", "--files=1", "--tokenizer=bytes"]
    assert len(server.files[OPENWEBTEXT + FIRST]) > 2000
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(limit), *command],
        capture_output=True,
        text=True,
        check=False,
        env=unmeasured(),  # coverage's own file would be too large as well
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert f"{FIRST}.part: cannot be written: {os.strerror(errno.EFBIG)}; fix that" in done.stderr
    assert Path("data/download/openwebtext", FIRST + ".part").stat().st_size == limit
    assert main(command) == 0
    assert server.asked[-1][1] == f"bytes={limit}-"


def test_a_disk_that_fills_while_tokens_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("".join(f"line {number}\n" for number in range(20_000)))
    command = ["prepare", "a.txt", "--tokenizer=bytes", "--out=made"]
    full = [sys.executable, "-c", FULL, "100000", *command]
    done = subprocess.run(full, capture_output=True, text=True, check=False, env=unmeasured())
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert "cannot be written" in done.stderr
    assert main(command) == 0
    assert main(["prepare", "a.txt", "--tokenizer=bytes", "--out=other"]) == 0
    assert Path("made/train-00000.bin").read_bytes() == Path("other/train-00000.bin").read_bytes()
