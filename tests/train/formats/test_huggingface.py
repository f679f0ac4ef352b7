from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from safetensors.torch import load_file, save_file

from nanopace.corpus.tokenizers.tokenizer import bytes_tokenizer, gpt2
from nanopace.errors import InputError
from nanopace.train.formats.huggingface import load_huggingface, save_huggingface
from nanopace.train.formats.pretrained import Pretrained

from ..tiny import SHAPE, any_weights, same_weights, tiny_model, tiny_tokens, tiny_weights


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    save_huggingface(tmp_path / "hf", tiny_weights())
    return tmp_path / "hf"


def set_config(directory: Path, **changes: object) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


# --- beside transformers itself --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_transformers_gives_the_same_logits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From our export and from its own, with either GELU, with and without biases: within 1e-4 in float32."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    transformers = pytest.importorskip("transformers")
    transformers.logging.disable_progress_bar()
    tokens = tiny_tokens()
    answers = []
    for bias, activation in [(True, "gelu"), (True, "gelu_tanh"), (False, "gelu")]:
        shape = replace(SHAPE, bias=bias, activation=activation)
        ours, theirs = tmp_path / f"{activation} {bias}", tmp_path / f"{activation} {bias} of theirs"
        save_huggingface(ours, tiny_weights(shape))
        model, loading = transformers.GPT2LMHeadModel.from_pretrained(ours, output_loading_info=True)
        assert not any(loading.values())  # no key is missing, unexpected or of another shape
        with torch.no_grad():
            expected = model.eval()(tokens).logits
            torch.testing.assert_close(tiny_model(shape).logits(tokens), expected, atol=1e-4, rtol=0)
            model.save_pretrained(theirs, max_shard_size="20KB")
            assert (theirs / "model.safetensors.index.json").exists()
            read = load_huggingface(theirs)
            assert read.shape == shape
            torch.testing.assert_close(read.model().logits(tokens), expected, atol=1e-4, rtol=0)
        answers.append(expected)
    assert (answers[0] - answers[1]).abs().max() > 1e-5  # GELU is told apart


# --- there and back --------------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(before=any_weights())
def test_there_and_back_every_bit_is_the_same(before: Pretrained, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("there") / "hf"
    save_huggingface(directory, before)
    after = load_huggingface(directory)
    assert same_weights(before, after)
    assert (after.shape, after.step) == (before.shape, before.step)


def test_biases_that_were_trained_elsewhere_stay(tmp_path: Path) -> None:
    save_huggingface(tmp_path / "hf", tiny_weights(replace(SHAPE, bias=False)))
    path = tmp_path / "hf" / "model.safetensors"
    weights = load_file(path)
    weights["transformer.h.1.mlp.c_fc.bias"][3] = 0.5
    save_file({name: each.clone() for name, each in weights.items()}, path)
    assert load_huggingface(tmp_path / "hf").shape.bias


def test_the_matrices_are_transposed_and_the_head_is_not_written_twice(exported: Path) -> None:
    theirs, own = load_file(exported / "model.safetensors"), tiny_weights().weights
    name = "transformer.h.0.mlp.c_fc.weight"
    assert torch.equal(theirs[name], own[name].t())
    assert own.keys() - theirs.keys() == {"lm_head.weight"}


def test_the_tokenizer_goes_along(tmp_path: Path) -> None:
    shape = replace(SHAPE, vocab_size=50304)
    save_huggingface(tmp_path / "hf", replace(tiny_weights(shape), tokenizer=gpt2()))
    read = load_huggingface(tmp_path / "hf")
    assert read.tokenizer.kind == "gpt2"
    assert read.shape.vocab_size == 50304  # padding is kept
    for name in ("config.json", "generation_config.json"):
        assert json.loads((tmp_path / "hf" / name).read_text())["eos_token_id"] == 50256


def test_bytes_have_no_tokenizer_there(tmp_path: Path) -> None:
    save_huggingface(tmp_path / "hf", replace(tiny_weights(), tokenizer=bytes_tokenizer()))
    names = sorted(each.name for each in (tmp_path / "hf").iterdir())
    assert names == ["config.json", "generation_config.json", "model.safetensors"]
    assert load_huggingface(tmp_path / "hf").tokenizer is None


# --- what people have on their disks ---------------------------------------------------------------------------------


def as_pickle(directory: Path) -> None:
    """Weights as transformers wrote them for years: with the head and the masks, and without a prefix."""
    weights = load_file(directory / "model.safetensors")
    bare = {name.removeprefix("transformer."): each for name, each in weights.items()}
    masks = {"h.0.attn.bias": torch.ones(1, 1, 12, 12), "h.0.attn.masked_bias": torch.tensor(-1e4)}
    torch.save({**bare, **masks, "lm_head.weight": bare["wte.weight"]}, directory / "pytorch_model.bin")
    (directory / "model.safetensors").unlink()


def as_shards(directory: Path, ending: str) -> None:
    weights = list(load_file(directory / "model.safetensors").items())
    (directory / "model.safetensors").unlink()
    listed = {}
    for number, part in enumerate((weights[:5], weights[5:])):
        name = f"part-{number}.{ending}"
        if ending == "bin":
            torch.save(dict(part), directory / name)
        else:
            save_file({name: each.clone() for name, each in part}, directory / name)
        listed |= {key: name for key, _ in part}
    index = "pytorch_model.bin.index.json" if ending == "bin" else "model.safetensors.index.json"
    (directory / index).write_text(json.dumps({"metadata": {}, "weight_map": listed}))


def test_other_ways_to_keep_weights(exported: Path, tmp_path: Path) -> None:
    for number, change in enumerate(
        (as_pickle, lambda path: as_shards(path, "safetensors"), lambda path: as_shards(path, "bin"))
    ):
        directory = tmp_path / str(number)
        shutil.copytree(exported, directory)
        change(directory)
        assert same_weights(load_huggingface(directory), tiny_weights())


def test_openai_s_own_config_means_tanh(exported: Path) -> None:
    """It leaves out what transformers assumes."""
    config = json.loads((exported / "config.json").read_text())
    kept = ("architectures", "model_type", "n_layer", "n_head", "n_embd", "n_positions", "vocab_size", "n_ctx")
    (exported / "config.json").write_text(json.dumps({name: config[name] for name in kept}))
    read = load_huggingface(exported)
    assert read.shape == replace(SHAPE, activation="gelu_tanh", dropout=0.1)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "llama"}, "model_type is llama; only gpt2 can be used"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx is True; only False can be used"),
        ({"layer_norm_epsilon": 1e-6}, "layer_norm_epsilon is 1e-06; only 1e-05 can be used"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings is False; only True can be used"),
        ({"activation_function": "relu"}, "activation relu is not one of gelu, gelu_new, gelu_pytorch_tanh"),
        ({"activation_function": ["gelu"]}, "activation ['gelu'] is not one of gelu"),
        ({"n_layer": 12}, "says n_layer = 12, but its weights have 2"),
        ({"n_positions": 1024}, "says block_size = 1024, but its weights have 12"),
    ],
)
def test_a_config_that_is_not_nanogpt_s(changes: dict[str, Any], said: str, exported: Path) -> None:
    set_config(exported, **changes)
    with pytest.raises(InputError) as raised:
        load_huggingface(exported)
    assert str(raised.value).startswith(f"{exported}/config.json: ")
    assert said in str(raised.value)


