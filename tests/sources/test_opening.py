from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from nanopace.errors import InputError
from nanopace.sources.opening import find_logs, open_log
from nanopace.sources.runs import open_runs
from nanopace.sources.text import CHUNK

ROW = b"iter 0: loss 10.8720, time 32025.45ms, mfu -100.00%\n"
TEXT = ROW * 50_000  # more than one chunk

COMPRESSORS = {
    "gz": gzip.compress,
    "xz": lambda data: lzma.compress(data, preset=0),
    "bz2": bz2.compress,
    "zst": zstandard.ZstdCompressor().compress,
    "plain": bytes,
}


def content(source: str | Path | io.BytesIO) -> bytes:
    with open_log(source) as log:
        return b"".join(log.chunks)


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_compressed_whatever_its_name(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(COMPRESSORS[kind](TEXT))
    for source in (path, io.BytesIO(path.read_bytes())):
        with open_log(source) as opened:
            assert b"".join(opened.chunks) == TEXT
            assert not opened.truncated


@pytest.mark.parametrize("kind", ["gz", "xz", "bz2", "zst"])
def test_compressed_and_cut(kind: str, tmp_path: Path) -> None:
    lines = b"".join(b"iter %d: loss 10.8720, time 3.45ms\n" % n for n in range(60_000))
    packed = COMPRESSORS[kind](lines)
    path = tmp_path / "train.log"
    path.write_bytes(packed[: len(packed) // 2])
    assert lines.startswith(content(path))


@pytest.mark.parametrize("kind", ["gz", "xz", "zst"])  # bz2 has no part of a log this small
def test_a_small_log_that_is_cut_is_read_to_where_it_is_whole(kind: str, tmp_path: Path) -> None:
    noisy = random.Random(1)
    log = b"".join(b"iter %d: loss %.4f, time %.2fms\n" % (n, noisy.random(), noisy.random()) for n in range(9000))
    packed = COMPRESSORS[kind](log)
    path = tmp_path / "train.log"
    path.write_bytes(packed[: len(packed) * 3 // 4])
    with open_log(path) as opened:
        assert not opened.truncated
        read = b"".join(opened.chunks)
        assert opened.truncated
    assert log.startswith(read)
    assert len(read) > len(log) / 4
    (run,) = open_runs(path)
    assert run.truncated
    assert run.rows.last_iteration[-1] in (read.count(b"\n") - 1, read.count(b"\n"))


@pytest.mark.parametrize("kind", ["gz", "xz", "bz2", "zst"])
def test_nothing_left_of_it_is_called_truncated_and_not_empty(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(COMPRESSORS[kind](ROW)[:11])
    with pytest.raises(InputError, match=r"train\.log: the compressed file is truncated before the first log row"):
        open_runs(path)


@pytest.mark.parametrize("kind", ["gz", "xz", "bz2", "zst"])
def test_broken_from_the_start(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(COMPRESSORS[kind](TEXT)[:6] + b"\xff" * 500)  # random bytes can be a valid block of zst
    with pytest.raises(InputError, match=r"train\.log"):
        content(path)


@pytest.mark.parametrize("kind", ["gz", "xz", "bz2", "zst"])
def test_broken_in_its_middle(kind: str, tmp_path: Path) -> None:
    """What comes before is still a log."""
    noisy = random.Random(1)
    log = b"".join(b"iter %d: loss %.4f, time %.2fms\n" % (n, noisy.random(), noisy.random()) for n in range(90_000))
    packed = bytearray(COMPRESSORS[kind](log))
    middle = int(0.8 * len(packed))
    packed[middle : middle + 200] = bytes(200)
    path = tmp_path / "train.log"
    path.write_bytes(packed)
    with open_log(path) as opened:
        found = b"".join(opened.chunks)
    assert len(found) > 100_000
    assert log.startswith(found[:100_000])
    assert opened.truncated


@pytest.mark.parametrize("reads", [0, 2])
def test_a_disk_that_fails(reads: int) -> None:
    class Failing(io.RawIOBase):
        left = reads

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
            if not self.left:
                raise OSError(5, "Input/output error")
            self.left -= 1
            buffer[:] = ROW[-1:] * len(buffer)
            return len(buffer)

    with open_log(io.BufferedReader(Failing(), CHUNK)) as opened:
        if reads:
            assert b"".join(opened.chunks).strip() == b""
            assert opened.truncated
        else:
            with pytest.raises(InputError, match="cannot be read: Input/output error"):
                list(opened.chunks)


def test_frames_one_after_another(tmp_path: Path) -> None:
    for kind in ("gz", "xz", "bz2", "zst"):
        path = tmp_path / "train.log"
        path.write_bytes(COMPRESSORS[kind](ROW) + COMPRESSORS[kind](ROW))
        assert content(path) == ROW * 2, kind


@pytest.mark.parametrize("kind", ["plain", "gz"])
def test_progress_ends_at_the_size(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(COMPRESSORS[kind](TEXT))
    said: list[tuple[int, int | None]] = []
    with open_log(path, lambda done, total: said.append((done, total))) as log:
        for _ in log.chunks:
            pass
    size = path.stat().st_size
    assert said[-1] == (size, size)
    assert said == sorted(said)


def test_names(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(ROW)
    with open_log(str(path)) as log:
        assert log.name == "a.log"
    with open_log(io.BytesIO(ROW)) as log:
        assert log.name == "log"
    with path.open("rb") as file, open_log(file) as log:
        assert log.name == "a.log"


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(ROW))))
    with open_log("-") as log:
        assert (log.name, b"".join(log.chunks)) == ("stdin", ROW)


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        content(tmp_path / "none.log")
    with pytest.raises(InputError, match="is a directory"):
        content(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        content("a\0b")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission(tmp_path: Path) -> None:
    path = tmp_path / "secret.log"
    path.write_bytes(ROW)
    path.chmod(0)
    with pytest.raises(InputError, match="permission denied"):
        content(path)


# --- directories -----------------------------------------------------------------------------------------------------


def test_find_logs(tmp_path: Path) -> None:
    for name in ("b.log", "a.txt", "runs/c.out", "runs/deep/d", ".hidden/e.log", "README.md", "x.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(ROW)
    (tmp_path / "packed.log.gz").write_bytes(gzip.compress(ROW))
    (tmp_path / "notes.txt").write_text("nothing here\n")
    (tmp_path / "empty.log").write_bytes(b"")
    (tmp_path / "weights").write_bytes(bytes(range(256)) * 1000)
    (tmp_path / "runs" / "loop").symlink_to(tmp_path)
    (tmp_path / "gone.log").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.log")
    found = [str(path.relative_to(tmp_path)) for path in find_logs(tmp_path)]
    assert found == ["a.txt", "b.log", "packed.log.gz", "runs/c.out", "runs/deep/d"]


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
def test_a_row_anywhere_makes_a_log(packed: bool, tmp_path: Path) -> None:
    """Speedruns download, build and tokenize before they train."""
    preamble = b"Downloading shard 1 of 370 to /root/.cache, step by step\n" * 25_000  # more than a chunk
    data = preamble + b"step 1 is done\n" + ROW.replace(b"iter 0", b"iter 7")
    (tmp_path / "far.log").write_bytes(gzip.compress(data) if packed else data)
    (tmp_path / "none.log").write_bytes(preamble)
    assert [path.name for path in find_logs(tmp_path)] == ["far.log"]
    (run,) = open_runs(tmp_path / "far.log")
    assert list(run.rows.iteration) == [7]


@pytest.mark.parametrize("shift", range(-60, 5, 7))
def test_a_first_row_across_two_chunks(shift: int, tmp_path: Path) -> None:
    (tmp_path / "far.log").write_bytes(b"x" * (CHUNK + shift - 1) + b"\n" + ROW)
    assert [path.name for path in find_logs(tmp_path)] == ["far.log"]


def test_find_logs_below_a_hidden_directory(tmp_path: Path) -> None:
    folder = tmp_path / ".cache" / "runs"
    folder.mkdir(parents=True)
    (folder / "a.log").write_bytes(ROW)
    assert find_logs(folder) == [folder / "a.log"]


LEDGER = b"""\
{"event":"run","ledger":"1.1","started":"s","nanopace":"0.3.0","config":{"out_dir":"out"}}
{"event":"step","iteration":0,"ms":5.0}
"""
PRINTED = b"""\
nanopace 0.3.0 train: %s, 8 tokens a step, steps 0 to 9
iter 0: loss 3.0000, time 5.00ms, mfu n/a, 100 tok/s, lr 1.00e-03
"""


def write(folder: Path, **files: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name.replace("_", ".")).write_bytes(data)


def test_a_run_that_left_a_ledger_and_a_log_is_found_once(tmp_path: Path) -> None:
    write(tmp_path / "out", ledger_jsonl=LEDGER, train_log=PRINTED % b"out", nanogpt_log=ROW, other_log=PRINTED % b"b")
    found = [path.name for path in find_logs(tmp_path)]
    assert found == ["ledger.jsonl", "nanogpt.log", "other.log"]


def test_a_log_without_a_ledger_beside_it_is_found(tmp_path: Path) -> None:
    write(tmp_path / "a", train_log=PRINTED % b"out")
    write(tmp_path / "b", ledger_jsonl=LEDGER)
    write(tmp_path / "c", ledger_jsonl=LEDGER.replace(b'"out_dir":"out"', b'"out_dir":3'), train_log=PRINTED % b"out")
    found = [str(path.relative_to(tmp_path)) for path in find_logs(tmp_path)]
    assert found == ["a/train.log", "b/ledger.jsonl", "c/ledger.jsonl", "c/train.log"]


def test_a_ledger_of_a_later_version_is_found(tmp_path: Path) -> None:
    """Reading it then reports why it cannot be read."""
    write(tmp_path, ledger_jsonl=LEDGER.replace(b"1.1", b"7.0"), train_log=PRINTED % b"out")
    assert [path.name for path in find_logs(tmp_path)] == ["ledger.jsonl", "train.log"]


def test_checkpoints_of_ours_are_not_looked_into(tmp_path: Path) -> None:
    write(tmp_path / "out", ledger_jsonl=LEDGER)
    write(tmp_path / "out" / "checkpoints" / "step-00000500", state_json=ROW, model_safetensors=bytes(100))
    write(tmp_path / "checkpoints" / "mine", train_log=ROW)  # where nanoGPT users keep theirs
    found = [str(path.relative_to(tmp_path)) for path in find_logs(tmp_path)]
    assert found == ["checkpoints/mine/train.log", "out/ledger.jsonl"]


def test_a_tree_without_end_is_left_at_some_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nanopace.sources.opening._MOST_FILES", 3)
    write(tmp_path / "a", **{f"{n}_log": ROW for n in "abcde"})
    write(tmp_path / "b", a_log=ROW)
    assert [path.name for path in find_logs(tmp_path)] == ["a.log", "b.log", "c.log"]


def test_a_ledger_is_called_after_its_run(tmp_path: Path) -> None:
    for name, called in (("ledger.jsonl", "out/ledger.jsonl"), ("other.jsonl", "other.jsonl"), ("a.log", "a.log")):
        path = tmp_path / "out" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
        with open_log(path) as opened:
            assert opened.name == called


@pytest.mark.skipif(not os.path.exists("/proc/kmsg"), reason="no Linux")
def test_what_the_kernel_makes_while_it_is_read_is_not_waited_for(tmp_path: Path) -> None:
    """It has no size, and reading the kernel's messages would wait for the next one."""
    (tmp_path / "kmsg").symlink_to("/proc/kmsg")
    (tmp_path / "a.log").write_bytes(ROW)
    find = f"from nanopace.sources.runs import find_logs; print(find_logs({str(tmp_path)!r}))"
    done = subprocess.run([sys.executable, "-c", find], capture_output=True, text=True, check=True, timeout=20)
    assert done.stdout == f"[{tmp_path / 'a.log'!r}]\n"
