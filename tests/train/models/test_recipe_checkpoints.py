"""What checkpoints of recipe `fast` are good for: sampling, other runs, other forms, and later versions."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from nanopace.errors import ConfigError, InputError
from nanopace.knob_values import INGREDIENTS
from nanopace.train.checkpoint.layout import CHECKPOINTS, checkpoint_directories, checksum_of, read_state, verified
from nanopace.train.formats.convert import convert, open_pretrained
from nanopace.train.models.fast import FastGPT
from nanopace.train.models.generate import generate

from .. import runs
from ..runs import resume
from .recipe_runs import run


def test_weights_come_back_as_they_were_and_the_head_is_the_table(trained: Path) -> None:
    file, model = (
        load_file(checkpoint_directories(trained)[0] / "model.safetensors"),
        open_pretrained(trained, "last").model(),
    )
    assert model.lm_head.weight is model.transformer["wte"].weight
    assert {name for name, _ in model.named_parameters()} == file.keys()
    assert all(torch.equal(each, file[name]) for name, each in model.named_parameters())


def test_it_is_sampled_from_with_and_without_a_cache(trained: Path) -> None:
    model = open_pretrained(trained).model()
    assert isinstance(model, FastGPT)
    for count in (9, 40):  # within the block of 16, and beyond
        kept, anew = (list(generate(model, [3, 4, 5], count, seed=count, cache=cache)) for cache in (True, False))
        assert kept == anew
        assert len(kept) == count


@pytest.mark.parametrize("without", ["", "rope"])
def test_its_weights_travel_but_not_to_gpt2(trained: Path, shared_corpus: Path, tmp_path: Path, without: str) -> None:
    if without:
        trained = tmp_path / "out"
        run(shared_corpus, trained, without=without, max_iters=3, always_save_checkpoint=False)
    convert(trained, tmp_path / "copy", to="nanopace")
    tokens = torch.arange(12)[None]
    first, second = (open_pretrained(each).model().logits(tokens) for each in (trained, tmp_path / "copy"))
    assert torch.equal(first, second)
    with pytest.raises(InputError, match=r"recipe=fast model, and a ckpt\.pt can only hold a GPT-2") as error:
        convert(trained, tmp_path / "ckpt.pt")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "ckpt.pt").exists()


def test_a_new_run_begins_with_its_weights(trained: Path, shared_corpus: Path, tmp_path: Path) -> None:
    start = partial(runs.run, shared_corpus, init_from=str(trained), max_iters=2)
    _, listener = start(tmp_path / "out")
    assert verified(checkpoint_directories(tmp_path / "out")[0]).shape.recipe == "fast"
    assert listener.losses[0] < 4.0  # a fresh model has 5.6
    with pytest.raises(ConfigError, match=r"recipe is fast in .* and cannot be gpt2"):
        start(tmp_path / "b", recipe="gpt2")


def test_files_of_two_recipes_are_no_checkpoint(trained: Path) -> None:
    from nanopace.train.checkpoint.headers import check_averages, check_weights, header_of
    from nanopace.train.checkpoint.state_checks import wrong_field

    here = checkpoint_directories(trained)[0]
    shape = verified(here).shape
    weights, averages = header_of(here / "model.safetensors"), header_of(here / "optimizer.safetensors")
    check_weights(here, weights, shape)
    check_averages(here, averages, shape)
    for other in (
        replace(shape, without="value_embeddings"),
        replace(shape, without="rope"),
        replace(shape, n_layer=3),
    ):
        with pytest.raises(InputError, match=r"recipe=fast|says n_layer"):
            check_weights(here, weights, other)
    with pytest.raises(InputError, match="does not belong to the weights next to it"):
        check_averages(here, averages, replace(shape, without="muon"))
    state = read_state(here)
    assert wrong_field(state) is None
    for bad in ({"recipe": "slow"}, {"without": "salt"}, {"without": ["rope"]}, {"n_layer": 10**12}, {"recipe": None}):
        assert wrong_field({**state, "shape": {**state["shape"], **bad}}) == "shape"
    with pytest.raises(InputError):
        check_weights(here, {}, shape)
    with pytest.raises(InputError, match=r"lm_head\.weight does not belong to a model of recipe=fast"):
        check_weights(here, {**weights, "lm_head.weight": weights["transformer.wte.weight"].clone()}, shape)


def test_a_checkpoint_lists_what_its_model_has(trained: Path, tmp_path: Path) -> None:
    """So what is added to the recipe later does not change models that were trained before."""
    here = copied(checkpoint_directories(trained)[0], tmp_path)
    state = read_state(here)
    assert state["ingredients"] == list(INGREDIENTS["fast"])
    assert verified(here).shape.without == ""
    rewrite(here, {**state, "ingredients": [*INGREDIENTS["fast"], "salt"]})
    with pytest.raises(
        InputError, match=r"state\.json: the model has 'salt', which this version of nanopace does not know"
    ):
        verified(here)


def test_a_checkpoint_from_before_there_was_a_list(shared_corpus: Path, tmp_path: Path) -> None:
    """It has neither shifted keys nor xsa; it goes on without them, and says so."""
    out = tmp_path / "out"
    run(shared_corpus, out, without="soft_cap,key_shift,xsa", max_iters=3, always_save_checkpoint=False)
    here = checkpoint_directories(out)[0]
    state = read_state(here)
    del state["ingredients"]
    rewrite(here, {**state, "shape": {**state["shape"], "without": "soft_cap"}})
    assert verified(here).shape.without == "soft_cap,key_shift,xsa"
    outcome, _ = resume(out, max_iters=5)
    assert outcome.iteration == 6
    assert read_state(checkpoint_directories(out)[0])["ingredients"] == [
        name for name in INGREDIENTS["fast"] if name not in ("soft_cap", "key_shift", "xsa")
    ]


def copied(checkpoint: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(checkpoint, tmp_path / CHECKPOINTS / checkpoint.name))


def rewrite(checkpoint: Path, state: dict[str, object]) -> None:
    state.pop("checksum", None)
    (checkpoint / "state.json").write_text(json.dumps({**state, "checksum": checksum_of(state)}))
