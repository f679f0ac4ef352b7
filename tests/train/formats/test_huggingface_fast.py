"""A model of recipe `fast` in Hugging Face's form: read by the real transformers with the modeling file, and by us."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from nanopace.cli.main import main
from nanopace.corpus.tokenizers.tokenizer import gpt2, train_bpe
from nanopace.errors import InputError
from nanopace.knob_values import INGREDIENTS
from nanopace.train.formats.convert import convert, open_pretrained
from nanopace.train.formats.huggingface import load_huggingface, save_huggingface
from nanopace.train.models.generate import generate
from nanopace.train.models.gpt2 import ModelShape

from ..tiny import FAST_INGREDIENTS, same_weights, tiny_model, tiny_weights

SHAPE = ModelShape(n_layer=5, n_head=2, n_embd=16, vocab_size=60, block_size=24, recipe="fast")
NONE = ",".join(INGREDIENTS["fast"])


def some_tokens(length: int, batch: int = 3) -> Tensor:
    return torch.randint(0, SHAPE.vocab_size, (batch, length), generator=torch.Generator().manual_seed(1))


def set_config(directory: Path, **changes: object) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    save_huggingface(tmp_path / "hf", tiny_weights(SHAPE))
    return tmp_path / "hf"


# --- in transformers -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def transformers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """transformers, which copies a model's code before it runs it: here, into a directory of this test."""
    modules = str(tmp_path_factory.mktemp("modules"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        library = pytest.importorskip("transformers")
        patch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", modules)
        library.logging.disable_progress_bar()
        yield library
    if modules in sys.path:
        sys.path.remove(modules)


Opened = Callable[..., Any]


@pytest.fixture
def opened(transformers: Any, tmp_path: Path) -> Opened:
    """Exports a model of a shape, and gives it as transformers loads it."""

    def load(shape: ModelShape = SHAPE, **how: Any) -> Any:
        directory = tmp_path / f"model_{len(list(tmp_path.iterdir()))}"
        save_huggingface(directory, tiny_weights(shape))
        model, loading = transformers.AutoModelForCausalLM.from_pretrained(
            directory, trust_remote_code=True, output_loading_info=True, **how
        )
        assert not any(loading.values())  # no key is missing, unexpected or of another shape
        assert model.lm_head.weight is model.transformer["wte"].weight
        return model

    return load


def assert_same(theirs: Tensor, ours: Tensor) -> None:
    torch.testing.assert_close(theirs, ours, atol=1e-4, rtol=0)


@pytest.mark.slow
@torch.no_grad()
def test_transformers_gives_the_same_logits(opened: Opened) -> None:
    """With all ingredients, without each, without any, and in models too shallow for all of them."""
    tokens, answers = some_tokens(24), []
    leaving_out = ("", *FAST_INGREDIENTS, NONE, "rope,key_shift", "qk_norm,xsa")
    shapes = [replace(SHAPE, without=without) for without in leaving_out]
    for shape in [*shapes, *(replace(SHAPE, n_layer=layers) for layers in (1, 2, 3, 12))]:
        model, expected = opened(shape), tiny_model(shape).logits(tokens)
        assert_same(model(tokens).logits, expected)
        assert_same(model(tokens, logits_to_keep=2).logits, expected[:, -2:])
        answers.append(expected)
    assert all((answers[0] - each).abs().max() > 0.01 for each in answers[1:])  # each ingredient matters


def left_padded(rows: list[list[int]]) -> dict[str, Tensor]:
    longest = max(map(len, rows))
    return {
        "input_ids": torch.tensor([[9] * (longest - len(row)) + row for row in rows]),
        "attention_mask": torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows]),
    }


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("without", ["", "rope", "key_shift"])
def test_it_generates_what_we_do(opened: Opened, without: str) -> None:
    """With a cache and without, alone and in a batch with padding on the left."""
    shape = replace(SHAPE, without=without)
    model, own = opened(shape), tiny_model(shape)
    prompts = [row[:length] for row, length in zip(some_tokens(7).tolist(), (7, 4, 1), strict=True)]
    batch = left_padded(prompts)
    padding = own.logits(torch.tensor([[9]]))[0]  # it sees itself alone, since attention to nothing may be NaN
    for prompt, mask, logits in zip(prompts, batch["attention_mask"], model(**batch).logits, strict=True):
        assert_same(logits[mask == 1], own.logits(torch.tensor([prompt]))[0])
        assert_same(logits[mask == 0], padding.expand(7 - len(prompt), -1))
    expected = [list(generate(own, prompt, 15, temperature=0)) for prompt in prompts]
    for cache in (True, False):
        how: dict[str, Any] = {"max_new_tokens": 15, "do_sample": False, "use_cache": cache, "pad_token_id": 9}
        assert model.generate(**batch, **how)[:, 7:].tolist() == expected
        alone = model.generate(torch.tensor(prompts[1:2]), **how)
        assert alone[0, 4:].tolist() == expected[1]


