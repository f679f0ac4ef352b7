"""What bench/fuzz.py throws bytes at: every parser of a file that somebody else may have written, with samples of it.

A target takes bytes and may raise NanopaceError and nothing else. Parsers that read files get theirs in a directory in
memory (/dev/shm), where that exists.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import io
import json
import pickle
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from nanopace.errors import NanopaceError

ROOT = Path(__file__).resolve().parents[1]


class Target(NamedTuple):
    """One parser. Both are made in the process that fuzzes, so that its imports are instrumented."""

    check: Callable[[], Callable[[bytes], None]]
    samples: Callable[[], Iterable[bytes]]
    longest: int = 4096  # bytes of an input


def _folder() -> Path:
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="nanopace-fuzz-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _pieces(text: bytes, *, lines: int = 6, most: int = 20) -> list[bytes]:
    rows = text.splitlines(keepends=True)
    return [b"".join(rows[at : at + lines]) for at in range(0, min(len(rows), lines * most), lines)]


# --- logs and ledgers ------------------------------------------------------------------------------------------------


def _logs() -> Callable[[bytes], None]:
    from nanopace.sources import open_runs

    def check(data: bytes) -> None:
        open_runs(io.BytesIO(data))

    return check


def _report() -> Callable[[bytes], None]:
    """All that `explain --json` does with a log."""
    from nanopace.diagnosis.diagnose import diagnose
    from nanopace.sources import open_runs
    from nanopace.views.json import explain_json

    def check(data: bytes) -> None:
        explain_json([diagnose(run) for run in open_runs(io.BytesIO(data))])

    return check


def _log_samples() -> list[bytes]:
    nanochat = (
        b"GPU: NVIDIA H100 80GB HBM3 | Peak FLOPS (BF16): 9.89e+14\nTokens / micro-batch / rank: 32 x 2048 = 65,536\n"
        b"Total batch size 524,288 => gradient accumulation steps: 1\nEstimated FLOPs per token: 1.234567e+09\n"
        b"step 00010/21400 (0.05%) | loss: 9.123456 | lrm: 1.00 | dt: 312.10ms | tok/sec: 1 | mfu: 48.10 "
        b"| total time: 0.05m\nStep 00250 | Validation bpb: 1.0432\nPeak memory usage: 1.00MiB\n"
    )
    own = (
        b"nanopace 0.3.0 train: out, 65,536 tokens a step, steps 0 to 2000\n  n_layer: 12: so\n"
        b"iter 10: loss 3.2841, time 168.65ms, mfu n/a, 388652 tok/s, norm 0.84, lr 6.00e-04\n"
        b"step 250: val loss 3.2841, time 812.40ms, val error 0.0031, train error 0.0103 (last 250 steps), 1.0 bits\n"
        b"step 500: train loss (last 250 steps) 3.3121, val loss 3.2841, time 812.40ms, val error 0.0031, 1.0 bits\n"
        b"saved out/checkpoints/step-00000250, time 12.30ms, in the background 1840.00ms, 1.48 GB\n"
        b"finished after 2000 steps in 2 min 3 s, 0.012 kWh\n"
    )
    shown = [each for path in sorted((ROOT / "examples").glob("*.log")) for each in _pieces(path.read_bytes())]
    return [*shown, nanochat, own, b"\x1b[31m\x1b]8;;x\x07\r\n\xff^[[A" + own]


def _ledger() -> Callable[[bytes], None]:
    """First alone, then as the Run that the analyst makes of it."""
    from nanopace.ledger.file import read_ledger
    from nanopace.sources import open_runs

    def check(data: bytes) -> None:
        read_ledger(data.split(b"\n"))
        open_runs(io.BytesIO(b'{"event":"run","started":"","nanopace":"0"}\n' + data))

    return check


def _ledger_samples() -> list[bytes]:
    """One event of every kind, with a number in every field that can have one."""
    from dataclasses import fields

    from nanopace.ledger.events import EVENTS

    values: dict[str, object] = {"Count": 3, "Number": 2.5, "Milliseconds": 12.5, "str": "finished", "bool": True}
    values |= {"Config": {"batch_size": 8, "n_layer": 2}, "Texts": {"device": "cpu"}}
    lines = []
    for name, kind in EVENTS.items():
        known = {each.name: values[str(each.type).removesuffix(" | None")] for each in fields(kind)}
        known |= {"ledger": "1.0"} if "ledger" in known else {}
        lines.append(json.dumps({"event": name, **known}).encode())
    steps = [b'{"event":"step","iteration":%d,"ms":%d.5,"loss":3.5,"at_ms":%d}' % (n, 100 + n % 3, n) for n in range(9)]
    return [*lines, b"\n".join(lines), b"\n".join(steps), lines[0] + lines[1]]


# --- configs ---------------------------------------------------------------------------------------------------------


def _config() -> Callable[[bytes], None]:
    from nanopace.config import KNOBS, TrainConfig
    from nanopace.config_text import read_config_text, read_override

    def check(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        for line in text.split("\n")[:4]:
            with contextlib.suppress(NanopaceError):
                read_override(line)
        found = read_config_text(text, "c.py", to_train=len(data) % 2 == 0)
        TrainConfig(**{knob: value for knob, value in found.items() if knob in KNOBS})  # type: ignore[arg-type]

    return check


def _config_samples() -> list[bytes]:
    from nanopace.config import KNOBS

    shown = [path.read_bytes() for path in (*(ROOT / "examples").glob("*.py"), *(ROOT / "configs").rglob("*.py"))]
    defaults = "".join(f"{name} = {knob.default!r}\n" for name, knob in KNOBS.items())
    arithmetic = b"a = 2**16 // 3\nb = (a, [a, -a])\nbatch_size = a % 7\nlearning_rte = 1\n"
    return [*(each[:4000] for each in shown), defaults.encode(), arithmetic]


# --- data ------------------------------------------------------------------------------------------------------------


def _shards() -> Callable[[bytes], None]:
    """The bytes as train.bin and val.bin, as llm.c's two files, and as corpus.json, by the first of them."""
    from nanopace.corpus.manifest import check_files, read_manifest
    from nanopace.corpus.shards import open_corpus

    folder = _folder()
    raw, headed, own = (folder / name for name in ("raw", "headed", "own"))
    for each in (raw, headed, own):
        each.mkdir()
    (own / "train-0.bin").write_bytes(bytes(8))
    (own / "val-0.bin").write_bytes(bytes(8))

    def check(data: bytes) -> None:
        kind, data = data[:1], data[1:]
        if kind == b"{":
            (own / "corpus.json").write_bytes(kind + data)
            check_files(own, read_manifest(own))
        else:
            directory, prefix = (raw, "") if kind < b"\x80" else (headed, "a_")
            for split in ("train", "val"):
                (directory / f"{prefix}{split}.bin").write_bytes(data)
            open_corpus(directory).check(50304, 4)

    return check


