"""A small world to corrupt: a run with its checkpoints, a sharded one, nanoGPT's and Hugging Face's forms, corpora and
texts. It has the same bytes in every process, so that a seed and a case number always give the same input."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import tempfile
import warnings
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

STEPS = (10, 12)
KNOBS = {
    "device": "cpu",
    "compile": False,
    "dataset": "data/own",
    "out_dir": "out",
    "n_layer": 1,
    "n_head": 2,
    "n_embd": 4,
}
KNOBS |= {"block_size": 4, "batch_size": 2, "gradient_accumulation_steps": 1, "max_iters": 14, "eval_iters": 1}
CANARY = "victim.txt"  # which nothing may change
FINGERPRINT = "F" * 64  # stands for a corpus's fingerprint, which depends on its path and time
TEXT = "def first():\n    return 1\n\n" * 20


@cache
def world() -> dict[str, bytes]:
    """Every file by its path. Making them takes seconds, so one process makes them for all."""
    kept = Path(os.environ.get("FUZZ_WORLD", os.devnull))
    if kept.is_file():
        return {path: text.encode("latin-1") for path, text in json.loads(kept.read_text()).items()}
    made = _made()
    if kept.name == "world.json":
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps({path: data.decode("latin-1") for path, data in made.items()}))
        part.replace(kept)
    return made


def _made() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        room = Path(folder)
        tokenizer = _corpora(room)
        _models(room, tokenizer)
        _texts(room)
        (room / CANARY).write_bytes(b"nobody's business\n")
        (room / "config.py").write_text("".join(f"{name} = {value!r}\n" for name, value in KNOBS.items()))
        files = {str(path.relative_to(room)): path for path in sorted(room.rglob("*")) if path.is_file()}
        return {name: path.read_bytes() for name, path in files.items()}


def _models(room: Path, tokenizer: Any) -> None:
    import torch

    from nanopace.train.checkpoint.write import write_weights
    from nanopace.train.formats.convert import convert
    from nanopace.train.models.gpt2 import GPT, ModelShape

    torch.manual_seed(0)
    shape = ModelShape(n_layer=1, n_head=2, n_embd=4, vocab_size=257, block_size=4)
    for step in STEPS:
        weights = GPT(shape).state_dict()
        named = {name: each for name, each in weights.items() if name != "lm_head.weight"}
        averages = {f"{what}.{name}": each.abs() for what in ("exp_avg", "exp_avg_sq") for name, each in named.items()}
        averages |= {f"step.{name}": torch.tensor(float(step)) for name in named}
        path = room / f"out/checkpoints/step-{step:08d}"
        more = {"best": [10, 3.5], "windows": 2 * step}
        write_weights(path, shape, weights, step=step, config=KNOBS, tokenizer=tokenizer, averages=averages, more=more)
    (room / "out/best.json").write_text('{"step": 10, "val": 3.5}\n')
    lines = ['{"event":"run","started":"2026-01-01T00:00:00+00:00","nanopace":"0.3.0","config":{"batch_size":2}}']
    lines += [f'{{"event":"step","iteration":{n},"ms":{100 + n % 3},"loss":3.5,"at_ms":{100 * n}}}' for n in range(14)]
    (room / "out/ledger.jsonl").write_text("\n".join(lines) + "\n")
    (room / "nanogpt").mkdir()
    for target, form in (("nanogpt/ckpt.pt", "nanogpt"), ("hf", "huggingface")):
        convert(room / "out", room / target, to=form)
    _shard(room, named)


def _shard(room: Path, weights: dict[str, Any]) -> None:
    """Write a checkpoint as one rank of a sharded run does."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    folder = room / "sharded/checkpoints/step-00000012"
    folder.mkdir(parents=True)
    save(weights, storage_writer=HuggingFaceStorageWriter(str(folder), save_distributed=True), no_dist=True)
    for name in ("state.json", "tokenizer.json"):
        (folder / name).write_bytes((room / "out/checkpoints/step-00000012" / name).read_bytes())
    shard = next(folder.glob("*.safetensors"))
    shard.write_bytes(with_header(header_and_values(shard.read_bytes())))  # safetensors writes the header in any order
    state = json.loads((folder / "state.json").read_text())
    state["files"] = {path.name: None for path in folder.iterdir() if path.name != "state.json"}
    (folder / "state.json").write_bytes(sealed(state, {path.name: path.read_bytes() for path in folder.iterdir()}))


def _corpora(room: Path) -> Any:
    from nanopace.corpus.prepare.prepare import Recipe, prepare
    from nanopace.corpus.tokenizers.tokenizer import load_tokenizer

    (room / "text").mkdir()
    (room / "text/a.txt").write_text(TEXT)
    prepare([room / "text/a.txt"], room / "data/own", Recipe(name="own", tokenizer="bytes"))
    provenance = json.loads((room / "data/own/prepare.json").read_text()) | {"fingerprint": FINGERPRINT}
    (room / "data/own/prepare.json").write_text(json.dumps(provenance))
    shutil.copytree(room / "data/own", room / "data/begun")
    manifest = json.loads((room / "data/begun/corpus.json").read_text())
    manifest["splits"]["val"], manifest["complete"] = [], False
    (room / "data/begun/corpus.json").write_text(json.dumps(manifest))
    raw = room / "data/raw"
    raw.mkdir()
    for split in ("train", "val"):
        (raw / f"{split}.bin").write_bytes(bytes(range(60)) * 4)
    letters = "\n abcdef"
    content = {"vocab_size": 8, "stoi": {each: n for n, each in enumerate(letters)}, "itos": dict(enumerate(letters))}
    (raw / "meta.pkl").write_bytes(pickle.dumps(content))
    headed = room / "data/llmc"
    headed.mkdir()
    header = b"".join(each.to_bytes(4, "little") for each in (20240520, 1, 32, *[0] * 253))
    for split in ("train", "val"):
        (headed / f"a_{split}_000000.bin").write_bytes(header + bytes(64))
    return load_tokenizer(room / "data/own")


def _texts(room: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    (room / "text/b.jsonl").write_text('{"text": "one"}\n{"text": null}\n{"text": "two", "n": [1]}\n')
    with zipfile.ZipFile(room / "text/c.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo("a/b.txt"), TEXT, zipfile.ZIP_DEFLATED)
        archive.writestr(zipfile.ZipInfo("rows.jsonl"), '{"text": "row"}\n')
    pyarrow.parquet.write_table(pyarrow.table({"text": ["one", "two", None]}), room / "text/d.parquet")


def header_and_values(data: bytes) -> tuple[Any, bytes]:
    """Header and values of a safetensors file."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def with_header(parts: tuple[Any, bytes]) -> bytes:
    header = json.dumps(parts[0], sort_keys=True).encode()
    return len(header).to_bytes(8, "little") + header + parts[1]


def sealed(state: dict[str, Any], files: dict[str, bytes]) -> bytes:
    """A state.json with correct checksums of these files and of itself."""
    listed = state.get("files")
    for name in listed if isinstance(listed, dict) else ():
        if name in files:
            listed[name] = {"bytes": len(files[name]), "sha256": hashlib.sha256(files[name]).hexdigest()}
    state.pop("checksum", None)
    state["checksum"] = hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
    return json.dumps(state).encode()
