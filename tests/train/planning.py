"""What a command would train: read and resolved as for a real run, which then does not start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from nanopace.cli.main import main
from nanopace.config import Asked, TrainConfig
from nanopace.corpus.shards.corpus import open_corpus
from nanopace.train import run
from nanopace.train.checkpoint.lock import Claim
from nanopace.train.plan.device import Machine
from nanopace.train.plan.resolve import RunRequest, out_dir_of, plan_run, resolve
from nanopace.train.plan.run_plan import RunPlan
from nanopace.train.plan.settings import Settings, shape_of
from nanopace.train.ranks import Ranks

from .conftest import Recorder

CPU = Machine(torch.device("cpu"), "found no CUDA card")


class SettledError(Exception):
    pass


def asked_by(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Asked:
    """What `nanopace train` reads from these arguments."""
    heard: list[Asked] = []

    def train(asked: Asked, **_: object) -> None:
        heard.append(asked)
        raise SettledError

    with monkeypatch.context() as patched:
        patched.setattr(run, "train", train)
        with pytest.raises(SettledError):
            main(["train", *arguments])
    return heard[0]


def plan_of(asked: Asked, machine: Machine = CPU) -> RunPlan:
    """The plan for the current directory."""
    with Claim(out_dir_of(asked.given)) as claim:
        return resolve(RunRequest(asked, None, machine, Ranks(), claim), Recorder())


def plan_with(config: TrainConfig, corpus: Path, device: torch.device = CPU.device, **decided: Any) -> RunPlan:
    """The plan for these settings, except for what is decided here."""
    machine = Machine(device, "asked for")
    claim = Claim(Path(config.out_dir))
    settings, shape = Settings(config, {}), shape_of(config, "gelu")
    return replace(plan_run(settings, shape, machine, open_corpus(corpus), claim=claim, ranks=Ranks()), **decided)
