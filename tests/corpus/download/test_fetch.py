"""Downloads from a real server: complete or not at all, and no byte twice unless necessary."""

from __future__ import annotations

import hashlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanopace.corpus.download import fetch as module
from nanopace.corpus.download.fetch import Remote, download, download_all
from nanopace.errors import InputError

from ..file_server import FileServer, serving

DATA = bytes(range(256)) * 4096  # 1 MB
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving({"/a.bin": DATA}) as server:
        yield server


def remote(server: FileServer, *, size: int | None = len(DATA), sha256: str | None = SHA256) -> Remote:
    return Remote(f"{server.url}/a.bin", "a.bin", size, sha256)


def ranges(server: FileServer) -> list[str | None]:
    return [wanted for _, wanted in server.asked]


def test_a_file(server: FileServer, tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    path = download(remote(server), tmp_path / "new" / "folder", lambda *said: told.append(said))
    assert path == tmp_path / "new" / "folder" / "a.bin"
    assert path.read_bytes() == DATA
    assert sorted(path.parent.iterdir()) == [path.parent / "SHA256SUMS", path]
    assert (path.parent / "SHA256SUMS").read_text() == f"{SHA256}  a.bin\n"
    assert told == sorted(told)
    assert told[-1] == (len(DATA), len(DATA))


def test_a_file_that_is_there_is_not_asked_for(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(DATA)
    download(remote(server), tmp_path)
    assert server.asked == []
    (tmp_path / "a.bin").write_bytes(DATA[:-1])  # but not if it has another size
    assert download(remote(server), tmp_path).read_bytes() == DATA


def test_a_connection_that_breaks_costs_nothing(server: FileServer, tmp_path: Path) -> None:
    server.breaks_after = [100_000, 300_000]
    assert download(remote(server), tmp_path, pause=0).read_bytes() == DATA
    assert ranges(server) == [None, "bytes=100000-", "bytes=400000-"]


def test_attempts_that_bring_something_are_not_counted(server: FileServer, tmp_path: Path) -> None:
    """However bad the connection is: only five attempts in a row that bring nothing are too many."""
    server.breaks_after = [0, 0, 0, 0, 1000] * 3
    assert download(remote(server), tmp_path, pause=0).read_bytes() == DATA


def test_a_network_that_fails_for_a_moment(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, failing = module.Question.ask, [ConnectionResetError(104, "Connection reset by peer")]

    def ask(question: module.Question, timeout: float) -> http.client.HTTPResponse:
        if failing:
            raise failing.pop()
        return real(question, timeout)

    monkeypatch.setattr(module.Question, "ask", ask)
    assert download(remote(server), tmp_path, pause=0).read_bytes() == DATA


def test_a_killed_program_goes_on(server: FileServer, tmp_path: Path) -> None:
    server.breaks_after = [200_000, 0, 0, 0, 0, 0, 0, 0]
    script = f"""
from pathlib import Path
from nanopace.corpus.download.fetch import Remote, download
download(Remote({server.url + "/a.bin"!r}, "a.bin", {len(DATA)}, {SHA256!r}), Path({str(tmp_path)!r}), pause=60)
"""
    child = subprocess.Popen([sys.executable, "-c", script])
    part = tmp_path / "a.bin.part"
    deadline = time.monotonic() + 20
    while not (part.exists() and part.stat().st_size == 200_000) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert not (tmp_path / "a.bin").exists()
    server.breaks_after = []
    assert download(remote(server), tmp_path).read_bytes() == DATA
    assert ranges(server)[-1] == "bytes=200000-"


def test_a_server_without_ranges_starts_again(server: FileServer, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / "a.bin.part").write_bytes(b"x" * 1000)
    assert download(remote(server), tmp_path).read_bytes() == DATA
    assert ranges(server) == ["bytes=1000-"]


def test_a_longer_file_from_before_is_not_left_over(server: FileServer, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / "a.bin.part").write_bytes(b"x" * (len(DATA) + 5))
    assert download(remote(server, size=None), tmp_path).read_bytes() == DATA


def test_a_wrong_checksum_is_refused_and_removed(server: FileServer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{server.url}/a.bin: the download is not the expected file") as error:
        download(remote(server, sha256="0" * 64), tmp_path)
    assert SHA256 in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_beginning_is_found_out(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(b"x" * 1000)
    with pytest.raises(InputError, match="is not the expected file"):
        download(remote(server), tmp_path)
    assert download(remote(server), tmp_path).read_bytes() == DATA


def test_a_wrong_size_is_refused(server: FileServer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not the expected file"):
        download(remote(server, size=len(DATA) - 1), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_checksum_that_hugging_face_names(server: FileServer, tmp_path: Path) -> None:
    server.names_checksums = True
    known = Remote(f"{server.url}/a.bin", "a.bin")
    assert download(known, tmp_path / "good").read_bytes() == DATA
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.bin.part").write_bytes(b"x" * 1000)
    with pytest.raises(InputError, match="is not the expected file"):
        download(known, tmp_path / "bad")


def test_a_whole_part_whose_size_nobody_knew(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(DATA)
    assert download(remote(server, size=None), tmp_path).read_bytes() == DATA
    assert ranges(server) == [f"bytes={len(DATA)}-"]


def test_a_whole_part_that_only_lacks_its_name(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(DATA)
    assert download(remote(server), tmp_path).read_bytes() == DATA
    assert server.asked == []


@pytest.mark.parametrize("named", [None, "W/none", "0" * 40, "0" * 63 + "G"])
def test_nothing_is_taken_whose_checksum_nobody_names(named: str | None, server: FileServer, tmp_path: Path) -> None:
    server.names_checksums, server.checksum = named is not None, named
    with pytest.raises(InputError, match=r"gives no sha256 for http://\S+/a\.bin, so"):
        download(Remote(f"{server.url}/a.bin", "a.bin"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_was_downloaded_once_is_the_same_for_ever(server: FileServer, tmp_path: Path) -> None:
    server.names_checksums = True
    known = Remote(f"{server.url}/a.bin", "a.bin")
    download(known, tmp_path).unlink()
    server.files["/a.bin"] = DATA[::-1]  # and the server names that one's sha256
    with pytest.raises(InputError, match="is not the expected file"):
        download(known, tmp_path)
    server.files["/a.bin"] = DATA
    assert download(known, tmp_path).read_bytes() == DATA
    (tmp_path / "SHA256SUMS").write_text("anything")
    with pytest.raises(InputError, match="SHA256SUMS: is damaged; remove it"):
        download(remote(server, size=1, sha256=None), tmp_path)


def test_a_part_that_is_too_long(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(DATA + b"x")
    assert download(remote(server, size=None), tmp_path, pause=0).read_bytes() == DATA
    assert ranges(server) == [f"bytes={len(DATA) + 1}-", None]


def test_an_answer_without_a_size(server: FileServer, tmp_path: Path) -> None:
    server.hides_sizes = True
    told: list[int | None] = []
    assert download(remote(server, size=None), tmp_path, lambda _, total: told.append(total)).read_bytes() == DATA
    assert set(told) == {None}


def test_a_busy_server_is_asked_again(server: FileServer, tmp_path: Path) -> None:
    server.says = [503, 429]
    assert download(remote(server), tmp_path, pause=0).read_bytes() == DATA
    server.says = [503] * 20
    with pytest.raises(InputError, match="503 Service Unavailable; try again later"):
        download(remote(server), tmp_path / "other", pause=0)
    assert len(server.says) == 15


def test_a_missing_file(server: FileServer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^127\.0\.0\.1 does not serve http://\S+/b\.bin: 404 Not Found") as error:
        download(Remote(f"{server.url}/b.bin", "b.bin"), tmp_path)
    assert str(error.value).endswith(f"put the file here yourself: {tmp_path / 'b.bin'}")
    assert len(server.asked) == 1


def test_nobody_answers(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    began = time.monotonic()
    with pytest.raises(InputError, match=r"^127\.0\.0\.1 does not serve .*: Connection refused; try again later"):
        download(Remote(f"http://127.0.0.1:{port}/a.bin", "a.bin"), tmp_path)
    assert time.monotonic() - began < 5


def test_no_network(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^nowhere\.invalid does not serve http://nowhere\.invalid/a\.bin: "):
        download(Remote("http://nowhere.invalid/a.bin", "a.bin"), tmp_path)


def test_a_server_that_falls_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/a.bin"
        with pytest.raises(InputError, match="timed out"):
            download(Remote(address, "a.bin"), tmp_path, pause=0)


def test_a_full_disk_is_noticed_before(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 500_000

    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage)
    with pytest.raises(InputError, match="1 MB still to download, but the disk has only 0 MB"):
        download(remote(server), tmp_path)
    Usage.free = len(DATA)
    assert download(remote(server), tmp_path).read_bytes() == DATA


def test_several_files(server: FileServer, tmp_path: Path) -> None:
    server.files["/b.bin"] = b"12345"
    checksum = hashlib.sha256(b"12345").hexdigest()
    second = Remote(f"{server.url}/b.bin", "b.bin", 5, checksum)
    told: list[tuple[int, int | None, str]] = []
    paths = download_all([remote(server), second], tmp_path, lambda *said: told.append(said))
    assert [path.name for path in paths] == ["a.bin", "b.bin"]
    assert told[-1] == (len(DATA) + 5, len(DATA) + 5, "2/2")
    told.clear()
    download_all([Remote(f"{server.url}/b.bin", "c.bin", sha256=checksum)], tmp_path, lambda *said: told.append(said))
    assert told == [(5, None, "1/1")]
