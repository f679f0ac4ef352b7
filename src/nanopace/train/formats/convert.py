"""Converts weights between three forms: nanopace's checkpoint, nanoGPT's file, Hugging Face's directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nanopace.config import KNOBS
from nanopace.corpus.tokenizers.base import TOKENIZER_FILE
from nanopace.corpus.tokenizers.tokenizer import load_tokenizer
from nanopace.errors import InputError, UsageError, unwritable
from nanopace.literals import Value
from nanopace.train.checkpoint import layout as checkpoint_files
from nanopace.train.checkpoint.best import best_until
from nanopace.train.checkpoint.choose import choose, nothing_to_choose
from nanopace.train.checkpoint.headers import check_weights
from nanopace.train.checkpoint.layout import MODEL, NANOGPT_FILE, OPTIMIZER, STATE, verified
from nanopace.train.checkpoint.state_checks import is_knob
from nanopace.train.checkpoint.write import write_weights
from nanopace.train.formats.huggingface import load_huggingface, save_huggingface
from nanopace.train.formats.huggingface_fast import MODELING_FILE
from nanopace.train.formats.huggingface_files import CONFIG, WEIGHTS
from nanopace.train.formats.huggingface_tokenizer import TOKENIZER_FILES
from nanopace.train.formats.nanogpt_checkpoint import load_nanogpt, save_nanogpt
from nanopace.train.formats.pretrained import Pretrained, assumed_tokenizer

FORMS = ("nanogpt", "huggingface", "nanopace")

# --force may only replace a directory that contains nothing but these: never a home directory.
_OWN_FILES: Mapping[str, frozenset[str]] = {
    "huggingface": frozenset({CONFIG, WEIGHTS[0], "generation_config.json", MODELING_FILE, *TOKENIZER_FILES}),
    "nanopace": frozenset({STATE, MODEL, OPTIMIZER, "tokenizer.json"}),
}


def open_pretrained(path: Path, which: str = "") -> Pretrained:
    """Load weights in any of the forms. `which` applies to a nanopace run: see checkpoint/choose.py."""
    form = form_of(path)
    if which and (form != "nanopace" or (path / STATE).exists()):
        raise nothing_to_choose(path, which)
    match form:
        case "huggingface":
            return load_huggingface(path)
        case "nanogpt":
            return load_nanogpt(path / NANOGPT_FILE if path.is_dir() else path)
        case _:
            return _load_nanopace(path, which)


def form_of(path: Path) -> str:
    """Which of the three forms it has. A file is nanoGPT's; a directory is recognised by its files."""
    if not path.exists():
        raise InputError("{path}: no such file or directory", path=path)
    if path.is_file():
        return "nanogpt"
    if (path / STATE).exists() or checkpoint_files.checkpoint_directories(path):
        return "nanopace"
    if (path / CONFIG).exists():
        return "huggingface"
    if (path / NANOGPT_FILE).exists():
        return "nanogpt"
    raise InputError("{path}: no checkpoint here, neither nanopace's nor nanoGPT's nor Hugging Face's", path=path)


def convert(source: Path, target: Path, *, to: str | None = None, which: str = "", force: bool = False) -> Pretrained:
    """Write the weights in `source` to `target`, in the form given by `to` or by the target's name."""
    form = to or form_by_name(target)
    check_target(target, form, force)
    pretrained = open_pretrained(source, which)
    if form == "nanogpt" and pretrained.shape.recipe != "gpt2":
        raise InputError(
            "{path}: is a recipe={recipe} model, and a ckpt.pt can only hold a GPT-2; use --to huggingface or "
            "--to nanopace",
            path=pretrained.path,
            recipe=pretrained.shape.recipe,
        )
    match form:
        case "nanogpt":
            save_nanogpt(target, pretrained)
        case "huggingface":
            save_huggingface(target, pretrained)
        case _:
            _save_nanopace(target, pretrained)
    return pretrained


def form_by_name(target: Path) -> str:
    return "nanogpt" if target.suffix == ".pt" else "huggingface"


def check_target(target: Path, form: str, force: bool) -> None:
    """Raise before anything is read. Only files that a conversion writes are ever overwritten."""
    if form == "nanogpt":
        if target.is_dir():
            raise UsageError("{path}: is a directory; nanoGPT's format is a file, such as {path}/ckpt.pt", path=target)
        if not target.parent.is_dir():
            raise UsageError("{path}: no such directory", path=target.parent)
        there = target.exists()
    else:
        if target.exists() and not target.is_dir():
            raise UsageError("{path}: is a file; this format is a directory", path=target)
        there = target.is_dir() and any(target.iterdir())
    if there and not force:
        raise UsageError("{path}: already exists; --force overwrites it", path=target)
    if there and form != "nanogpt":
        others = sorted(entry.name for entry in target.iterdir() if entry.name not in _OWN_FILES[form])
        if others:
            raise UsageError("{path}: will not be overwritten, because it contains {name}", path=target, name=others[0])


def _load_nanopace(path: Path, which: str) -> Pretrained:
    chosen = None if (path / STATE).exists() else choose(path, which)
    saved = verified(path) if chosen is None else chosen.saved
    shape, weights = saved.shape, saved.weights()
    check_weights(saved.path, weights, shape)
    tokenizer = load_tokenizer(saved.path) if TOKENIZER_FILE in saved.state["files"] else None
    return Pretrained(
        path=saved.path,
        shape=shape,
        weights=weights,
        step=saved.step,
        config=saved.config,
        tokenizer=tokenizer or assumed_tokenizer(shape),
        tokenizer_assumed=tokenizer is None,
        optimizer=saved.optimizer(),
        best=best_until(saved),
        windows=saved.windows,
        chosen=chosen,
    )


def _save_nanopace(target: Path, pretrained: Pretrained) -> None:
    try:
        write_weights(
            target,
            pretrained.shape,
            pretrained.weights,
            step=pretrained.step,
            config=_usable(pretrained.config),
            tokenizer=pretrained.tokenizer,
            averages=pretrained.optimizer,
            more={"best": pretrained.best, "windows": pretrained.windows},
        )
    except OSError as error:
        raise unwritable(target, error) from None


def _usable(config: Mapping[str, Value]) -> dict[str, Value]:
    """The config without a fork's settings that are invalid here: a checkpoint with them would be refused."""
    return {name: value for name, value in config.items() if name not in KNOBS or is_knob(name, value)}
