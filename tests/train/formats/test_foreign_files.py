"""Foreign files that are not what they claim: false weights, archives that expand, pipes and devices."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from nanopace.cli.main import main
from nanopace.errors import InputError, NanopaceError
from nanopace.train.checkpoint.layout import checkpoint_directories, newest_intact
from nanopace.train.formats.convert import convert, open_pretrained
from nanopace.train.formats.nanogpt_checkpoint import load_nanogpt, save_nanogpt
from nanopace.train.formats.nanogpt_run import open_nanogpt_run
from nanopace.train.plan.origin import from_the_beginning

from ..tiny import tiny_weights

TABLE = "transformer.wte.weight"
MATRIX = "transformer.h.0.attn.c_attn.weight"


@pytest.fixture
def content(tmp_path: Path) -> dict[str, Any]:
    """The content of a ckpt.pt from which a nanoGPT run can be resumed."""
    made = tiny_weights()
    moments = {
        f"{what}.{name}": torch.tensor(3.0) if what == "step" else torch.ones_like(each)
        for name, each in made.weights.items()
        for what in ("step", "exp_avg", "exp_avg_sq")
    }
    object.__setattr__(made, "optimizer", moments)
    save_nanogpt(tmp_path / "ckpt.pt", made)
    loaded: dict[str, Any] = torch.load(tmp_path / "ckpt.pt", weights_only=True)
    return loaded


def weight(made: Callable[[torch.Tensor], object]) -> Callable[[dict[str, Any]], object]:
    return lambda content: content["model"].update({MATRIX: made(content["model"][MATRIX])})


def argument(name: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda content: content["model_args"].update({name: value})


REFUSED: Mapping[str, Callable[[dict[str, Any]], object]] = {
    "nested": weight(lambda each: torch.nested.nested_tensor([each[:1], each[1:]])),
    "jagged": weight(lambda each: torch.nested.nested_tensor([each[:1], each[1:]], layout=torch.jagged)),
    "sparse": weight(lambda each: each.to_sparse()),
    "compressed": weight(lambda each: each.to_sparse_csr()),
    "quantized": weight(lambda each: torch.quantize_per_tensor(each, 0.1, 0, torch.qint8)),
    "without values": weight(lambda each: each.to("meta")),
    "complex": weight(lambda each: each.to(torch.complex64)),
    "expanded": weight(lambda _: torch.zeros(1).expand(10**9, 10**5)),
    "a list": weight(lambda each: each.tolist()),
    "of another shape": weight(lambda each: each[:, :3]),
    "10**9 layers": argument("n_layer", 10**9),
    "a number without end": argument("n_layer", 10**5000),
    "so many heads": argument("n_head", 10**5000),
    "no number": argument("n_embd", float("nan")),
    "words": argument("vocab_size", "x" * 10**6),
    "two of one name": lambda content: content["model"].update({f"_orig_mod.{TABLE}": torch.zeros(300, 16)}),
    "thousands of layers": lambda content: content["model"].update(
        {f"transformer.h.{number}.x": torch.zeros(1) for number in range(3000)}
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", REFUSED)
def test_weights_that_are_none(what: str, content: dict[str, Any], tmp_path: Path) -> None:
    REFUSED[what](content)
    torch.save(content, tmp_path / "bad.pt")
    with pytest.raises(InputError, match=r"bad\.pt") as raised:
        load_nanogpt(tmp_path / "bad.pt")
    assert len(str(raised.value)) < 500


def group(name: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda content: content["optimizer"]["param_groups"][0].update({name: value})


NO_RUN: Mapping[str, Callable[[dict[str, Any]], object]] = {
    "a tensor of numbers": group("params", torch.arange(9)),
    "tensors for numbers": group("params", [torch.arange(2)] * 9),
    "a tensor for eps": group("eps", torch.zeros(3)),
    "a tensor for a decay": group("weight_decay", torch.zeros(3)),
    "tensors for betas": group("betas", (torch.zeros(2), torch.zeros(2))),
    "no betas": group("betas", None),
    "a count that is none": lambda content: content["optimizer"]["state"][0].update(step=torch.tensor(float("nan"))),
    "a nested average": lambda content: content["optimizer"]["state"][0].update(
        exp_avg=torch.nested.nested_tensor([torch.zeros(1), torch.zeros(2)])
    ),
    "no state": lambda content: content["optimizer"].update(state=[1]),
    "an iteration that is none": lambda content: content.update(iter_num=float("nan")),
    "a tensor for an iteration": lambda content: content.update(iter_num=torch.tensor(7)),
    "an iteration without end": lambda content: content.update(iter_num=1 << 62),
    "a batch of nothing": lambda content: content["config"].update(batch_size=-3),
    "a rate that is none": lambda content: content["config"].update(learning_rate="x" * 10**6),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", NO_RUN)
def test_a_run_that_cannot_go_on(what: str, content: dict[str, Any], tmp_path: Path) -> None:
    """Its weights can still be used."""
    content["iter_num"] = 7
    torch.save(content, tmp_path / "good.pt")
    open_nanogpt_run(tmp_path / "good.pt")
    NO_RUN[what](content)
    torch.save(content, tmp_path / "bad.pt")
    load_nanogpt(tmp_path / "bad.pt")
    with pytest.raises(InputError, match=r"bad\.pt") as raised:
        open_nanogpt_run(tmp_path / "bad.pt")
    assert len(str(raised.value)) < 700
    convert(tmp_path / "bad.pt", tmp_path / "ours", to="nanopace")
    assert open_pretrained(tmp_path / "ours").shape == load_nanogpt(tmp_path / "bad.pt").shape


# --- what is no file -------------------------------------------------------------------------------------------------

WAITED_FOR: Mapping[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "directory": lambda path: path.mkdir(),
    "loop": lambda path: path.symlink_to(path.name),
    "holes": lambda path: (path.touch(), os.truncate(path, 10**12)),
    "deep": lambda path: path.write_text("[" * 10**6),
    "numbers": lambda path: path.write_text('{"step": 1e400, "val": ' + "9" * 400 + "}"),
}


@pytest.mark.parametrize("what", WAITED_FOR)
def test_nothing_is_waited_for(what: str, tmp_path: Path) -> None:
    """Each file of each form, as it may be in an untrusted directory."""
    for name in ("config.json", "model.safetensors", "ckpt.pt", "ledger.jsonl", "best.json", "tokenizer.json"):
        directory = tmp_path / name.partition(".")[0]
        directory.mkdir()
        WAITED_FOR[what](directory / name)
        if name == "model.safetensors":
            (directory / "config.json").write_text("{}")
        with pytest.raises(NanopaceError):
            open_pretrained(directory)
        given = {"init_from": "resume", "out_dir": str(directory)}
        if name == "ledger.jsonl" and what in ("pipe", "device", "directory"):
            with pytest.raises(InputError, match=r"ledger\.jsonl: cannot be read"):
                from_the_beginning(given, directory, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("what", ["pipe", "device", "holes"])
def test_a_ledger_that_is_none_is_said(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    convert(_source(tmp_path), tmp_path / "out" / "checkpoints" / "step-00000007", to="nanopace")
    WAITED_FOR[what](tmp_path / "out" / "ledger.jsonl")
    assert main(["verify", str(tmp_path / "out"), "--lang=en"]) == 2
    whole, said = capsys.readouterr().out.splitlines()
    assert whole.endswith("intact")
    assert "ledger.jsonl: " in said


def test_names_without_end(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    for number in range(200):
        (folder / f"step-{number:08d}").mkdir()
    for name in (f"step-{'9' * 20}", "step-\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661", "step-000000010"):
        (folder / name).mkdir()
    (folder / "step-00000300").touch()
    (folder / "step-00000301").symlink_to("step-00000301")
    assert len(checkpoint_directories(tmp_path)) == 202
    saved, refused = newest_intact(tmp_path)
    assert saved is None
    assert len(refused) == 21
    assert "182 more" not in str(refused[0])
    assert "checkpoints: 182 more checkpoints cannot be used" in str(refused[-1])


def test_an_index_of_other_places(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    for name in ("../secret.safetensors", "..", "", "/etc/passwd", "a\0b", "\ud800", "config.json", 7, None):
        index = {"weight_map": {"wte.weight": name}}
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
        with pytest.raises(InputError, match=str(tmp_path)):
            open_pretrained(tmp_path)


# --- a full disk -----------------------------------------------------------------------------------------------------


def _source(folder: Path) -> Path:
    save_nanogpt(folder / "source.pt", tiny_weights())
    return folder / "source.pt"


@pytest.mark.parametrize("form", ["nanogpt", "huggingface", "nanopace"])
@pytest.mark.parametrize("room", [0, 5000, 30_000])
def test_a_disk_that_fills_while_converting(form: str, room: int, tmp_path: Path) -> None:
    """No file may grow beyond `room`: the old file stays, and nothing of the new one is left."""
    source, folder = _source(tmp_path), tmp_path / "there"
    folder.mkdir()
    target = folder / ("ckpt.pt" if form == "nanogpt" else "model")
    convert(source, target, to=form)
    before = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        with pytest.raises(InputError, match=f"{target}: cannot be written: .") as raised:
            convert(source, target, to=form, force=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "\n" not in str(raised.value)
    assert {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
