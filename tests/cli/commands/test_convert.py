"""`nanopace convert`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nanopace.cli.main import main
from nanopace.corpus.tokenizers.tokenizer import Tokenizer, bytes_tokenizer, train_bpe
from nanopace.train.checkpoint.write import write_weights
from nanopace.train.formats.convert import form_of, open_pretrained
from nanopace.train.formats.nanogpt_checkpoint import save_nanogpt
from nanopace.train.formats.pretrained import Pretrained
from nanopace.train.models.gpt2 import GPT, ModelShape

from ..refused import refused

SHAPE = ModelShape(n_layer=1, n_head=2, n_embd=8, vocab_size=300, block_size=8)


def save(path: Path, shape: ModelShape = SHAPE, tokenizer: Tokenizer | None = None) -> None:
    """A checkpoint as the trainer leaves it."""
    write_weights(path, shape, GPT(shape).state_dict(), step=1234, config={}, tokenizer=tokenizer)


@pytest.fixture
def source(tmp_path: Path) -> str:
    save(tmp_path / "out", tokenizer=train_bpe(["a text of some words\n" * 9], 280))
    return str(tmp_path / "out")


def test_it_says_what_it_wrote(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "hf"
    assert main(["convert", source, str(target)]) == 0
    assert capsys.readouterr() == (f"Wrote {target}: 3,256 parameters, step 1,234\n", "")
    assert form_of(target) == "huggingface"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "flags", "form"),
    [
        ("x.pt", [], "nanogpt"),
        ("x", [], "huggingface"),
        ("x", ["--to", "nanogpt"], "nanogpt"),
        ("x.pt", ["--to", "nanopace"], "nanopace"),
    ],
)
def test_the_form_is_the_flag_s_or_the_name_s(
    name: str, flags: list[str], form: str, source: str, tmp_path: Path
) -> None:
    assert main(["convert", source, str(tmp_path / name), *flags]) == 0
    assert form_of(tmp_path / name) == form


@pytest.mark.slow
def test_what_is_left_behind_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path / "bytes", tokenizer=bytes_tokenizer())
    save(tmp_path / "none", replace(SHAPE, activation="gelu_tanh"))
    for source, target, said in [
        ("bytes", "hf", "Hugging Face has no bytes tokenizer, so only the weights are written"),
        ("bytes", "a.pt", "a ckpt.pt cannot hold the bytes tokenizer"),
        ("none", "hf2", "the tokenizer is unknown, so none is written"),
        (
            "none",
            "b.pt",
            "this model approximates GELU and nanoGPT does not, so its logits differ there by about 0.001",
        ),
    ]:
        assert main(["convert", str(tmp_path / source), str(tmp_path / target)]) == 0
        assert f"nanopace: {said}\n" in capsys.readouterr().err


def test_averages_that_are_left_out_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = GPT(SHAPE)
    moments = {
        f"{what}.{name}": torch.zeros(() if what == "step" else each.shape)
        for name, each in model.named_parameters()
        for what in ("step", "exp_avg", "exp_avg_sq")
    }
    weights = Pretrained(path=tmp_path, shape=SHAPE, weights=model.state_dict(), optimizer=moments)
    save_nanogpt(tmp_path / "a.pt", weights)
    assert main(["convert", str(tmp_path / "a.pt"), str(tmp_path / "x"), "--to", "huggingface"]) == 0
    assert "the optimizer state is left out; training would start without it" in capsys.readouterr().err
    for target, form in (("b.pt", "nanogpt"), ("y", "nanopace")):
        assert main(["convert", str(tmp_path / "a.pt"), str(tmp_path / target), "--to", form]) == 0
        assert "optimizer" not in capsys.readouterr().err
        assert open_pretrained(tmp_path / target).optimizer is not None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing", "x.pt"], "nothing: no such file or directory"),
        (["text.pt", "x.pt"], "text.pt: is not a file of torch.save, or is damaged"),
        (["bomb.pt", "x.pt"], "bomb.pt: holds more than weights: it calls posix.system"),
        (["out", "text.pt"], "text.pt: already exists; --force overwrites it"),
        (["out", "x", "--to", "gguf"], "argument --to: invalid choice: 'gguf'"),
        (["out"], "the following arguments are required: TARGET (nanopace convert --help)"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str],
    said: str,
    source: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, ("touch mark",)

    assert source
    monkeypatch.chdir(tmp_path)
    Path("text.pt").write_text("no checkpoint")
    torch.save(Bomb(), "bomb.pt")
    assert refused(capsys, "convert", *arguments).startswith(said)
    assert not Path("mark").exists()
    assert not Path("x.pt").exists()
