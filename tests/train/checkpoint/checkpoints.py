"""A checkpoint of a tiny model, as written, and with altered contents."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import torch

from nanopace.corpus.tokenizers.tokenizer import bytes_tokenizer
from nanopace.train.checkpoint.write import write_weights
from nanopace.train.models.gpt2 import GPT, ModelShape

SHAPE = ModelShape(n_layer=1, n_head=2, n_embd=8, vocab_size=257, block_size=8, bias=True)


def save(out: Path, step: int) -> tuple[Path, GPT]:
    torch.manual_seed(step)
    model = GPT(SHAPE)
    directory = out / "checkpoints" / f"step-{step:08d}"
    config = {"learning_rate": 0.1, "out_dir": "ö", "compile": False}
    write_weights(directory, SHAPE, model.state_dict(), step=step, config=config, tokenizer=bytes_tokenizer())
    return directory, model


def rewrite(directory: Path, **changes: object) -> None:
    """Change the state by hand, with a correct checksum."""
    from nanopace.train.checkpoint import layout as checkpoint_files

    path = directory / "state.json"
    state = {**json.loads(path.read_text()), **changes}
    del state["checksum"]
    path.write_text(json.dumps({**state, "checksum": checkpoint_files.checksum_of(state)}))


def put(directory: Path, name: str, tensors: dict[str, torch.Tensor]) -> None:
    """Put in a hand-made file, with a correct checksum."""
    from safetensors.torch import save_file

    from nanopace.train.checkpoint.write import measure

    save_file(tensors, directory / name)
    files = json.loads((directory / "state.json").read_text())["files"]
    rewrite(directory, files={**files, name: asdict(measure(directory / name))})
