"""Freeze the current output of nanopace: python -m tests.frozen.make. README.md says when that is right.

python -m tests.frozen.make files also makes the archive of files, as it was made with nanopace 0.1.
"""

from __future__ import annotations

import json
import pickle
import random
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
from array import array
from pathlib import Path

from . import answers, old_files, trainings
from .comparing import FROZEN
from .files import ARCHIVE, SMALL, train, unpack
from .session import machine, session

# `prepare`, killed in the middle of its work: batches are small and each is committed. The modules have the names of
# nanopace 0.1, which is needed to make the archive of that name.
INTERRUPTED = """
import os, sys
from nanopace.cli.main import main
from nanopace.corpus import intake, work
intake.BATCH = 4_000
work._SECONDS_BETWEEN_COMMITS = 0
replace, left = os.replace, 12
def counted(*arguments, **options):
    global left
    left -= 1
    if not left:
        os._exit(9)
    return replace(*arguments, **options)
os.replace = counted
main(sys.argv[1:])
"""


def rows() -> str:
    """Documents of a few words, as JSONL."""
    draw = random.Random(23)
    words = ["".join(draw.choice("abcdefghijk") for _ in range(draw.randint(2, 7))) for _ in range(40)]
    texts = (" ".join(draw.choice(words) for _ in range(draw.randint(8, 30))) + ".\n" for _ in range(200))
    return "".join(json.dumps({"text": text}) + "\n" for text in texts)


def make_files(directory: Path) -> None:
    """Make everything in the archive."""
    (directory / "rows.jsonl").write_text(rows())
    commands = [
        ["prepare", "rows.jsonl", "--tokenizer=bytes", "--out=data/bytes"],
        ["prepare", "rows.jsonl", "--tokenizer=chars", "--out=data/chars", "--shard_tokens=8000"],
        ["prepare", "rows.jsonl", "--tokenizer=bpe", "--vocab_size=280", "--out=data/bpe"],
        train("runs/gpt2", max_iters="5", keep_last="1", dropout="0.1"),
        train("runs/fast", max_iters="5", keep_last="1", recipe="fast"),
        train(
            "runs/fsdp",
            "--gpus=2",
            parallel="fsdp",
            backend="gloo",
            gradient_accumulation_steps="2",
            max_iters="5",
            keep_last="1",
            dataset="bytes",
            n_layer="1",
        ),
        train("bpe", max_iters="5", dataset="bpe", bias="True"),
        ["convert", "bpe", "exported/huggingface"],
        ["convert", "runs/gpt2", "exported/ckpt.pt"],
        ["convert", "exported/ckpt.pt", "exported/nanopace", "--to=nanopace"],
        train("full", max_iters="60", lr_decay_iters="60", eval_interval="20", log_interval="2", eval_train="full"),
    ]
    (directory / "exported").mkdir()
    for command, answer in zip(commands, session(directory, commands), strict=True):
        assert answer.code == 0, (command, answer)
    (directory / "ledgers").mkdir()
    (directory / "full" / "ledger.jsonl").rename(directory / "ledgers" / "full.jsonl")
    for left in ("full", "bpe", "cache"):
        shutil.rmtree(directory / left, ignore_errors=True)
    make_foreign(directory / "data")
    make_trials(directory)
    (directory / "logs").mkdir()
    for log in FROZEN.parent.rglob("nanochat/*.log"):
        shutil.copy(log, directory / "logs")
    flags = ["prepare", "rows.jsonl", "--tokenizer=bytes", "--out=data/interrupted", "--shard_tokens=9000"]
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, *flags], cwd=directory, check=False)
    assert done.returncode == 9


def make_foreign(data: Path) -> None:
    """Corpora as nanoGPT's character-level prepare.py and llm.c's dev/data leave them."""
    text = "".join(json.loads(row)["text"] for row in rows().splitlines())
    alphabet = sorted(set(text))
    ids = array("H", map(alphabet.index, text))
    (data / "nanogpt").mkdir()
    (data / "nanogpt" / "train.bin").write_bytes(ids[2000:].tobytes())
    (data / "nanogpt" / "val.bin").write_bytes(ids[:2000].tobytes())
    meta = {
        "vocab_size": len(alphabet),
        "itos": dict(enumerate(alphabet)),
        "stoi": {c: i for i, c in enumerate(alphabet)},
    }
    (data / "nanogpt" / "meta.pkl").write_bytes(pickle.dumps(meta))
    (data / "llmc").mkdir()
    for name, tokens in (("rows_val_000000.bin", ids[:2000]), ("rows_train_000001.bin", ids[2000:])):
        header = struct.pack("<256i", 20240520, 1, len(tokens), *[0] * 253)
        (data / "llmc" / name).write_bytes(header + tokens.tobytes())


def make_trials(directory: Path) -> None:
    """What tune and ablate store, and tune's calibration; of the trials themselves, only the one it reads."""
    (directory / "trials").mkdir()
    texts = {"dataset": "'chars'", "device": "'cpu'", "dtype": "'float32'"}
    given = {**SMALL, **texts, "batch_size": "1", "gradient_accumulation_steps": "4"}
    for name, width, rate in (("a", "16", "1e-2"), ("b", "64", "2e-2")):
        knobs = {
            **given,
            "n_embd": width,
            "learning_rate": rate,
            "dataset": "'chars'",
            "device": "'cpu'",
            "dtype": "'float32'",
        }
        lines = (f"{knob} = {value}\n" for knob, value in knobs.items())
        (directory / "trials" / f"{name}.py").write_text("".join(lines))
    commands = [answers.JSON["tune"], answers.JSON["ablate"]]
    for answer in session(directory, commands, XDG_CACHE_HOME=str(directory / answers.CACHE)):
        assert answer.code == 0, answer
    for config in (directory / "trials").glob("*/*/config.py"):
        if config.parent.name == "given.0":
            config.unlink()
        else:
            shutil.rmtree(config.parent)


def main() -> None:
    if sys.argv[1:] not in ([], ["files"]):
        sys.exit(__doc__)
    if sys.argv[1:] == ["files"]:
        with tempfile.TemporaryDirectory() as made:
            make_files(Path(made))
            pack(Path(made))
    (FROZEN / "machine.txt").write_text(machine() + "\n")
    for recorded in (trainings.recorded, old_files.recorded, answers.recorded):
        with tempfile.TemporaryDirectory() as place:
            for name, text in recorded(unpack(Path(place))).items():
                (FROZEN / name).parent.mkdir(exist_ok=True)
                (FROZEN / name).write_text(text)


def pack(directory: Path) -> None:
    with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
        archive.add(directory, arcname=".", filter=_nobody_s)


def _nobody_s(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main()
