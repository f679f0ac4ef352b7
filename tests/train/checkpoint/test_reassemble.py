"""Sharded checkpoints made by hand with correct checksums: the parts of each tensor cover it, or not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from nanopace.cli.main import main
from nanopace.corpus.tokenizers.tokenizer import bytes_tokenizer
from nanopace.errors import InputError
from nanopace.train.checkpoint.layout import checksum_of, verified
from nanopace.train.checkpoint.reassemble import full_header
from nanopace.train.checkpoint.write import describe, measure
from nanopace.train.models.gpt2 import GPT, ModelShape

SHAPE = ModelShape(n_layer=1, n_head=2, n_embd=8, vocab_size=257, block_size=8)
TABLE = "transformer.wte.weight"
COUNT = f"step.{TABLE}"


class Shards:
    """Two ranks' files before they are written: tensors, and the places noted for torch."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.whole = {name: each.detach().clone() for name, each in GPT(SHAPE).named_parameters()}
        weights = dict(self.whole)
        for name, each in weights.items():
            self.whole[f"exp_avg.{name}"] = torch.randn_like(each)
            self.whole[f"exp_avg_sq.{name}"] = torch.rand_like(each)
            self.whole[f"step.{name}"] = torch.tensor(5.0)
        self.tensors: list[dict[str, Tensor]] = [{}, {}]
        self.places: list[dict[str, Any]] = [{}, {}]
        for name, each in self.whole.items():
            for rank, part in enumerate(each.chunk(2) if each.dim() else [each]):
                begin = 0 if rank == 0 else each.size(0) - part.size(0)
                self.tensors[rank][name] = part.contiguous()
                self.places[rank][name] = {"saved_offsets": [begin, *[0] * (each.dim() - 1)] if each.dim() else []}
        self.notes: list[str | None] = [None, None]  # instead of the places

    def write(self, out_dir: Path) -> Path:
        directory = out_dir / "checkpoints" / "step-00000005"
        directory.mkdir(parents=True)
        bytes_tokenizer().save(directory)
        for rank, tensors in enumerate(self.tensors):
            note = self.notes[rank]
            note = json.dumps(self.places[rank]) if note is None else note
            name = f"shard-{rank + 1:05d}-model-00001-of-00001.safetensors"
            save_file(tensors, directory / name, metadata={"format": "pt", "DCP_SHARDING_INFO": note})
        state = describe(SHAPE, step=5, config={}, tokenizer=bytes_tokenizer())
        state["files"] = {each.name: asdict(measure(each)) for each in sorted(directory.iterdir())}
        (directory / "state.json").write_text(json.dumps({**state, "checksum": checksum_of(state)}))
        return directory


def test_the_parts_are_put_together(tmp_path: Path) -> None:
    shards = Shards()
    saved = verified(shards.write(tmp_path))
    averages = saved.optimizer()
    assert averages is not None
    found = {**saved.weights(), **averages}
    assert found.keys() == {*shards.whole, "lm_head.weight"}
    assert all(torch.equal(found[name], each) for name, each in shards.whole.items())


def test_a_file_that_is_not_sharded_holds_all_of_each_tensor(tmp_path: Path) -> None:
    """Without a note, or with an empty one; also if it is one of several files and has the beginning."""
    save_file({"a": torch.zeros(2, 3), "b": torch.zeros(())}, tmp_path / "1.safetensors")
    assert {name: each.shape for name, each in full_header([tmp_path / "1.safetensors"]).items()} == {
        "a": torch.Size([2, 3]),
        "b": torch.Size([]),
    }
    note = json.dumps({"a": {"saved_offsets": [2, 0]}})
    save_file({"a": torch.ones(1, 3)}, tmp_path / "2.safetensors", metadata={"DCP_SHARDING_INFO": note})
    found = full_header(sorted(tmp_path.glob("*.safetensors"), reverse=True))
    assert (found["a"].shape, found["a"].device.type) == (torch.Size([3, 3]), "meta")


def of_one(change: Callable[[dict[str, Tensor], dict[str, Any]], object]) -> Callable[[Shards], object]:
    """A change to the second rank's file."""
    return lambda shards: change(shards.tensors[1], shards.places[1])


def moved(*offsets: object) -> Callable[[Shards], object]:
    return of_one(lambda _, places: places[TABLE].update(saved_offsets=list(offsets)))


def cut(rows: slice, columns: slice = slice(None)) -> Callable[[Shards], object]:
    return of_one(lambda tensors, _: tensors.update({TABLE: tensors[TABLE][rows, columns].contiguous()}))


