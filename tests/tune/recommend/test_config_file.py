"""A recommendation's config file: read by us, run by nanoGPT's configurator, written completely or not at all."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from nanopace.config import KNOBS, TrainConfig
from nanopace.config_text import read_config, read_config_text
from nanopace.errors import InputError
from nanopace.hardware.cards import Card, all_cards, find_card
from nanopace.tune.recommend.config_file import check_target, config_text, write_config
from nanopace.tune.recommend.datasets import Dataset
from nanopace.tune.recommend.models import NAMED
from nanopace.tune.recommend.recommend import fits, recommend

ROOT = Path(__file__).resolve().parents[3]
# What nanoGPT's train.py sets before it reads a config, and so what a config may set.
OWN = {"save_interval", "recipe", "memory"}  # those that recommend writes
NANOGPT = {
    *("out_dir", "eval_interval", "log_interval", "eval_iters", "eval_only", "always_save_checkpoint", "init_from"),
    *("wandb_log", "wandb_project", "wandb_run_name", "dataset", "gradient_accumulation_steps", "batch_size"),
    *("block_size", "n_layer", "n_head", "n_embd", "dropout", "bias", "learning_rate", "max_iters", "weight_decay"),
    *("beta1", "beta2", "grad_clip", "decay_lr", "warmup_iters", "lr_decay_iters", "min_lr", "backend", "device"),
    *("dtype", "compile"),
}


def test_it_is_read_back_as_it_was_recommended() -> None:
    found = recommend(find_card("4070"), NAMED["gpt2-medium"])
    text = config_text(found)
    read = read_config_text(text, "config.py", to_train=True)
    assert read == {choice.knob: choice.value for choice in found.knobs}
    config = TrainConfig(**read)  # type: ignore[arg-type]
    assert (config.batch_size, config.n_layer, config.tokens_per_iteration) == (4, 24, 524_288)
    own = text.partition("nanopace's own")[2]
    assert [line.partition(" = ")[0] for line in own.splitlines()[1:]] == [each for each in read if each in OWN]


def test_every_line_has_its_reason() -> None:
    lines = config_text(recommend(find_card("H200"), NAMED["gpt2"], dataset=Dataset("it's 日本 \\ \n"))).splitlines()
    settings = [line for line in lines if " = " in line]
    assert len(settings) > 20
    assert all("  # " in line for line in settings)


@pytest.mark.parametrize(
    "card", [each for each in all_cards() if fits(each, NAMED["gpt2"])], ids=lambda card: card.label
)
def test_nanogpt_knows_every_name_or_passes_over_it(card: Card) -> None:
    """Its configurator executes the file: ASCII, names that it knows, and three of ours."""
    text = config_text(recommend(card, NAMED["gpt2"]))
    assert text.isascii()
    assert set(read_config_text(text, "config.py")) <= NANOGPT | OWN <= set(KNOBS)


def test_it_never_replaces_a_file_unasked(tmp_path: Path) -> None:
    target = tmp_path / "config.py"
    target.write_text("batch_size = 3\n")
    with pytest.raises(InputError, match=r"config.py: already exists; --overwrite replaces it"):
        check_target(str(target), overwrite=False)
    with pytest.raises(InputError, match="exists"):  # somebody was quicker, after the check
        write_config(str(target), "batch_size = 4\n", overwrite=False)
    assert target.read_text() == "batch_size = 3\n"
    write_config(str(target), "batch_size = 4\n", overwrite=True)
    assert target.read_text() == "batch_size = 4\n"
    assert os.listdir(tmp_path) == ["config.py"]


def test_where_it_cannot_be_written(tmp_path: Path) -> None:
    for path, said in ((tmp_path, "is a directory"), (tmp_path / "no" / "x.py", "no such directory")):
        with pytest.raises(InputError, match=said):
            check_target(str(path), overwrite=True)
    with pytest.raises(InputError, match=r"--write .*: "):
        write_config(str(tmp_path / "no" / "x.py"), "", overwrite=False)


def test_the_ready_configs_are_current() -> None:
    spec = importlib.util.spec_from_file_location("configs", ROOT / "tools" / "configs.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    texts = dict(tool.texts())
    assert len(texts) == 12
    for name, text in texts.items():
        assert (ROOT / "configs" / name).read_text(encoding="utf-8") == text, "run `make configs`"
    assert {path.name for path in (ROOT / "configs").iterdir()} == {*texts, "shakespeare_char.py"}


def test_every_ready_config_can_be_trained() -> None:
    for path in (ROOT / "configs").iterdir():
        TrainConfig(**read_config(path, to_train=True))  # type: ignore[arg-type]
