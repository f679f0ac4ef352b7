from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from nanopace.corpus.tokenizers.tokenizer import bytes_tokenizer
from nanopace.errors import InputError, NanopaceError
from nanopace.train.checkpoint.layout import verified
from nanopace.train.checkpoint.write import write_weights
from nanopace.train.formats import convert as module
from nanopace.train.formats.convert import convert, form_by_name, form_of, open_pretrained
from nanopace.train.formats.nanogpt_checkpoint import save_nanogpt

from ..tiny import SHAPE, same_weights, tiny_tokens, tiny_weights


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A ckpt.pt with a tokenizer next to it."""
    (tmp_path / "out").mkdir()
    bytes_tokenizer().save(tmp_path / "out")
    save_nanogpt(tmp_path / "out" / "ckpt.pt", replace(tiny_weights(), config={"dataset": "x", "batch_size": 3}))
    return tmp_path / "out" / "ckpt.pt"


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("way", [("nanopace", "huggingface", "nanogpt"), ("huggingface", "nanopace", "nanogpt")])
def test_the_grand_tour_changes_no_bit(way: tuple[str, ...], bias: bool, tmp_path: Path) -> None:
    before = tiny_weights(replace(SHAPE, bias=bias, activation="gelu_tanh", dropout=0.25))
    save_nanogpt(tmp_path / "start.pt", before)
    at = tmp_path / "start.pt"
    for form in way:
        target = tmp_path / (form + (".pt" if form == "nanogpt" else ""))
        convert(at, target, to=form)
        assert form_of(target) == form
        at = target
    after = open_pretrained(at)
    assert same_weights(before, after)
    assert (after.shape, after.step) == (before.shape, before.step)


def test_a_checkpoint_of_ours_is_what_the_trainer_opens(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "ours", to="nanopace")
    saved = verified(tmp_path / "ours")
    assert (saved.shape, saved.step, saved.config) == (SHAPE, 7, {"dataset": "x", "batch_size": 3})
    assert saved.tokenizer_hash == bytes_tokenizer().hash
    read = open_pretrained(tmp_path / "ours")
    assert read.tokenizer.kind == "bytes"
    assert read.model().logits(tiny_tokens()).shape == (3, 12, 300)


def test_an_out_dir_means_its_newest_checkpoint(tmp_path: Path) -> None:
    for step in (5, 40):
        weights = tiny_weights(step=step)
        path = tmp_path / "out" / "checkpoints" / f"step-{step:08}"
        write_weights(path, SHAPE, weights.weights, step=step, config={}, tokenizer=None)
    assert open_pretrained(tmp_path / "out").step == 40
    assert open_pretrained(tmp_path / "out" / "checkpoints" / "step-00000005").step == 5


def test_a_checkpoint_whose_shape_is_not_its_weights(tmp_path: Path) -> None:
    shape = replace(SHAPE, n_layer=3)
    write_weights(tmp_path / "bad", shape, tiny_weights().weights, step=1, config={}, tokenizer=None)
    with pytest.raises(InputError, match=r"bad.*: says n_layer = 3, but its weights have 2"):
        open_pretrained(tmp_path / "bad")


def test_nanogpt_s_out_dir_is_its_ckpt(source: Path) -> None:
    assert form_of(source.parent) == form_of(source) == "nanogpt"
    assert same_weights(open_pretrained(source.parent), open_pretrained(source))


def test_a_place_without_weights(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no checkpoint here, neither nanopace's nor nanoGPT's nor Hugging Face's"):
        open_pretrained(tmp_path)
    with pytest.raises(InputError, match="none: no such file or directory"):
        open_pretrained(tmp_path / "none")


def test_the_name_tells_the_form() -> None:
    assert form_by_name(Path("a/ckpt.pt")) == "nanogpt"
    assert form_by_name(Path("a/gpt2")) == "huggingface"


# --- the target ------------------------------------------------------------------------------------------------------


def content(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    return {str(each): each.read_bytes() for each in files}


@pytest.mark.parametrize(("target", "form"), [("x.pt", "nanogpt"), ("hf", "huggingface"), ("ours", "nanopace")])
def test_nothing_is_overwritten_unless_it_is_said(target: str, form: str, source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / target, to=form)
    before = content(tmp_path / target)
    save_nanogpt(source, tiny_weights(step=8))
    with pytest.raises(NanopaceError, match="already exists; --force overwrites it"):
        convert(source, tmp_path / target, to=form)
    assert content(tmp_path / target) == before
    convert(source, tmp_path / target, to=form, force=True)
    assert open_pretrained(tmp_path / target).step == 8
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".")]


@pytest.mark.parametrize("form", ["huggingface", "nanopace"])
def test_force_does_not_cost_anybody_other_files(form: str, source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "model", to=form)
    (tmp_path / "model" / "thesis.tex").write_text("years of work")
    with pytest.raises(NanopaceError, match=r"model: will not be overwritten, because it contains thesis\.tex"):
        convert(source, tmp_path / "model", to=form, force=True)
    assert (tmp_path / "model" / "thesis.tex").exists()


@pytest.mark.parametrize("form", ["huggingface", "nanopace"])
def test_an_empty_directory_is_a_place(form: str, source: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    convert(source, tmp_path / "empty", to=form)
    assert form_of(tmp_path / "empty") == form


@pytest.mark.parametrize(
    ("target", "form", "said"),
    [
        ("out", "nanogpt", r"out: is a directory; nanoGPT's format is a file, such as .*out/ckpt\.pt"),
        ("nowhere/x.pt", "nanogpt", "nowhere: no such directory"),
        ("out/ckpt.pt", "huggingface", r"ckpt\.pt: is a file; this format is a directory"),
        ("out/ckpt.pt", "nanopace", r"ckpt\.pt: is a file; this format is a directory"),
    ],
)
def test_a_target_of_the_wrong_kind(target: str, form: str, said: str, source: Path, tmp_path: Path) -> None:
    with pytest.raises(NanopaceError, match=said):
        convert(source, tmp_path / target, to=form, force=True)


def test_onto_itself(source: Path, tmp_path: Path) -> None:
    """The source is still mapped while it is replaced."""
    convert(source, source, force=True)
    assert same_weights(open_pretrained(source), tiny_weights())
    convert(source, tmp_path / "hf")
    convert(tmp_path / "hf", tmp_path / "hf", force=True)
    assert same_weights(open_pretrained(tmp_path / "hf"), tiny_weights())


def test_a_failure_leaves_what_was_there(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    convert(source, tmp_path / "ours", to="nanopace")
    before = content(tmp_path / "ours")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_weights", full)
    with pytest.raises(InputError, match="ours: cannot be written: No space left on device"):
        convert(source, tmp_path / "ours", to="nanopace", force=True)
    assert content(tmp_path / "ours") == before
    shutil.rmtree(tmp_path / "ours")