def without(name: str) -> Callable[[Shards], object]:
    return lambda shards: [part.pop(name, None) for part in shards.tensors]


def noted(note: str) -> Callable[[Shards], object]:
    return lambda shards: shards.notes.__setitem__(1, note)


CRAFTED: dict[str, Callable[[Shards], object]] = {
    "a gap": moved(130, 0),
    "an overlap": moved(128, 0),
    "twice the same place": moved(0, 0),
    "beside it": moved(129, 8),
    "far away": moved((1 << 40) - 1, 0),
    "further than any": moved(1 << 40, 0),
    "no number": moved(float("nan"), 0),
    "a truth": moved(129, False),
    "a fraction": moved(129.0, 0),
    "before the beginning": moved(-1, 0),
    "too few numbers": moved(129),
    "none": moved(),
    "a row too few": cut(slice(1, None)),
    "columns too few": cut(slice(None), slice(4)),
    "of another type": of_one(lambda tensors, _: tensors.update({TABLE: tensors[TABLE].half()})),
    "whole numbers": lambda shards: [part.update({TABLE: part[TABLE].long()}) for part in shards.tensors],
    "bytes of a float": lambda shards: [
        part.update({TABLE: part[TABLE].to(torch.float8_e4m3fn)}) for part in shards.tensors
    ],
    "a rank too few": of_one(lambda tensors, _: tensors.pop(TABLE)),
    "nobody has it": without(TABLE),
    "nobody has its average": without(f"exp_avg.{TABLE}"),
    "nobody has the count": without(COUNT),
    "no averages at all": lambda shards: [without(name)(shards) for name in shards.whole if not name.startswith("tr")],
    "one too many": of_one(
        lambda tensors, places: (tensors.update(more=torch.zeros(2)), places.update(more={"saved_offsets": [0]}))
    ),
    "two counts": of_one(
        lambda tensors, places: (
            tensors.update({COUNT: torch.tensor(9.0)}),
            places.update({COUNT: {"saved_offsets": []}}),
        )
    ),
    "of no place": of_one(lambda _, places: places.pop(TABLE)),
    "a place that is none": of_one(lambda _, places: places.update({TABLE: 3})),
    "places that are none": noted("[]"),
    "a number for a note": noted("7"),
    "a pickle for a note": noted("\x80\x04."),
    "half a note": noted('{"transformer.wte.weight": {"saved'),
    "a deep note": noted("[" * 100_000),
    "no note": noted(""),
}


NO_PLACES = {  # what is noted can be no place at all
    "further than any", "no number", "a truth", "a fraction", "before the beginning", "too few numbers", "none",
    "of no place", "a place that is none", "places that are none", "a number for a note", "a pickle for a note",
    "half a note", "a deep note",
}  # fmt: skip


@pytest.mark.parametrize("what", CRAFTED)
def test_parts_that_do_not_fill_their_tensors(what: str, tmp_path: Path) -> None:
    shards = Shards()
    CRAFTED[what](shards)
    directory = shards.write(tmp_path)
    with pytest.raises(InputError, match="step-00000005") as refused:
        verified(directory)
    assert ("does not say where its parts of the weights belong" in str(refused.value)) == (what in NO_PLACES)


@pytest.mark.parametrize("command", [["verify"], ["sample", "--num_samples=1"], ["convert"]])
def test_a_crafted_one_ends_in_one_line(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shards = Shards()
    moved(130, 0)(shards)
    shards.write(tmp_path / "out")
    target = [str(tmp_path / "target.pt")] if command == ["convert"] else []
    assert main([command[0], str(tmp_path / "out"), *target, *command[1:], "--lang=en"]) == 2
    said = "".join(capsys.readouterr()).splitlines()
    assert len(said) == 1
    assert "shard-00002-model-00001-of-00001.safetensors: its part of transformer.wte.weight does not fit" in said[0]
    assert not (tmp_path / "target.pt").exists()


def test_a_pickle_beside_them_is_not_read(tmp_path: Path) -> None:
    """torch.distributed.checkpoint's own metadata is a pickle; ours has none, and one that is there is not touched."""
    directory = Shards().write(tmp_path)
    (directory / ".metadata").write_bytes(b"cos\nabort\n(tR.")
    assert verified(directory).weights()
    (directory / "more.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match=r"more\.safetensors: is not one of this checkpoint's files"):
        verified(directory)