@pytest.mark.slow
@torch.no_grad()
def test_a_cache_may_be_filled_in_pieces_reordered_and_cut(opened: Opened) -> None:
    model, tokens = opened(), some_tokens(20)
    expected = tiny_model(SHAPE).logits(tokens)
    filled = model(tokens[:, :6]).past_key_values
    assert_same(model(tokens[:, 6:13], past_key_values=filled).logits, expected[:, 6:13])
    assert_same(model(tokens[:, 13:14], past_key_values=filled).logits, expected[:, 13:14])
    filled.crop(-5)
    assert_same(model(tokens[:, 9:], past_key_values=filled).logits, expected[:, 9:])
    for how in ({"num_beams": 3, "do_sample": False}, {"num_beams": 2, "do_sample": True}):
        answers = []
        for cache in (True, False):
            torch.manual_seed(3)
            answers.append(model.generate(tokens[:, :5], max_new_tokens=12, use_cache=cache, **how).tolist())
        assert answers[0] == answers[1]
    guessed = model.generate(tokens[:1, :5], max_new_tokens=12, do_sample=False, prompt_lookup_num_tokens=3)
    assert guessed.tolist() == model.generate(tokens[:1, :5], max_new_tokens=12, do_sample=False).tolist()


@pytest.mark.slow
def test_it_can_be_trained_there(opened: Opened, tmp_path: Path) -> None:
    tokens = some_tokens(24)
    labels = tokens.clone()
    labels[0, 5:9] = -100  # transformers' sign for a target that does not count
    model = opened().train()
    result = model(tokens, labels=labels)
    assert result.past_key_values is None
    expected = tiny_model(SHAPE)(tokens[:, :-1], torch.where(labels == -100, -1, labels)[:, 1:])
    torch.testing.assert_close(result.loss, expected)
    result.loss.backward()
    assert all(bool(each.grad.abs().sum() > 0) for each in model.parameters())
    with torch.no_grad():
        for weight in model.parameters():
            weight.sub_(weight.grad)
    model.save_pretrained(tmp_path / "trained", max_shard_size="10KB")
    assert (tmp_path / "trained" / "model.safetensors.index.json").exists()
    read = load_huggingface(tmp_path / "trained")
    assert (read.shape, read.step) == (SHAPE, 7)
    assert_same(model.eval()(tokens).logits, read.model().logits(tokens))


@pytest.mark.slow
def test_dropout_is_for_training_alone(opened: Opened) -> None:
    shape, tokens = replace(SHAPE, dropout=0.5), some_tokens(24)
    model, own = opened(shape), tiny_model(shape)
    with torch.no_grad():
        assert_same(model(tokens).logits, own.logits(tokens))
        torch.manual_seed(5)
        theirs = model.train()(tokens).logits
        torch.manual_seed(5)
        assert_same(theirs, own.train().logits(tokens))