def _shard_samples() -> list[bytes]:
    header = struct.pack("<256i", 20240520, 1, 8, *[0] * 253)
    wide = struct.pack("<256i", 20240801, 7, 4, *[0] * 253)
    entry = {"tokens": 4, "text_bytes": 8, "sha256": "0" * 64, "max_id": 0, "documents": 1}
    manifest = {"nanopace": 1, "name": "a", "tokenizer": "bytes", "tokenizer_hash": "b", "vocab_size": 257}
    splits = {split: [{"file": f"{split}-0.bin", **entry}] for split in ("train", "val")}
    manifest |= {"dtype": "uint16", "complete": True, "splits": splits}
    return [
        b"\x00" + bytes(range(16)),
        b"\xff" + header + bytes(16),
        b"\xff" + wide + bytes(16),
        json.dumps(manifest).encode(),
    ]


def _meta() -> Callable[[bytes], None]:
    from nanopace.corpus.nanogpt import read_meta

    path = _folder() / "meta.pkl"

    def check(data: bytes) -> None:
        path.write_bytes(data)
        read_meta(path)

    return check


def _meta_samples() -> list[bytes]:
    letters = "\n abcdef"
    content = {
        "vocab_size": len(letters),
        "stoi": {letter: number for number, letter in enumerate(letters)},
        "itos": dict(enumerate(letters)),
    }
    return [pickle.dumps(each, protocol) for protocol in range(6) for each in (content, {"vocab_size": 65}, [1], len)]


