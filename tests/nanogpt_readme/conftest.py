"""A nanoGPT checkout as its users have it: config/, data/ as its prepare.py files leave it, and small GPT-2s.

The files here are ours, with nanoGPT's values and the constructs of its own. Instead of downloads there are a text of
our own, and GPT-2s with a few thousand weights in addition to the table of 50257 tokens.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from nanopace.cli.main import main
from nanopace.corpus.tokenizers.tokenizer import gpt2
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import checkpoint_directories, verified
from nanopace.train.formats.huggingface import save_huggingface
from nanopace.train.formats.pretrained import Pretrained
from nanopace.train.models.gpt2 import GPT, ModelShape

CONFIGS = {
    "train_shakespeare_char.py": """\
out_dir = 'out-shakespeare-char'
eval_interval = 250  # often: it will overfit
eval_iters = 200
log_interval = 10

always_save_checkpoint = False  # only when val improves

wandb_log = False
wandb_project = 'shakespeare-char'
wandb_run_name = 'mini-gpt'

dataset = 'shakespeare_char'
gradient_accumulation_steps = 1
batch_size = 64
block_size = 256

n_layer = 6
n_head = 6
n_embd = 384
dropout = 0.2

learning_rate = 1e-3
max_iters = 5000
lr_decay_iters = 5000
min_lr = 1e-4
beta2 = 0.99

warmup_iters = 100
""",
    "train_gpt2.py": """\
wandb_log = True
wandb_project = 'owt'
wandb_run_name='gpt2-124M'

batch_size = 12
block_size = 1024
gradient_accumulation_steps = 5 * 8

max_iters = 600000
lr_decay_iters = 600000

eval_interval = 1000
eval_iters = 200
log_interval = 10

weight_decay = 1e-1
""",
    "finetune_shakespeare.py": """\
import time

out_dir = 'out-shakespeare'
eval_interval = 5
eval_iters = 40
wandb_log = False
wandb_project = 'shakespeare'
wandb_run_name = 'ft-' + str(time.time())

dataset = 'shakespeare'
init_from = 'gpt2-xl'

always_save_checkpoint = False

batch_size = 1
gradient_accumulation_steps = 32
max_iters = 20

learning_rate = 3e-5
decay_lr = False
""",
    **{
        f"eval_{name.replace('-', '_')}.py": f"""\
batch_size = 8
eval_iters = 500
eval_only = True
wandb_log = False
init_from = '{name}'
"""
        for name in ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
    },
}
WIDTHS = {"gpt2": 8, "gpt2-medium": 16, "gpt2-large": 24, "gpt2-xl": 32}  # so that they can be told apart

Command = Callable[..., "Said"]


@dataclass(frozen=True)
class Said:
    """What a command printed, line by line."""

    out: str
    err: str

    def losses(self) -> list[tuple[int, float, float]]:
        """nanoGPT's evaluation lines, as people's scripts read them."""
        found = re.findall(r"^step (\d+): train loss ([\d.]+), val loss ([\d.]+)", self.out, re.MULTILINE)
        return [(int(step), float(train), float(val)) for step, train, val in found]

    def validation(self) -> dict[int, float]:
        found = re.findall(r"^step (\d+): .*?val loss ([\d.]+)", self.out, re.MULTILINE)
        return {int(step): float(loss) for step, loss in found}


def knobs(out_dir: Path) -> Mapping[str, Value]:
    """The settings of the run in this directory."""
    return verified(checkpoint_directories(out_dir)[0]).config


@pytest.fixture(autouse=True)
def plain_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """English, no Hugging Face cache, and one thread: the tests run in parallel."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
    torch.set_num_threads(1)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    room = tmp_path / "nanoGPT"
    (room / "config").mkdir(parents=True)
    for name, text in CONFIGS.items():
        (room / "config" / name).write_text(text)
    text = _play(40_000)
    _write_characters(room / "data" / "shakespeare_char", text)
    for dataset in ("shakespeare", "openwebtext"):
        _write_tokens(room / "data" / dataset, gpt2().encode(text))
    monkeypatch.chdir(room)
    return room


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """`nanopace train ...` and `nanopace sample ...` for train.py and sample.py in nanoGPT's README."""

    def run(*words: str, status: int = 0) -> Said:
        capsys.readouterr()
        ended = main(list(words))
        said = Said(*capsys.readouterr())
        assert ended == status, said.out + said.err
        return said

    return run


@pytest.fixture
def downloaded(checkout: Path) -> Callable[..., None]:
    """A small GPT-2 of that name, in the directory where a download puts it."""

    def write(*names: str, block_size: int = 1024) -> None:
        for name in names:
            width = WIDTHS[name]
            shape = ModelShape(n_layer=1, n_head=2, n_embd=width, vocab_size=50257, block_size=block_size, bias=True)
            torch.manual_seed(width)
            weights = {each: tensor.detach() for each, tensor in GPT(shape).state_dict().items()}
            save_huggingface(
                checkout / name, Pretrained(path=Path(name), shape=shape, weights=weights, tokenizer=gpt2())
            )

    return write


def _play(characters: int) -> str:
    """A play with speakers, lines and a rhythm that a small model can learn."""
    rng = np.random.default_rng(7)
    speakers = ["DUKE:\n", "ANNA:\n", "FIRST LORD:\n"]
    words = ["the", "king", "of", "night", "and", "day", "shall", "not", "be", "far", "from", "thee", "my", "lord"]
    lines = []
    while sum(map(len, lines)) < characters:
        lines.append(speakers[rng.integers(len(speakers))])
        said = rng.integers(len(words), size=(rng.integers(1, 4), 7))
        lines.extend(" ".join(words[each] for each in line).capitalize() + ",\n" for line in said)
        lines.append("\n")
    return "".join(lines)[:characters]


def _write_characters(directory: Path, text: str) -> None:
    """Write train.bin, val.bin and meta.pkl: a number for each character, a tenth of the text for validation."""
    characters = sorted(set(text))
    numbers = {character: number for number, character in enumerate(characters)}
    _write_tokens(directory, [numbers[character] for character in text])
    meta = {"vocab_size": len(characters), "itos": dict(enumerate(characters)), "stoi": numbers}
    (directory / "meta.pkl").write_bytes(pickle.dumps(meta))


def _write_tokens(directory: Path, tokens: list[int]) -> None:
    directory.mkdir(parents=True)
    cut = len(tokens) * 9 // 10
    for name, part in (("train", tokens[:cut]), ("val", tokens[cut:])):
        np.array(part, dtype=np.uint16).tofile(directory / f"{name}.bin")
