"""Files that change, vanish or were damaged on disk are detected; files that only look changed are accepted."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nanopace.corpus.shards import token_files as tokens_module
from nanopace.corpus.shards.fingerprint import FileFingerprint, sample_of
from nanopace.corpus.shards.token_files import Shard, Split
from nanopace.errors import InputError

TOKENS = np.arange(40_000, dtype="<u2")


def shard(path: Path, *, hashed: bool = True) -> Shard:
    path.write_bytes(TOKENS.tobytes())
    return Shard(path, len(TOKENS), "uint16", 0, hashlib.sha256(TOKENS.tobytes()).hexdigest() if hashed else None)


def read(split: Split, start: int = 20_000, length: int = 100) -> list[int]:
    out = np.empty((1, length), dtype=np.int64)
    split.gather(np.array([start]), length, out)
    found: list[int] = out[0].tolist()
    return found


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def flipped_with_its_old_time(path: Path) -> None:
    before = path.stat()
    flip(path, 20_000)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(TOKENS[::-1].tobytes())
    os.replace(other, path)


CHANGES: dict[str, Callable[[Path], object]] = {
    "flipped": lambda path: flip(path, 20_000),
    "flipped with its old time": flipped_with_its_old_time,
    "cut": lambda path: os.truncate(path, 50_000),
    "emptied": lambda path: os.truncate(path, 0),
    "grown": lambda path: path.write_bytes(TOKENS.tobytes() + b"xx"),
    "replaced": replaced,
}


@pytest.mark.parametrize("hashed", [True, False])
@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_is_an_error_with_its_name(tmp_path: Path, change: str, hashed: bool) -> None:
    """Whether the hash is in a manifest or was taken when the file was first read."""
    path = tmp_path / "train.bin"
    split = Split([shard(path, hashed=hashed)])
    split.take_fingerprints()
    assert read(split) == list(range(20_000, 20_100))
    CHANGES[change](path)
    for _ in range(2):  # it keeps failing
        with pytest.raises(InputError, match=r"train\.bin: has changed since training started; restore"):
            read(split)
    path.write_bytes(TOKENS.tobytes())
    assert read(split) == list(range(20_000, 20_100))


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    split = Split([shard(path)])
    read(split)
    path.unlink()
    with pytest.raises(InputError, match=r"train\.bin: can no longer be read: No such file or directory; restore it"):
        read(split)


@pytest.mark.parametrize("hashed", [True, False])
def test_a_file_that_only_looks_changed(tmp_path: Path, hashed: bool) -> None:
    path = tmp_path / "train.bin"
    split = Split([shard(path, hashed=hashed)])
    read(split)
    for change in (
        lambda: os.utime(path, (0, 0)),
        lambda: path.chmod(0o600),
        lambda: os.link(path, tmp_path / "link"),
        lambda: shutil.copy(path, tmp_path / "copy") and os.replace(tmp_path / "copy", path),
    ):
        change()
        assert read(split) == list(range(20_000, 20_100))


def test_only_a_change_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, hashed = tmp_path / "train.bin", list[int]()
    split = Split([shard(path)])
    read(split)
    monkeypatch.setattr(hashlib, "sha256", lambda: hashed.append(1) or hashlib.new("sha256"))
    for _ in range(10):
        read(split)
    assert hashed == []
    os.utime(path)
    for _ in range(10):
        read(split)
    assert len(hashed) == 1


def test_damage_at_rest(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    listed = shard(path)
    flip(path, 7)
    split = Split([listed])
    with pytest.raises(InputError, match=r"train\.bin: is damaged: it is not the file the manifest lists"):
        read(split)


def test_large_data_is_proved_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before the first window, unless it is validation data; and not after a request to stop."""
    monkeypatch.setattr(tokens_module, "_SMALL", 1000)
    path = tmp_path / "train.bin"
    listed = shard(path)
    flip(path, 7)
    split = Split([listed])
    assert not split.verifies
    assert read(split) == list(range(20_000, 20_100))
    split.verify(lambda: True)
    split.verify(lambda: False, part=(1, 2))  # another rank's
    with pytest.raises(InputError, match="is damaged"):
        split.verify(lambda: False)
    with pytest.raises(InputError, match="is damaged"):
        read(Split([listed], verify=True))


def test_without_a_hash_the_samples_tell_until_it_is_read_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens_module, "_SMALL", 1000)
    path = tmp_path / "train.bin"
    split = Split([shard(path, hashed=False)])
    split.take_fingerprints()
    flip(path, 40_000)  # in the middle sample
    with pytest.raises(InputError, match="has changed"):
        read(split)
    flip(path, 40_000)
    split.verify(lambda: False)
    read(split)
    split.verify(lambda: False)
    flip(path, 20_000)  # in no sample
    with pytest.raises(InputError, match="has changed"):
        read(split)


def test_a_file_of_one_byte_that_grows_is_another_though_its_samples_are_alike(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    path.write_bytes(bytes(40_000))
    fingerprint = FileFingerprint(path, None)
    fingerprint.take()
    path.write_bytes(bytes(50_000))
    assert sample_of(path) == fingerprint.sample
    with pytest.raises(InputError, match="has changed"):
        fingerprint.check(path.stat())


def test_what_an_earlier_process_trained_on_is_expected(tmp_path: Path) -> None:
    """By its hash, which the file has had since before this process started."""
    path = tmp_path / "train.bin"
    listed = shard(path).sha256
    assert listed is not None
    for known, expected in ((None, listed), (listed, "of something else")):  # the manifest takes precedence
        fingerprint = FileFingerprint(path, known)
        fingerprint.expect(expected)
        fingerprint.verify()
        assert fingerprint.known == listed
    fingerprint = FileFingerprint(path, None)
    fingerprint.expect("of something else")
    with pytest.raises(InputError, match=r"train\.bin: has changed since training started"):
        fingerprint.verify()


def test_a_sample_is_4096_bytes_at_three_places(tmp_path: Path) -> None:
    """Runs remember it: with another sample they would refuse to resume."""
    data = TOKENS.tobytes()
    (tmp_path / "train.bin").write_bytes(data)
    parts = data[:4096] + data[40_000:44_096] + data[-4096:]
    assert sample_of(tmp_path / "train.bin") == hashlib.sha256(parts).digest()


CUT = """
import sys, os, numpy as np
from pathlib import Path
from nanopace.corpus.shards.token_files import Shard, Split
from nanopace.errors import InputError
path = Path(sys.argv[1])
split = Split([Shard(path, 40_000, "uint16")])
out = np.empty((1, 1000), dtype=np.int64)
split.gather(np.array([39_000]), 1000, out)
os.truncate(path, 0)
try:
    split.gather(np.array([39_000]), 1000, out)
except InputError as error:
    print(error)
"""


def test_a_file_that_is_cut_does_not_end_the_process(tmp_path: Path) -> None:
    """A mapped file would, with SIGBUS."""
    shard(tmp_path / "train.bin")
    command = [sys.executable, "-c", CUT, str(tmp_path / "train.bin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != -signal.SIGBUS
    assert "train.bin: has changed since training started" in done.stdout, done.stderr
