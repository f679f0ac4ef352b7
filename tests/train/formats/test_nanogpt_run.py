"""Resuming a nanoGPT run, compared with plain torch, which does by hand what nanoGPT's train.py does.

bench/nanogpt_resume.py compares it with nanoGPT itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nanopace.config import Asked, TrainConfig
from nanopace.corpus.shards.corpus import open_corpus
from nanopace.corpus.shards.order import Order
from nanopace.errors import ConfigError, InputError, NanopaceError
from nanopace.literals import Value
from nanopace.train.checkpoint.best import read_best
from nanopace.train.checkpoint.layout import checkpoint_directories, newest_intact
from nanopace.train.formats.convert import convert
from nanopace.train.loop.schedule import learning_rate
from nanopace.train.models.gpt2 import GPT
from nanopace.train.plan.settings import shape_of
from nanopace.train.run import train

from ..conftest import TINY, Recorder, write_corpus
from ..processes import losses_of, torchrun
from ..processes import run as run_processes
from ..runs import events, resume, run
from ..test_faults import Faulty, nan_loss

FIRST, LAST = 10, 14  # the iteration that ckpt.pt was saved at, and the last one that both do afterwards
# nanoGPT's config: it has no vocab_size, and on a CPU its dtype, float16 by default, means nothing.
CONFIG: Mapping[str, Value] = {
    **TINY,
    "dropout": 0.0,
    "max_iters": LAST,
    "out_dir": "out-of-before",
    "init_from": "scratch",
    "eval_only": True,  # of a call, not of the run
    "dtype": "float16",
    "decay_lr": True,
    "weight_decay": 0.1,
    "beta2": 0.95,
}
TRUE_KNOBS = {"weight_decay": 0.3, "beta2": 0.99}  # AdamW's own, which nanoGPT keeps when it resumes, whatever is given


class ByHand:
    """nanoGPT's train.py in plain torch: a model, torch's AdamW, and windows."""

    def __init__(self, corpus: Path) -> None:
        self.config = TrainConfig(**{**CONFIG, "dataset": str(corpus), "vocab_size": 257, **TRUE_KNOBS})  # type: ignore[arg-type]
        self._split = open_corpus(corpus).train
        self._order = Order(self._split, self.config.block_size, self.config.seed)
        torch.manual_seed(3)
        self.model = GPT(shape_of(self.config, "gelu"))
        weights = [*self.model.parameters()]
        groups = [
            {"params": [each for each in weights if each.dim() >= 2], "weight_decay": self.config.weight_decay},
            {"params": [each for each in weights if each.dim() < 2], "weight_decay": 0.0},
        ]
        betas = (self.config.beta1, self.config.beta2)
        self.optimizer = torch.optim.AdamW(groups, lr=self.config.learning_rate, betas=betas)

    def step(self, number: int) -> float:
        config, count = self.config, self.config.gradient_accumulation_steps
        starts = self._order.starts(number * count * config.batch_size, count * config.batch_size)
        tokens = np.empty((len(starts), config.block_size + 1), dtype=np.int64)
        self._split.gather(starts, config.block_size + 1, tokens)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(config, number)
        losses = []
        for each in torch.from_numpy(tokens).split(config.batch_size):
            loss = self.model(each[:, :-1], each[:, 1:]) / count
            loss.backward()
            losses.append(loss.item())
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.grad_clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return sum(losses)

    def checkpoint(self, corpus: Path) -> dict[str, Any]:
        named = ("n_layer", "n_head", "n_embd", "block_size", "bias", "vocab_size", "dropout")
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "model_args": {name: getattr(self.config, name) for name in named},
            "iter_num": FIRST,
            "best_val_loss": torch.tensor(2.5),
            "config": {**CONFIG, "dataset": str(corpus)},
        }


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, float]]:
    """A ckpt.pt, and the losses that come next."""
    room = tmp_path_factory.mktemp("nanogpt")
    corpus = write_corpus(room / "corpus")
    hand = ByHand(corpus)
    for number in range(FIRST):
        hand.step(number)
    torch.save(hand.checkpoint(corpus), room / "ckpt.pt")
    return room / "ckpt.pt", {number: hand.step(number) for number in range(FIRST, LAST + 1)}


@pytest.fixture
def expected(begun: tuple[Path, dict[int, float]]) -> dict[int, float]:
    return begun[1]


@pytest.fixture
def out(begun: tuple[Path, dict[int, float]], tmp_path: Path) -> Path:
    return placed(begun[0], tmp_path / "out")


def placed(checkpoint: Path, out: Path, **changes: object) -> Path:
    """An out_dir of nanoGPT."""
    out.mkdir(exist_ok=True)
    content = torch.load(checkpoint, weights_only=True)
    torch.save({**content, **changes}, out / "ckpt.pt")
    return out


def test_the_next_losses_are_those_of_nanogpt(out: Path, expected: dict[int, float]) -> None:
    before = (out / "ckpt.pt").read_bytes()
    _, told = resume(out)
    assert told.losses == pytest.approx(expected, abs=2e-6)
    assert [(each["iteration"], each["checkpoint"]) for each in events(out, "resume")] == [
        (FIRST, str(out / "ckpt.pt"))
    ]
    assert (out / "ckpt.pt").read_bytes() == before
    (intro,) = told.all("started")
    assert "changed since the checkpoint" not in intro.choices  # such as vocab_size, which nanoGPT's config has not
    config = events(out, "run")[0]["config"]
    assert {name: config[name] for name in ("dtype", "out_dir", "eval_only", *TRUE_KNOBS)} == {
        "dtype": "float32",
        "out_dir": str(out),
        "eval_only": False,
        **TRUE_KNOBS,
    }


def test_what_is_taken_over_is_said(out: Path) -> None:
    _, told = resume(out, learning_rate=5e-3)
    began, settings, windows = told.all("note")
    has = f"{out}/ckpt.pt"
    assert (
        began
        == f"{has}: resuming nanoGPT's run at iteration 10, with its weights, AdamW's averages and best_val_loss 2.5000"
    )
    assert settings.startswith(f"{has}: keeps its settings where nanoGPT would now use its defaults: ")
    assert "batch_size=4" in settings
    assert "weight_decay=0.3" in settings
    for absent in ("learning_rate", "n_layer", "out_dir", "dtype", "grad_clip"):
        assert absent not in settings  # given now, settled, of another call, of the machine, a default
    assert windows == (
        f"{has}: does not say which windows were read; the data continues in nanopace's order with window 80, "
        "and dropout draws new random numbers"
    )
    assert events(out, "run")[0]["config"]["learning_rate"] == 5e-3


def test_it_is_saved_as_one_of_ours_and_goes_on_as_that(out: Path, expected: dict[int, float]) -> None:
    resume(out, max_iters=12)
    assert [each.name for each in checkpoint_directories(out)] == ["step-00000013", "step-00000010"]
    _, told = resume(out, max_iters=LAST)
    assert told.losses == pytest.approx({step: expected[step] for step in (13, 14)}, abs=2e-6)
    assert told.all("note") == [
        f"resuming from {out}/checkpoints/step-00000013 at step 13; {out}/ckpt.pt is at step 10"
    ]
    assert events(out, "resume")[-1]["checkpoint"] == f"{out}/checkpoints/step-00000013"


def test_ended_before_anything_was_saved_it_goes_on_from_there_again(out: Path, expected: dict[int, float]) -> None:
    resume(out, max_iters=11, save_interval=-1)
    assert not checkpoint_directories(out)
    _, told = resume(out, save_interval=0)
    assert told.losses == pytest.approx(expected, abs=2e-6)


def test_of_both_the_further_one_is_taken(begun: tuple[Path, dict[int, float]], tmp_path: Path) -> None:
    checkpoint, expected = begun
    out = tmp_path / "out"
    run(checkpoint.parent / "corpus", out, max_iters=6)
    placed(checkpoint, out)
    _, told = resume(out)
    assert told.losses == pytest.approx(expected, abs=2e-6)
    assert told.all("note")[0] == (
        f"resuming from {out}/ckpt.pt at step 10; {out}/checkpoints/step-00000007 is at step 7; "
        "to resume from that one, move ckpt.pt away"
    )


def test_a_damaged_one_is_named_and_ours_goes_on(begun: tuple[Path, dict[int, float]], tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(begun[0].parent / "corpus", out, max_iters=3)
    (out / "ckpt.pt").write_bytes(b"half a file")
    _, told = resume(out, max_iters=5)
    assert list(told.losses) == [4, 5]
    assert told.all("note") == [
        f"{out}/ckpt.pt: is not a file of torch.save, or is damaged; "
        f"resuming from {out}/checkpoints/step-00000004 instead"
    ]


# --- the best --------------------------------------------------------------------------------------------------------


def test_a_worse_evaluation_is_not_the_best(begun: tuple[Path, dict[int, float]], tmp_path: Path) -> None:
    out = placed(begun[0], tmp_path / "out", best_val_loss=torch.tensor(0.5))
    _, told = resume(out, always_save_checkpoint=False)
    assert len(told.all("eval")) == 2
    assert not (out / "best.json").exists()
    saved, _ = newest_intact(out)
    assert (saved.step, saved.best) == (LAST + 1, (FIRST, 0.5))
    assert [each.name for each in checkpoint_directories(out)] == ["step-00000015"]  # of the end


def test_without_a_best_loss_the_first_evaluation_is_the_best(
    begun: tuple[Path, dict[int, float]], tmp_path: Path
) -> None:
    out = placed(begun[0], tmp_path / "out", best_val_loss=1e9)
    _, told = resume(out, always_save_checkpoint=False, max_iters=10)
    assert "no best_val_loss yet" in told.all("note")[0]
    first = told.all("eval")[0]
    assert first.iteration == FIRST
    assert read_best(out) == (FIRST, first.val)
    assert (out / "checkpoints" / "step-00000010").is_dir()


def test_an_evaluation_alone_saves_nothing(out: Path) -> None:
    outcome, told = resume(out, eval_only=True)
    assert len(told.all("eval")) == 1
    assert not checkpoint_directories(out)
    assert outcome.checkpoint == str(out / "ckpt.pt")


# --- what cannot go on -----------------------------------------------------------------------------------------------


def without_averages(content: dict[str, Any]) -> None:
    del content["optimizer"]


def other_averages(content: dict[str, Any]) -> None:
    for entry in content["optimizer"]["state"].values():
        entry["max_exp_avg_sq"] = entry["exp_avg_sq"]


def plain_adam(content: dict[str, Any]) -> None:
    for group in content["optimizer"]["param_groups"]:
        group["decoupled_weight_decay"] = False


def another_epsilon(content: dict[str, Any]) -> None:
    content["optimizer"]["param_groups"][0]["eps"] = 1e-5


def one_group(content: dict[str, Any]) -> None:
    first, second = content["optimizer"]["param_groups"]
    first["params"] += second["params"]
    content["optimizer"]["param_groups"] = [first]


@pytest.mark.parametrize("change", [without_averages, other_averages, plain_adam, another_epsilon, one_group])
def test_another_optimizer_cannot_go_on(
    begun: tuple[Path, dict[int, float]], tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    content = torch.load(begun[0], weights_only=True)
    change(content)
    torch.save(content, tmp_path / "ckpt.pt")
    with pytest.raises(InputError) as raised:
        resume(tmp_path)
    assert str(raised.value) == (
        f"{tmp_path}/ckpt.pt: its optimizer is not nanoGPT's AdamW over these weights, so its run cannot be resumed; "
        f"--init_from={tmp_path}/ckpt.pt starts a new run from its weights"
    )
    assert [each.name for each in tmp_path.iterdir()] == ["ckpt.pt"]


def test_without_its_iteration_it_cannot_go_on(begun: tuple[Path, dict[int, float]], tmp_path: Path) -> None:
    placed(begun[0], tmp_path, iter_num="many")
    with pytest.raises(InputError, match=r"ckpt\.pt: has no iter_num, so its run cannot be resumed; --init_from="):
        resume(tmp_path)


def test_a_shorter_context_is_refused(out: Path) -> None:
    """nanoGPT cuts the table and then fails in AdamW, whose averages still have the old length."""
    with pytest.raises(ConfigError, match="block_size cannot change when a run is resumed: it is 16, not 8"):
        resume(out, block_size=8)


def test_a_config_file_does_not_change_the_shape(out: Path, expected: dict[int, float]) -> None:
    """As in nanoGPT: the run started with flags over that file, and resumes without them, now and the next time."""
    knobs: dict[str, Value] = {
        "init_from": "resume",
        "out_dir": str(out),
        "n_layer": 6,
        "block_size": 64,
        "bias": False,
    }
    told = Recorder()
    train(Asked(given={**knobs, "max_iters": 11}, files=("config.py",)), listener=told)
    assert told.all("note")[0] == (
        f"{out}/ckpt.pt: keeps its shape, whatever the config file says: n_layer=2, not 6, block_size=16, not 64"
    )
    again = Recorder()
    train(Asked(given={**knobs, "max_iters": LAST}, files=("config.py",)), listener=again)
    assert "step-00000012: keeps its shape" in again.all("note")[1]
    assert told.losses | again.losses == pytest.approx(expected, abs=2e-6)
    flags = Asked(given=knobs, files=("config.py",), flags=frozenset({"n_layer"}))
    with pytest.raises(ConfigError, match="n_layer cannot change when a run is resumed: it is 2, not 6"):
        train(flags, listener=Recorder())


def test_it_is_finished(out: Path) -> None:
    with pytest.raises(NanopaceError, match=r"ckpt\.pt: the run already finished after 10 steps; raise --max_iters"):
        resume(out, max_iters=9)


# --- the way back, several ranks, and by way of convert --------------------------------------------------------------


def test_what_is_not_finite_goes_back_to_it(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Faulty(monkeypatch, nan_loss, (11, 12, 13))
    _, told = resume(out, save_interval=100)
    (back,) = events(out, "rollback")
    assert (back["iteration"], back["checkpoint"]) == (FIRST, str(out / "ckpt.pt"))
    assert list(told.losses)[-1] == LAST


def test_two_ranks_go_on_like_one(out: Path, expected: dict[int, float]) -> None:
    """Sharded, which is harder: each rank takes its own part of every average."""
    flags = [f"--out_dir={out}", "--init_from=resume", "--device=cpu", "--parallel=fsdp"]
    ended = run_processes(torchrun(2, "train", "--no-report", *flags), measured=False)
    assert ended.returncode == 0, ended.stderr
    assert losses_of(out) == pytest.approx(expected, abs=2e-6)


def test_a_converted_one_goes_on_where_a_run_has_its_checkpoints(
    begun: tuple[Path, dict[int, float]], tmp_path: Path
) -> None:
    checkpoint, expected = begun
    convert(checkpoint, tmp_path / "out" / "checkpoints" / "step-00000010", to="nanopace")
    _, told = resume(tmp_path / "out", eval_only=False)
    assert told.losses == pytest.approx(expected, abs=2e-6)
    assert told.all("note") == [
        f"{tmp_path}/out/checkpoints/step-00000010: does not say which windows were read; the data continues in "
        "nanopace's order with window 80, and dropout draws new random numbers"
    ]


def test_there_and_back_nothing_of_a_run_is_lost(begun: tuple[Path, dict[int, float]], tmp_path: Path) -> None:
    convert(begun[0], tmp_path / "ours", to="nanopace")
    convert(tmp_path / "ours", tmp_path / "ckpt.pt")
    before, after = (torch.load(each, weights_only=True) for each in (begun[0], tmp_path / "ckpt.pt"))
    assert (after["iter_num"], after["best_val_loss"]) == (FIRST, 2.5)
    assert after["config"] == {**before["config"], "dtype": "float32", **TRUE_KNOBS}
    assert after["optimizer"]["state"].keys() == before["optimizer"]["state"].keys()
    for number, entry in before["optimizer"]["state"].items():
        for what, value in entry.items():
            assert torch.equal(value, after["optimizer"]["state"][number][what])
    for name, weight in before["model"].items():
        assert torch.equal(weight, after["model"][name])


def test_what_nanogpt_is_given_says_its_iteration_and_best_loss(corpus: Path, tmp_path: Path) -> None:
    """A step's evaluation comes after its checkpoint was written, but counts if it is the best."""
    _, told = run(corpus, tmp_path / "out", max_iters=12, keep_last=9)
    found = {each.iteration: each.val for each in told.all("eval")}
    assert min(found, key=found.__getitem__) == 13
    for source, step, best in ((tmp_path / "out", 13, 13), (tmp_path / "out" / "checkpoints" / "step-00000005", 5, 0)):
        convert(source, tmp_path / "ckpt.pt", force=True)
        written = torch.load(tmp_path / "ckpt.pt", weights_only=True)
        assert (written["iter_num"], written["best_val_loss"]) == (step, found[best])