def _tokenizer() -> Callable[[bytes], None]:
    from nanopace.corpus.tokenizer import load_tokenizer

    folder = _folder()

    def check(data: bytes) -> None:
        (folder / "tokenizer.json").write_bytes(data)
        load_tokenizer(folder)

    return check


def _tokenizer_samples() -> list[bytes]:
    from nanopace.corpus.bpe import TrainedBpe
    from nanopace.corpus.tokenizer import bytes_tokenizer, chars, gpt2
    from nanopace.corpus.vocabulary import BYTE_OF_LETTER

    folder, samples = _folder(), []
    bpe = TrainedBpe(list(BYTE_OF_LETTER), [("a", "b"), ("ab", "c")])
    for each in (gpt2(), bytes_tokenizer(), chars("abc\n"), bpe):
        each.save(folder)
        samples.append((folder / "tokenizer.json").read_bytes())
    return samples


# --- checkpoints -----------------------------------------------------------------------------------------------------


def _checkpoint() -> Callable[[bytes], None]:
    """state.json with a checksum that is right, so that what comes behind it is reached; else a safetensors file."""
    from nanopace.config import TrainConfig
    from nanopace.train.checkpoint_files import verified
    from nanopace.train.huggingface import read_safetensors

    directory, weights = _written_checkpoint(), _folder() / "model.safetensors"

    def check(data: bytes) -> None:
        if data[:1] == b"{":
            (directory / "state.json").write_bytes(_sealed(data))
            TrainConfig(**verified(directory).config)  # type: ignore[arg-type]
        else:
            weights.write_bytes(data[1:])
            dict(read_safetensors(weights))

    return check


def _sealed(data: bytes) -> bytes:
    try:
        state = json.loads(data)
        state.pop("checksum", None)
        state["checksum"] = hashlib.sha256(json.dumps(state, sort_keys=True).encode("ascii")).hexdigest()
        return json.dumps(state).encode()
    except (ValueError, RecursionError, TypeError):
        return data


def _written_checkpoint() -> Path:
    from nanopace.train.checkpoint_writing import write_weights
    from nanopace.train.model import GPT, ModelShape

    shape = ModelShape(n_layer=1, n_head=2, n_embd=4, vocab_size=5, block_size=4)
    directory = _folder() / "step-00000012"
    config = {"learning_rate": 0.1, "out_dir": "out", "compile": False}
    write_weights(directory, shape, GPT(shape).state_dict(), step=12, config=config, tokenizer=None)
    return directory


def _checkpoint_samples() -> list[bytes]:
    state = json.loads((_written_checkpoint() / "state.json").read_text())
    sharded = {**state, "files": {}}
    header = json.dumps({"a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}).encode()
    file = len(header).to_bytes(8, "little") + header + bytes(16)
    return [json.dumps(state).encode(), json.dumps(sharded).encode(), b"\x00" + file]


TARGETS = {
    "logs": Target(_logs, _log_samples, 1024),
    "ledger": Target(_ledger, _ledger_samples, 1024),
    "report": Target(_report, lambda: [*_log_samples(), *_ledger_samples()], 1024),
    "config": Target(_config, _config_samples),
    "shards": Target(_shards, _shard_samples),
    "meta": Target(_meta, _meta_samples),
    "tokenizer": Target(_tokenizer, _tokenizer_samples),
    "checkpoint": Target(_checkpoint, _checkpoint_samples),
}
