"""What the files in files-0.1.tar.xz give today: each is loaded and resumed with the command line alone."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path

from .files import resume, train
from .session import Answer, session
from .trainings import events

_WRITE = ("--start=abc", "--num_samples=2", "--max_new_tokens=20", "--device=cpu")
_ROWS = ("prepare", "rows.jsonl")

TRAINED = [
    resume("runs/gpt2"),
    resume("runs/fast"),
    resume("runs/fsdp", "--gpus=2"),
    resume("alone/fsdp"),
    resume("ckpt"),  # as nanoGPT's out_dir
    [
        *("train", "--no-report", "--out_dir=warm", "--init_from=exported/huggingface", "--dataset=bpe"),
        *("--device=cpu", "--dtype=float32", "--compile=False", "--batch_size=2", "--gradient_accumulation_steps=1"),
        *("--max_iters=2", "--eval_interval=2", "--eval_iters=2", "--warmup_iters=0"),
    ],
    *(
        train(f"on/{name}", dataset=name, max_iters="2", eval_interval="2")
        for name in ("bytes", "chars", "bpe", "nanogpt", "llmc")
    ),
]

READ = [
    *(["verify", f"runs/{name}"] for name in ("gpt2", "fast", "fsdp")),
    *(["sample", f"runs/{name}", *_WRITE] for name in ("gpt2", "fast", "fsdp")),
    *(["sample", f"exported/{name}", *_WRITE] for name in ("ckpt.pt", "nanopace", "huggingface")),
    ["convert", "runs/gpt2", "converted.pt"],
    ["sample", "converted.pt", *_WRITE],
    ["convert", "runs/fsdp", "converted/fsdp"],
    ["sample", "converted/fsdp", "--tokenizer=bytes", *_WRITE],
    ["convert", "runs/fast", "converted/fast", "--to=nanopace"],
    ["sample", "converted/fast", *_WRITE],
    ["convert", "exported/huggingface", "huggingface.pt"],
    ["convert", "exported/nanopace", "converted/huggingface"],
]
PREPARED = [
    [*_ROWS, "--tokenizer=bytes", "--out=new/bytes"],
    [*_ROWS, "--tokenizer=chars", "--out=new/chars", "--shard_tokens=8000"],
    [*_ROWS, "--tokenizer=bpe", "--vocab_size=280", "--out=new/bpe"],
    [*_ROWS, "--tokenizer=gpt2", "--out=new/gpt2"],
    [*_ROWS, "--tokenizer=bytes", "--shard_tokens=9000", "--out=new/whole", "--name=interrupted"],
    [*_ROWS, "--tokenizer=bytes", "--shard_tokens=9000", "--out=data/interrupted"],
]
EXPLAINED = ["explain", "ledgers/full.jsonl", "--json"]


def recorded(directory: Path) -> dict[str, str]:
    """The outputs, by the name of the file that freezes them."""
    _arrange(directory)
    commands = [*READ, *TRAINED, *PREPARED, EXPLAINED]
    answers = session(directory, commands)
    for command, answer in zip(commands, answers, strict=True):
        assert answer.code == 0, (command, answer)
    found = {"files/read.txt": "".join(_told(*each) for each in zip(READ, answers, strict=False))}
    for command in TRAINED:
        out_dir = next(flag.partition("=")[2] for flag in command if flag.startswith("--out_dir="))
        found[f"files/{out_dir.replace('/', '_')}.jsonl"] = events(directory / out_dir / "ledger.jsonl")
    found["files/prepared.txt"] = "".join(
        f"{path.relative_to(directory)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n"
        for path in sorted([*directory.glob("data/*/*.bin"), *directory.glob("new/*/*.bin")])
    )
    found["files/explained.json"] = json.dumps(json.loads(answers[-1].out), indent=1) + "\n"
    return found


def _arrange(directory: Path) -> None:
    """An out_dir of nanoGPT, a second copy of what two commands resume, and a corpus that was begun here."""
    for folder in ("ckpt", "converted"):
        (directory / folder).mkdir()
    shutil.copy(directory / "exported" / "ckpt.pt", directory / "ckpt" / "ckpt.pt")
    shutil.copytree(directory / "runs" / "fsdp", directory / "alone" / "fsdp")
    path = directory / "data" / "interrupted" / "prepare.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "fingerprint": _fingerprint(directory / "rows.jsonl")}))


def _fingerprint(rows: Path) -> str:
    """Lets nanopace 0.1 recognise its own work. It depends on path and time, so it is recomputed here."""
    flags = {"name": "interrupted", "tokenizer": "bytes", "shard_tokens": 9000, "text_field": "text"}
    recipe = {**flags, "vocab_size": None, "val_fraction": None}
    found = rows.stat()
    content = [2, recipe, 0.1, None, [[str(rows.resolve()), found.st_size, found.st_mtime_ns]]]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _told(command: list[str], answer: Answer) -> str:
    said = re.sub(r"tokens in .* tokens/s", "tokens in …", answer.out + answer.err)
    said = "".join(each if each.isprintable() or each == "\n" else f"\\x{ord(each):02x}" for each in said)
    return f"$ nanopace {' '.join(command)}\n{said}\n"