def test_odd_notes_are_left_out(exported: Path) -> None:
    set_config(exported, nanopace_step="many", resid_pdrop="much", nanopace_bias="no")
    read = load_huggingface(exported)
    assert (read.step, read.shape) == (0, SHAPE)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"[" * 100_000, b'"' + bytes(65 << 20)])
def test_a_config_that_is_no_json(content: bytes, exported: Path) -> None:
    (exported / "config.json").write_bytes(content)
    with pytest.raises(InputError, match=r"config\.json: is not JSON that describes anything"):
        load_huggingface(exported)


def test_a_directory_without_config_or_weights(exported: Path) -> None:
    (exported / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"hf: has no weights: neither model\.safetensors nor pytorch_model\.bin"):
        load_huggingface(exported)
    (exported / "config.json").unlink()
    with pytest.raises(InputError, match=r"config\.json: cannot be read: No such file"):
        load_huggingface(exported)


@pytest.mark.parametrize("listed", [None, {}, {"wte.weight": "../hf/model.safetensors"}, {"wte.weight": "/etc/passwd"}])
def test_an_index_leads_nowhere_else(listed: object, exported: Path) -> None:
    (exported / "model.safetensors").rename(exported.parent / "elsewhere")
    (exported / "model.safetensors.index.json").write_text(json.dumps({"weight_map": listed}))
    with pytest.raises(InputError, match=r"index\.json: lists no weights of this directory"):
        load_huggingface(exported)


def test_an_index_of_a_file_that_is_not_there(exported: Path) -> None:
    (exported / "model.safetensors").unlink()
    index = {"weight_map": {"wte.weight": "model-1.safetensors"}}
    (exported / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(InputError, match=r"model-1\.safetensors: cannot be read: "):
        load_huggingface(exported)


@pytest.mark.parametrize("keep", [0, 7, 100, 3000])
def test_a_file_that_was_cut_off(keep: int, exported: Path) -> None:
    path = exported / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"model\.safetensors: is not a safetensors file, or is damaged"):
        load_huggingface(exported)


def test_a_pickle_that_is_no_table(exported: Path) -> None:
    (exported / "model.safetensors").unlink()
    torch.save([torch.zeros(3)], exported / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"pytorch_model\.bin: is not a table of weights"):
        load_huggingface(exported)
    torch.save({"wte.weight": 3, "lm_head.weight": 4}, exported / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"hf: transformer\.wte\.weight is not a weight"):
        load_huggingface(exported)