@pytest.mark.slow
@torch.no_grad()
def test_bfloat16(opened: Opened) -> None:
    model, tokens = opened(dtype=torch.bfloat16), some_tokens(24)
    assert {each.dtype for each in model.parameters()} == {torch.bfloat16}
    torch.testing.assert_close(model(tokens).logits, tiny_model(SHAPE).bfloat16().logits(tokens), atol=0.1, rtol=0)
    assert model.generate(tokens[:, :4], max_new_tokens=8).shape == (3, 12)


@pytest.mark.slow
@torch.no_grad()
def test_other_outputs(opened: Opened) -> None:
    model, tokens = opened(), some_tokens(24)
    logits, *_ = model(tokens, return_dict=False)
    states = model(tokens, output_hidden_states=True).hidden_states
    assert len(states) == SHAPE.n_layer + 1
    assert_same(15 * torch.tanh(model.lm_head(states[-1]) / 15), logits)


@pytest.mark.slow
def test_what_the_model_cannot_do_there(opened: Opened) -> None:
    model, tokens = opened(), some_tokens(24)
    with pytest.raises(ValueError, match="reads at most 24 tokens, not 25"):
        model.generate(tokens, max_new_tokens=2)
    with pytest.raises(ValueError, match="needs a cache that grows"):
        model.generate(tokens[:, :4], max_new_tokens=2, cache_implementation="static")
    past = model(tokens[:, :4]).past_key_values
    with pytest.raises(ValueError, match=r"attention_mask must have the shape \(3, 5\)"):
        model(tokens[:, 4:5], past_key_values=past, attention_mask=torch.ones(3, 1))
    with pytest.raises(ValueError, match="cannot be resized"):
        model.resize_token_embeddings(70)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt2", "bpe"])
def test_the_tokenizer_goes_along(transformers: Any, kind: str, tmp_path: Path) -> None:
    tokenizer = gpt2() if kind == "gpt2" else train_bpe(["def f(x):\n    return x\n"] * 9, 280)
    shape = replace(SHAPE, vocab_size=50304 if kind == "gpt2" else 280)
    save_huggingface(tmp_path / "hf", replace(tiny_weights(shape), tokenizer=tokenizer))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf", trust_remote_code=True)
    assert theirs("    return f(x)")["input_ids"] == tokenizer.encode("    return f(x)")
    read = load_huggingface(tmp_path / "hf").tokenizer
    assert read.hash == tokenizer.hash
    for name in ("config.json", "generation_config.json"):
        assert json.loads((tmp_path / "hf" / name).read_text())["eos_token_id"] == tokenizer.end_of_text


# --- there and back --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("without", ["", "rope", "muon,xsa", NONE])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_there_and_back_every_bit_is_the_same(without: str, dtype: torch.dtype, tmp_path: Path) -> None:
    before = tiny_weights(replace(SHAPE, without=without, dropout=0.125))
    before = replace(before, weights={name: each.to(dtype) for name, each in before.weights.items()})
    save_huggingface(tmp_path / "hf", before)
    convert(tmp_path / "hf", tmp_path / "ours", to="nanopace")
    convert(tmp_path / "ours", tmp_path / "again")
    for directory in ("hf", "ours", "again"):
        after = open_pretrained(tmp_path / directory)
        assert same_weights(before, after)
        assert (after.shape, after.step) == (before.shape, before.step)
    assert {each.name: each.read_bytes() for each in (tmp_path / "hf").iterdir()} == {
        each.name: each.read_bytes() for each in (tmp_path / "again").iterdir()
    }


@pytest.mark.slow
def test_sampling_from_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = replace(tiny_weights(replace(SHAPE, vocab_size=50304)), tokenizer=gpt2())
    save_huggingface(tmp_path / "hf", before)
    convert(tmp_path / "hf", tmp_path / "ours", to="nanopace")
    samples = []
    for directory in ("hf", "ours"):
        flags = ["--prompt", "Once", "--num", "1", "--max_new_tokens=30", "--device=cpu"]
        assert main(["sample", str(tmp_path / directory), *flags]) == 0
        samples.append(capsys.readouterr().out)
    assert samples[0] == samples[1]
    assert samples[0].startswith("Once")


