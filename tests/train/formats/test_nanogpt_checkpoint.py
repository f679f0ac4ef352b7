from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings

from nanopace.config import TrainConfig
from nanopace.corpus.tokenizers.tokenizer import bytes_tokenizer
from nanopace.errors import InputError
from nanopace.train.formats.nanogpt_checkpoint import load_nanogpt, save_nanogpt
from nanopace.train.formats.pretrained import Pretrained
from nanopace.train.models.gpt2 import GPT
from nanopace.train.optim.optimizer import make_optimizer, optimizer_tensors

from ..tiny import SHAPE, any_weights, same_weights, tiny_model, tiny_tokens, tiny_weights

MODEL_ARGS = {
    "n_layer": 2,
    "n_head": 2,
    "n_embd": 16,
    "vocab_size": 300,
    "block_size": 12,
    "bias": True,
    "dropout": 0.1,
}


def after_one_step() -> tuple[GPT, torch.optim.AdamW]:
    model = tiny_model()
    optimizer = make_optimizer(model, TrainConfig(), torch.device("cpu"))
    model(tiny_tokens(), tiny_tokens()).backward()
    optimizer.step()
    return model, optimizer


def checkpoint(**changes: object) -> dict[str, Any]:
    """What nanoGPT saves."""
    model, optimizer = after_one_step()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "model_args": MODEL_ARGS,
        "iter_num": 7,
        "best_val_loss": torch.tensor(3.25),
        "config": {"dataset": "shakespeare_char", "learning_rate": 1e-3, "compile": False},
        **changes,
    }


def saved(path: Path, content: object) -> Path:
    torch.save(content, path)
    return path


def test_everything_is_read(tmp_path: Path) -> None:
    content = checkpoint()
    read = load_nanogpt(saved(tmp_path / "ckpt.pt", content))
    assert read.shape == replace(SHAPE, dropout=0.1)
    assert read.step == 7
    assert read.config == {"dataset": "shakespeare_char", "learning_rate": 1e-3, "compile": False}
    assert read.tokenizer is None  # 300 tokens could be anything
    assert all(torch.equal(each, read.weights[name]) for name, each in content["model"].items())


def test_the_averages_get_the_names_of_their_weights(tmp_path: Path) -> None:
    model, optimizer = after_one_step()
    read = load_nanogpt(saved(tmp_path / "ckpt.pt", checkpoint(optimizer=optimizer.state_dict()))).optimizer
    expected = optimizer_tensors(model, optimizer)
    assert read.keys() == expected.keys()
    assert all(torch.equal(each, expected[name]) for name, each in read.items())


