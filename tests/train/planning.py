"""What a command would train: read and settled as for a real run, which then does not begin."""

from __future__ import annotations

import pytest
import torch

from nanopace.cli.main import main
from nanopace.config import Asked
from nanopace.train import run
from nanopace.train.checkpoint.lock import Claim
from nanopace.train.plan.device import Machine
from nanopace.train.plan.plan import Plan
from nanopace.train.plan.resolve import Wishes, out_dir_of, settle
from nanopace.train.ranks import Ranks

from .conftest import Recorder

CPU = Machine(torch.device("cpu"), "no CUDA card was found")


class SettledError(Exception):
    pass


def asked_by(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Asked:
    """What `nanopace train` with these arguments asks for."""
    heard: list[Asked] = []

    def train(asked: Asked, **_: object) -> None:
        heard.append(asked)
        raise SettledError

    with monkeypatch.context() as patched:
        patched.setattr(run, "train", train)
        with pytest.raises(SettledError):
            main(["train", *arguments])
    return heard[0]


def plan_of(asked: Asked, machine: Machine = CPU) -> Plan:
    """In the current directory."""
    with Claim(out_dir_of(asked.given)) as claim:
        return settle(Wishes(asked, None, machine, Ranks(), claim), Recorder()).plan
