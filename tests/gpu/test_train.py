"""The trainer on a real card: `pytest -m gpu tests/gpu`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from nanopace.config import Asked, TrainConfig
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import MODEL
from nanopace.train.checkpoint.lock import Claim
from nanopace.train.checkpoint.saver import Checkpointer
from nanopace.train.checkpoint.write import describe
from nanopace.train.clock.clock import CudaClock
from nanopace.train.fused.attention import pick_attention
from nanopace.train.listener import Outcome
from nanopace.train.models.gpt2 import GPT, ModelShape
from nanopace.train.optim.optimizer import make_optimizer
from nanopace.train.run import train

from ..train.conftest import TINY, Recorder, write_corpus

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA card")]

CARD = torch.device("cuda", 0)
MIDDLE: dict[str, Value] = {
    **TINY,
    "device": "cuda",
    "n_embd": 128,
    "block_size": 128,
    "batch_size": 8,
    "max_iters": 30,
}


@pytest.fixture(autouse=True)
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restores what a run switches off, and clears what it remembers."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield
    for switch in ("cudnn", "flash", "mem_efficient", "math"):
        getattr(torch.backends.cuda, f"enable_{switch}_sdp")(True)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus", train=200_000, val=40_000)


def run(corpus: Path, out: Path, **knobs: Value) -> tuple[Outcome, Recorder]:
    listener = Recorder()
    given = {**MIDDLE, "dataset": str(corpus), "out_dir": str(out), **knobs}
    return train(Asked(given=given, files=("config.py",)), listener=listener, started=time.monotonic()), listener


def events(out: Path, name: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (out / "ledger.jsonl").read_text().splitlines()]
    return [each for each in found if each["event"] == name]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("compiled", [False, True])
def test_it_learns_and_accounts_for_every_moment(corpus: Path, tmp_path: Path, dtype: str, compiled: bool) -> None:
    begin = time.monotonic()
    outcome, told = run(corpus, tmp_path / "out", dtype=dtype, compile=compiled)
    wall_ms = (time.monotonic() - begin) * 1000
    assert told.losses[30] < told.losses[0] - 1
    assert outcome.wall_ms == pytest.approx(wall_ms, rel=0.01, abs=20)
    assert bool(events(tmp_path / "out", "compile")) == compiled
    (intro,) = told.all("started")
    assert all(mfu is None or 0 < mfu < 1 for mfu in map(intro.mfu, told.all("step")))


def test_the_card_and_the_host_learn_alike(corpus: Path, tmp_path: Path) -> None:
    """From the same weights: each would draw its own."""
    plain: dict[str, Value] = {"dtype": "float32", "compile": False, "dropout": 0.0}
    still: dict[str, Value] = {"learning_rate": 1e-12, "decay_lr": False, "max_iters": 1}
    run(corpus, tmp_path / "begun", device="cpu", **plain, **still)
    plain["init_from"] = str(tmp_path / "begun")
    _, card = run(corpus, tmp_path / "card", **plain)
    _, host = run(corpus, tmp_path / "host", device="cpu", **plain)
    first = range(10)  # later, rounding errors have grown
    assert [card.losses[step] for step in first] == pytest.approx([host.losses[step] for step in first], abs=5e-3)
    assert card.all("eval")[0].val == pytest.approx(host.all("eval")[0].val, abs=1e-3)


def test_a_resumed_run_goes_on_as_it_would_have(corpus: Path, tmp_path: Path) -> None:
    """The next step gets the same tokens and dropout; a card's sums are not exact to the last bit."""
    plain: dict[str, Value] = {"compile": False, "dtype": "float32"}
    _, whole = run(corpus, tmp_path / "whole", **plain)
    run(corpus, tmp_path / "cut", **plain, max_iters=14)
    listener = Recorder()
    given: dict[str, Value] = {"init_from": "resume", "out_dir": str(tmp_path / "cut"), "max_iters": 17}
    train(Asked(given=given, auto=True), listener=listener, started=time.monotonic())
    assert listener.losses[15] == pytest.approx(whole.losses[15], abs=1e-3)


def test_a_checkpoint_holds_the_weights_of_its_moment(tmp_path: Path) -> None:
    """Although the weights change as soon as the copy is done."""
    shape = ModelShape(n_layer=8, n_head=8, n_embd=1024, vocab_size=8192, block_size=64)
    config = TrainConfig(n_layer=8, n_head=8, n_embd=1024, vocab_size=8192, block_size=64)
    model = GPT(shape).to(CARD)
    optimizer = make_optimizer(model, config, CARD)
    saver = Checkpointer(Claim(tmp_path), model, optimizer, tokenizer=None, keep_last=9, device=CARD)
    expected = {}
    for step in (1, 2, 3):
        expected[step] = {name: each.detach().cpu().clone() for name, each in model.named_parameters()}
        saver.save(step, describe(shape, step=step, config={}, tokenizer=None))
        saver.before_update()
        with torch.no_grad():
            for each in model.parameters():
                each.mul_(1.5).add_(0.25)
    saver.close()
    assert [result.failure for result in saver.results()] == [None] * 3
    for step, weights in expected.items():
        saved = load_file(tmp_path / "checkpoints" / f"step-{step:08d}" / MODEL)
        assert all(torch.equal(saved[name], each) for name, each in weights.items())


def test_the_clock_is_the_cards() -> None:
    clock = CudaClock(time.monotonic(), CARD)
    a = torch.randn(4096, 4096, device=CARD)
    torch.cuda.synchronize()
    clock.mark("other", 0)
    begin = time.monotonic()
    for _ in range(50):
        a @ a
    launched = (time.monotonic() - begin) * 1000
    moment = clock.mark("step", 0)
    assert not moment.passed()  # nothing waited
    moment.wait()
    took = (time.monotonic() - begin) * 1000
    time.sleep(0.05)
    clock.mark("data", 0)
    clock.finish()
    pieces = {piece.phase: piece.ms for piece in clock.completed_pieces()}
    assert pieces["step"] == pytest.approx(took, rel=0.2)
    assert pieces["step"] > 3 * launched
    assert pieces["data"] == pytest.approx(50, abs=10)


def test_an_attention_kernel_is_chosen_by_trying() -> None:
    shape = ModelShape(n_layer=1, n_head=4, n_embd=256, vocab_size=100, block_size=256)
    assert pick_attention(shape, 8, CARD, torch.bfloat16).kernel in ("cudnn", "flash", "efficient")
    assert pick_attention(shape, 8, CARD, torch.float32).kernel == "efficient"
    assert pick_attention(shape, 8, CARD, torch.float32).reason.endswith(", measured earlier")


def test_nothing_is_compiled_in_a_step(corpus: Path, tmp_path: Path) -> None:
    _, told = run(corpus, tmp_path / "out", compile=True, max_iters=10)
    times = sorted(event.ms for event in told.all("step"))
    assert times[-1] < 50 * times[0]  # a compilation takes seconds, a step here milliseconds