def test_what_torch_compile_puts_in_front_is_removed(tmp_path: Path) -> None:
    weights = {f"_orig_mod.{name}": each for name, each in checkpoint()["model"].items()}
    weights["_orig_mod.transformer.h.0.attn.bias"] = torch.ones(1, 1, 12, 12)  # the mask that older releases kept
    read = load_nanogpt(saved(tmp_path / "ckpt.pt", checkpoint(model=weights)))
    assert read.weights.keys() == tiny_weights().weights.keys()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([1, 2], "is not a nanoGPT checkpoint: it has no model and model_args"),
        ({"model": {}}, "is not a nanoGPT checkpoint: it has no model and model_args"),
        ({"model": [1], "model_args": MODEL_ARGS}, "is not a nanoGPT checkpoint: its model is not a table of weights"),
        (
            {"model": {1: 2}, "model_args": MODEL_ARGS},
            "is not a nanoGPT checkpoint: its model is not a table of weights",
        ),
        ({"model": {"fc.weight": torch.zeros(2)}, "model_args": MODEL_ARGS}, "is not a GPT-2: it has no weight named"),
    ],
)
def test_something_else_is_told_apart(content: object, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        load_nanogpt(saved(tmp_path / "ckpt.pt", content))
    assert str(raised.value).startswith(f"{tmp_path}/ckpt.pt: ")
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("model_args", "said"),
    [
        ({**MODEL_ARGS, "n_layer": 10**9}, "says n_layer = 1000000000, but its weights have 2"),
        ({**MODEL_ARGS, "bias": False}, "says bias = False, but its weights have True"),
        ({**MODEL_ARGS, "vocab_size": 50304}, "says vocab_size = 50304, but its weights have 300"),
        ("n_layer=2", "n_head must divide n_embd: there are None heads, but the weights are 16 wide"),
    ],
)
def test_arguments_that_are_not_the_weights(model_args: object, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{tmp_path}/ckpt.pt: {said}"):
        load_nanogpt(saved(tmp_path / "ckpt.pt", checkpoint(model_args=model_args)))


@pytest.mark.parametrize(
    "optimizer",
    [None, "Adam", {"state": {}}, {"state": [1]}, {"state": {0: {"momentum_buffer": torch.zeros(300, 16)}}}, {}],
)
def test_another_optimizer_is_none(optimizer: object, tmp_path: Path) -> None:
    assert load_nanogpt(saved(tmp_path / "ckpt.pt", checkpoint(optimizer=optimizer))).optimizer is None


def test_averages_of_other_weights_are_none(tmp_path: Path) -> None:
    content = checkpoint()
    content["optimizer"]["state"][3]["exp_avg"] = torch.zeros(5)
    assert load_nanogpt(saved(tmp_path / "ckpt.pt", content)).optimizer is None


def test_averages_without_values_are_none(tmp_path: Path) -> None:
    content = checkpoint()
    content["optimizer"]["state"][3]["exp_avg"] = content["optimizer"]["state"][3]["exp_avg"].to("meta")
    assert load_nanogpt(saved(tmp_path / "ckpt.pt", content)).optimizer is None


@pytest.mark.parametrize(
    ("loss", "best"),
    [
        (torch.tensor(3.25), (7, 3.25)),
        (2.5, (7, 2.5)),
        (1e9, None),  # nanoGPT has not evaluated yet
        (torch.tensor(1e9), None),
        (float("nan"), None),
        (float("-inf"), None),
        (torch.tensor([1.0, 2.0]), None),
        (torch.empty((), device="meta"), None),
        ("low", None),
        (None, None),
    ],
)
def test_the_best_loss_is_of_this_iteration(loss: object, best: tuple[int, float] | None, tmp_path: Path) -> None:
    assert load_nanogpt(saved(tmp_path / "ckpt.pt", checkpoint(best_val_loss=loss))).best == best


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_without_cuda_nanogpt_calculates_in_float32(device: str, tmp_path: Path) -> None:
    content = checkpoint(config={"device": device, "dtype": "float16"})
    assert load_nanogpt(saved(tmp_path / "ckpt.pt", content)).config["dtype"] == "float32"


def test_with_cuda_it_calculates_as_it_says(tmp_path: Path) -> None:
    content = checkpoint(config={"device": "cuda:1", "dtype": "bfloat16"})
    assert load_nanogpt(saved(tmp_path / "ckpt.pt", content)).config["dtype"] == "bfloat16"


@pytest.mark.parametrize(
    ("changes", "step", "dropout"),
    [
        ({"iter_num": "many", "config": None}, 0, 0.1),
        ({"iter_num": -5, "config": {"a": [1], 7: 8}, "model_args": {**MODEL_ARGS, "dropout": 2}}, 0, 0.0),
        ({"config": {"activation": ["x"]}, "model_args": {"n_head": 2}}, 7, 0.0),
    ],
)
def test_odd_notes_are_left_out(changes: dict[str, object], step: int, dropout: float, tmp_path: Path) -> None:
    read = load_nanogpt(saved(tmp_path / "ckpt.pt", checkpoint(**changes)))
    assert (read.step, read.shape, read.config) == (step, replace(SHAPE, dropout=dropout), {})


# --- the tokenizer ---------------------------------------------------------------------------------------------------


def test_a_tokenizer_beside_the_checkpoint_is_its_own(tmp_path: Path) -> None:
    bytes_tokenizer().save(tmp_path)
    tokenizer = load_nanogpt(saved(tmp_path / "ckpt.pt", checkpoint())).tokenizer
    assert tokenizer.kind == "bytes"


def test_the_dataset_is_looked_for_where_nanogpt_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data" / "shakespeare_char"
    data.mkdir(parents=True)
    letters = "\n abc"
    meta = {"vocab_size": 5, "stoi": {c: i for i, c in enumerate(letters)}, "itos": dict(enumerate(letters))}
    (data / "meta.pkl").write_bytes(pickle.dumps(meta))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "tokenizer.json").write_text(json.dumps({"model": {}}))  # somebody else's
    monkeypatch.chdir(tmp_path)
    tokenizer = load_nanogpt(saved(tmp_path / "out" / "ckpt.pt", checkpoint())).tokenizer
    assert tokenizer.decode(tokenizer.encode("cab")) == "cab"


