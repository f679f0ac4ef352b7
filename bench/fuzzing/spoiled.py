"""Corrupted files and directories: checkpoints, models, corpora and complete run directories.

An input is a JSON object: `put` maps paths to what replaces the world's files there, and `do` is what to do with them:
the name of a reader and a path, or a command's arguments. trees.py does it.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import warnings
from random import Random
from typing import Any

from fuzzing.hostile import VALUES, altered_json, packed, spoil
from fuzzing.ledgers import make_ledger
from fuzzing.world import CANARY, header_and_values, sealed, with_header, world

DEEP = b"[" * 200_000
_COMMANDS = (
    *("explain out", "explain .", "explain out --json", "compare out out", "compare out text", "verify out"),
    *("verify sharded", "verify out --which=best", "sample out --max_new_tokens=1 --num_samples=1 --device=cpu"),
    *("sample sharded --max_new_tokens=1 --num_samples=1 --device=cpu", "convert out made.pt", "convert sharded made"),
    *("sample nanogpt --max_new_tokens=1 --num_samples=1 --device=cpu", "convert hf made.pt", "convert out hf --force"),
    *("prepare text/a.txt --out=data/begun --name=own --tokenizer=bytes", "prepare text --out=made --tokenizer=bytes"),
    *("prepare text/a.txt --out=data/own --name=own --tokenizer=bytes --restart", "recommend --gpu=4090 --dataset=own"),
    *("train config.py --init_from=resume --no-report", "train config.py --eval_only=True --init_from=resume"),
    *(
        "train config.py --init_from=resume --dataset=data/raw --vocab_size=8",
        "train config.py --overwrite=True --max_iters=1",
    ),
)
_READERS = {
    "checkpoint": ("out/checkpoints/step-00000010/", "out/checkpoints/step-00000012/", "out/best.json", "sharded/"),
    "model": ("out/checkpoints/step-00000012/", "sharded/", "nanogpt/", "hf/"),
    "corpus": ("data/",),
    "documents": ("text/",),
}


def make_checkpoint(dice: Random) -> bytes:
    return _for_reader(dice, "checkpoint" if dice.random() < 0.6 else "model")


def make_corpus(dice: Random) -> bytes:
    return _for_reader(dice, "corpus" if dice.random() < 0.6 else "documents")


def _for_reader(dice: Random, reader: str) -> bytes:
    path = dice.choice([name for name in world() if name.startswith(_READERS[reader])])
    put = {path: _spoiled(dice, path)}
    if path.startswith(("out/checkpoints/", "sharded/")) and dice.random() < 0.6:
        _seal(put, path)
    top = path.partition("/")[0]
    place = {"checkpoint": top, "model": top, "corpus": os.path.dirname(path), "documents": path}[reader]
    return _written(put, [reader, place])


def make_directory(dice: Random) -> bytes:
    """Usually something other than a file where one is expected, sometimes a corrupted file, for a complete command."""
    command = dice.choice(_COMMANDS).split()
    tops = {word.partition("=")[2].partition("/")[0] or word.partition("/")[0] for word in command} | {"out", "data"}
    near = [name for name in world() if name.partition("/")[0] in tops]
    put: dict[str, Any] = {}
    for _ in range(dice.choice((1, 1, 2, 3))):
        path = (
            dice.choice(near) if dice.random() < 0.85 else dice.choice(near) + dice.choice((".part", ".tmp", "x", "/a"))
        )
        if dice.random() < 0.2:
            path = os.path.dirname(path) or path
        if dice.random() < 0.15:
            path = dice.choice(
                ("out/.lock", "out/lock", "data/begun/seen.bin", "data/begun/train-00000.bin.part", "made")
            )
        if path in world() and dice.random() < 0.3:
            put[path] = _spoiled(dice, path)
            _seal(put, path)
        elif path != CANARY:
            kinds = ("fifo", "link", "link", "directory", "gone", "sparse", "deep", "empty", "secret", "socket")
            named = path in command and command[0] in (
                "explain",
                "compare",
            )  # a command that is given a pipe waits for its writer
            put[path] = [
                dice.choice(kinds[1:] if named else kinds),
                dice.choice((f"{{room}}/{CANARY}", "/dev/zero", "/dev/full", ".", "nowhere")),
            ]
    return _written(put, command)


def _written(put: dict[str, Any], do: list[str]) -> bytes:
    plain = {path: what.decode("latin-1") if isinstance(what, bytes) else what for path, what in put.items()}
    return json.dumps({"put": plain, "do": do}).encode()


def _spoiled(dice: Random, path: str) -> bytes:
    """The file, corrupted; usually with its structure intact, to get past the first check."""
    data, suffix, chance = world()[path], os.path.splitext(path)[1], dice.random()
    if chance < 0.2:
        return spoil(dice, data)
    if chance < 0.25:
        return dice.choice((b"", data[: dice.randrange(len(data))], DEEP, b"\0" * len(data), data + data, b"null"))
    if suffix == ".json":
        return altered_json(dice, json.loads(data))
    if suffix == ".safetensors":
        header, values = header_and_values(data)
        if dice.random() < 0.1:
            return dice.choice((0, 1, 2**63, len(data))).to_bytes(8, "little") + data[8:]
        return _altered_header(dice, header) + (values if dice.random() < 0.8 else spoil(dice, values))
    if path.endswith("ledger.jsonl"):
        return make_ledger(dice)
    if suffix == ".jsonl":
        return b"".join(altered_json(dice, {"text": "row", "more": [1, {}]}) + b"\n" for _ in range(3))
    if suffix == ".pkl":
        return pickle.dumps(json.loads(altered_json(dice, {"vocab_size": 3, "stoi": {"a": 0}, "itos": {"0": "a"}})))
    if suffix == ".pt":
        return _altered_pickle(dice)
    return packed(dice, data) if dice.random() < 0.3 else spoil(dice, data, 8)


def _altered_header(dice: Random, header: dict[str, Any]) -> bytes:
    said = header.get("__metadata__", {}).get("DCP_SHARDING_INFO")
    if said is not None and dice.random() < 0.4:
        header["__metadata__"]["DCP_SHARDING_INFO"] = altered_json(dice, json.loads(said)).decode()
        return with_header((header, b""))
    altered = altered_json(dice, header)
    return len(altered).to_bytes(8, "little") + altered


def _altered_pickle(dice: Random) -> bytes:
    """A ckpt.pt with another object somewhere in it; a replaced tensor may be of any kind."""
    import torch

    checkpoint = torch.load(io.BytesIO(world()["nanogpt/ckpt.pt"]), weights_only=True)
    odd = (
        torch.zeros(0),
        torch.zeros(3, 3),
        torch.zeros(2, dtype=torch.int8),
        torch.eye(2).to_sparse(),
        torch.zeros(1, device="meta"),
    )
    holder: Any = checkpoint
    while True:
        key = dice.choice(list(holder))
        if not isinstance(holder[key], dict) or not holder[key] or dice.random() < 0.2:
            break
        holder = holder[key]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        holder[key] = dice.choice((*odd, torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), *VALUES))
    if dice.random() < 0.1:
        del holder[key]
    file = io.BytesIO()
    torch.save(checkpoint, file)
    return file.getvalue()


def _seal(put: dict[str, Any], path: str) -> None:
    """Give wrong contents correct checksums, as somebody could by hand. What cannot be sealed stays as it is."""
    folder = os.path.dirname(path)
    if f"{folder}/state.json" not in world():
        return
    files = {name.rpartition("/")[2]: data for name, data in world().items() if os.path.dirname(name) == folder}
    files |= {name.rpartition("/")[2]: data for name, data in put.items() if os.path.dirname(name) == folder}
    try:
        put[f"{folder}/state.json"] = sealed(json.loads(files["state.json"]), files)
    except (ValueError, AttributeError, TypeError, RecursionError):
        return