def test_the_command_says_how_to_load_it(exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flags in ([], ["--force"]):  # over itself, too
        assert main(["convert", str(exported), str(tmp_path / "other"), *flags]) == 0
        assert "transformers loads this model with trust_remote_code=True" in capsys.readouterr().err
    assert main(["convert", str(exported), str(tmp_path / "ours"), "--to", "nanopace"]) == 0
    assert "trust_remote_code" not in capsys.readouterr().err


def test_a_ckpt_cannot_hold_it(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"hf: is a recipe=fast model, and a ckpt\.pt can only hold a GPT-2"):
        convert(exported, tmp_path / "ckpt.pt")
    assert not (tmp_path / "ckpt.pt").exists()


def test_an_ingredient_that_came_later_is_left_out(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(INGREDIENTS, "fast", (*INGREDIENTS["fast"], "later"))  # type: ignore[arg-type]
    assert load_huggingface(exported).shape == replace(SHAPE, without="later")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"ingredients": [*INGREDIENTS["fast"], "later"]},
            "the model has 'later', which this version of nanopace does not know; use the one that wrote it",
        ),
        ({"ingredients": [["rope"]]}, "the model has ['rope'], which this version of nanopace does not know"),
        ({"ingredients": None}, "ingredients cannot be None"),
        ({"n_head": "two"}, "n_head cannot be 'two'"),
        ({"n_head": True}, "n_head cannot be True"),
        ({"n_positions": 0}, "n_positions cannot be 0"),
        ({"n_positions": 1 << 40}, "n_positions cannot be 1099511627776"),
        ({"n_layer": 12}, "says n_layer = 12, but its weights have 5"),
        ({"vocab_size": 61}, "says vocab_size = 61, but its weights have 60"),
    ],
)
def test_a_config_that_cannot_be_right(changes: dict[str, Any], said: str, exported: Path) -> None:
    set_config(exported, **changes)
    with pytest.raises(InputError) as raised:
        load_huggingface(exported)
    assert str(raised.value).startswith(f"{exported}/config.json: ")
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "weight"),
    [
        ({"ingredients": list(INGREDIENTS["fast"][:-1])}, "transformer.h.0.attn.own_share"),
        ({"ingredients": [name for name in INGREDIENTS["fast"] if name != "rope"]}, "transformer.wpe.weight"),
        ({"n_head": 3}, "transformer.wte.weight"),
        ({"n_head": 4}, "transformer.h.0.attn.own_share"),
    ],
)
def test_a_config_of_other_weights(changes: dict[str, Any], weight: str, exported: Path) -> None:
    set_config(exported, **changes)
    with pytest.raises(InputError, match=rf"hf: {weight} does not belong to a model of recipe=fast"):
        load_huggingface(exported)


def test_a_head_of_its_own_is_refused(exported: Path) -> None:
    path = exported / "model.safetensors"
    weights = load_file(path)
    save_file({**weights, "lm_head.weight": weights["transformer.wte.weight"].clone()}, path)
    assert same_weights(load_huggingface(exported), tiny_weights(SHAPE))
    save_file({**weights, "lm_head.weight": weights["transformer.wte.weight"] + 1}, path)
    with pytest.raises(InputError, match=r"transformer\.wte\.weight and lm_head\.weight differ"):
        load_huggingface(exported)
    del weights["transformer.wte.weight"]
    save_file(weights, path)
    with pytest.raises(InputError, match=r"transformer\.wte\.weight does not belong to a model of recipe=fast"):
        load_huggingface(exported)


def test_odd_notes_are_left_out(exported: Path) -> None:
    set_config(exported, nanopace_step="many", dropout="much")
    read = load_huggingface(exported)
    assert (read.step, read.shape) == (0, SHAPE)
