"""A run that memorised its few words: its validation loss falls and then rises again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from nanopace.config import Asked
from nanopace.corpus.shards.corpus import open_corpus
from nanopace.corpus.shards.order import Order
from nanopace.train.formats.convert import open_pretrained
from nanopace.train.run import train

from .conftest import TINY, Recorder, write_corpus

BLOCK, SEED = 16, 1337


def overfit(directory: Path) -> tuple[Path, dict[int, float]]:
    """Its out_dir, and the validation loss of each evaluation by step."""
    corpus = write_corpus(directory / "corpus", train=120)
    given = {
        **TINY,
        "n_layer": 1,
        "n_embd": 32,
        "dropout": 0.0,
        "decay_lr": False,
        "gradient_accumulation_steps": 1,
        "max_iters": 200,
        "eval_interval": 20,
        "eval_iters": 20,  # of 4 windows: all of them
        "always_save_checkpoint": False,
        "dataset": str(corpus),
        "out_dir": str(directory / "out"),
    }
    told = Recorder()
    train(Asked(given=given, files=("config.py",)), listener=told)
    return directory / "out", {report.iteration: report.val for report in told.all("eval")}


def plain_loss(weights: Path, corpus: Path) -> float:
    """The validation loss of a model in any form, in plain torch, on the windows that training evaluates."""
    split = open_corpus(corpus).val
    order = Order(split, BLOCK, SEED)
    tokens = np.empty((order.windows, BLOCK + 1), dtype=np.int64)
    split.gather(order.starts(0, order.windows), BLOCK + 1, tokens)
    windows = torch.from_numpy(tokens)
    with torch.no_grad():
        logits = open_pretrained(weights).model().logits(windows[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten()).item()