def test_a_tokenizer_that_is_too_large_is_not_the_model_s(tmp_path: Path) -> None:
    model = GPT(replace(SHAPE, vocab_size=256))
    bytes_tokenizer().save(tmp_path)  # 257
    arguments = {**MODEL_ARGS, "vocab_size": 256}
    assert (
        load_nanogpt(saved(tmp_path / "a.pt", {"model": model.state_dict(), "model_args": arguments})).tokenizer is None
    )


@pytest.mark.parametrize("vocab_size", [50257, 50304])
def test_gpt2_s_vocabulary_is_known_by_its_size(vocab_size: int, tmp_path: Path) -> None:
    shape = replace(SHAPE, vocab_size=vocab_size, n_layer=1)
    save_nanogpt(tmp_path / "a.pt", tiny_weights(shape))
    tokenizer = load_nanogpt(tmp_path / "a.pt").tokenizer
    assert tokenizer.kind == "gpt2"


# --- writing ---------------------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(before=any_weights())
def test_there_and_back_every_bit_is_the_same(before: Pretrained, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("there") / "ckpt.pt"
    save_nanogpt(path, before)
    after = load_nanogpt(path)
    assert same_weights(before, after)
    assert (after.shape, after.step, after.config, after.optimizer) == (before.shape, before.step, {}, None)


def test_what_is_written_is_what_nanogpt_reads(tmp_path: Path) -> None:
    """Its keys, a model_args with nothing unknown to GPTConfig, and an optimizer that torch can load."""
    source = load_nanogpt(saved(tmp_path / "a.pt", checkpoint()))
    save_nanogpt(tmp_path / "b.pt", source)
    written = torch.load(tmp_path / "b.pt", weights_only=True)
    assert sorted(written) == ["best_val_loss", "config", "iter_num", "model", "model_args", "optimizer"]
    assert written["model_args"] == MODEL_ARGS
    model = GPT(SHAPE)
    model.load_state_dict(written["model"])
    optimizer = make_optimizer(model, TrainConfig(), torch.device("cpu"))
    optimizer.load_state_dict(written["optimizer"])
    state = optimizer_tensors(model, optimizer)
    assert all(torch.equal(each, state[name]) for name, each in source.optimizer.items())
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0.0]
    assert optimizer.param_groups[0]["lr"] == 1e-3


def test_knobs_that_cannot_be_are_replaced_by_nanogpt_s(tmp_path: Path) -> None:
    save_nanogpt(tmp_path / "a.pt", replace(tiny_weights(), config={"beta1": 7, "learning_rate": "fast"}))
    group = torch.load(tmp_path / "a.pt", weights_only=True)["optimizer"]["param_groups"][0]
    assert (group["betas"], group["lr"]) == ((0.9, 0.95), 6e-4)


def test_the_tied_table_is_written_once(tmp_path: Path) -> None:
    save_nanogpt(tmp_path / "a.pt", tiny_weights(replace(SHAPE, vocab_size=20_000)))
    assert (tmp_path / "a.pt").stat().st_size < 1.2 * 20_000 * 16 * 4
