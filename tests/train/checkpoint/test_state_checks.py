"""A state.json with a correct checksum and one hostile value, at every possible place."""

from __future__ import annotations

import copy
import json
import math
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from nanopace.errors import InputError, NanopaceError
from nanopace.train.checkpoint.layout import checksum_of, read_state, verified
from nanopace.train.checkpoint.rng_state import random_states
from nanopace.train.checkpoint.state_checks import _FIELDS, wrong_field
from nanopace.train.formats.convert import open_pretrained
from nanopace.train.models.gpt2 import ModelShape

from ..conftest import write_corpus
from ..runs import resume
from ..runs import run as trained

HOSTILE: tuple[Any, ...] = (None, True, -1, 10**400, 1 << 62, math.nan, 1e308, "x", "\ud800\0", [[]], {"a": {}})
FEW = 2  # entries of a long list that are replaced


SHAPE = ModelShape(n_layer=1, n_head=2, n_embd=8, vocab_size=257, block_size=8, bias=True)
LEAST: dict[str, Any] = {"step": 5, "shape": asdict(SHAPE), "config": {}, "tokenizer": None, "files": {}}
SCALER = {"scale": 2.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 3, "_growth_tracker": 0}
LARGEST = 3.4028234663852886e38  # of a float32
STATES = random_states(torch.device("cpu"))


def file(size: Any = 3, digest: Any = "ab") -> dict[str, Any]:
    return {"a": {"bytes": size, "sha256": digest}}


def shape(**changes: Any) -> dict[str, Any]:
    return {**asdict(SHAPE), **changes}


def scaler(**changes: Any) -> dict[str, Any]:
    return {**SCALER, **changes}


COUNT = ([0, (1 << 62) - 1], [-1, 1 << 62, True, 1.0, None])
SIZE = (0, -1, 1 << 31, 1.0, True, "1")
# For each field, possible values up to its bounds, and impossible ones beyond.
BOUNDS: dict[str, tuple[list[Any], list[Any]]] = {
    **dict.fromkeys(("step", "windows", "micro_batch", "data_offset"), COUNT),
    "ingredients": ([[], ["rope", "not yet known"]], ["rope", None, [3]]),
    "memory_steps": ([[], ["hidden", "not yet known"]], ["hidden", None, [3]]),
    "card": ([None, "x"], [3]),
    "versions": ([{}, {"torch": "2.13.0"}], [[], None]),
    "config": ([{}, {"nobody knows": []}], [[], None]),
    "tokenizer": ([None, "x"], [3]),
    "files": (
        [{}, file(0), file(1 << 38)],
        [[], {"a": 3}, file(-1), file((1 << 38) + 1), file(True), file(3, None), file("3")],
    ),
    "corpus": ([""], [None, 3]),
    "corpus_sha256": ([{}, {"a": "b"}], [[], {"a": 3}]),
    "random": ([STATES], [{}, [], None]),
    "random_of_others": ([[], [STATES]], [[{}], {}, None]),
    "scaler": (
        [
            *({}, SCALER, scaler(scale=0.5), scaler(scale=9e29)),
            *(scaler(backoff_factor=0.0), scaler(growth_interval=(1 << 31) - 1)),
        ],
        [
            *([], None, {"scale": 2.0}, scaler(more=1)),
            *(scaler(scale=0.0), scaler(scale=1), scaler(scale=-1.0), scaler(scale=1e30)),
            *(scaler(growth_interval=1 << 31), scaler(growth_interval=3.0), scaler(growth_interval=-1)),
        ],
    ),
    "best": (
        [None, [0, 0.0], [5, -LARGEST]],
        [[], [1], [1, 2.0, 3], [1, 2.0, 3.0, 4.0], (1, 2.0), [1.0, 2.0], [1, 2], [1, math.inf], {"a": 1}],
    ),
    "recent": ([[], [math.nan, math.inf, LARGEST, -LARGEST]], [[3.5e38], [-3.5e38], [3], None, {}]),
    "validation": ([{"before": []}, {"before": [math.nan]}], [{}, [], {"before": [3]}, None]),
    "training": ([None, {"before": []}], [{}, [], {"before": None}]),
    "shape": (
        [
            *(shape(dropout=0), shape(dropout=0.99), shape(block_size=1 << 20), shape(n_head=8), shape(n_head=1)),
            *(shape(vocab_size=(1 << 31) - 1), shape(recipe="fast", without="rope")),
            {name: value for name, value in shape().items() if name != "without"},
        ],
        [
            *([], {}, None, shape(more=1), shape(bias=1), shape(bias=None)),
            *(shape(dropout=1), shape(dropout=-0.1), shape(dropout="0"), shape(dropout=True)),
            *(shape(activation="relu"), shape(activation=[]), shape(recipe="none")),
            *(shape(recipe="fast", without="none"), shape(recipe="fast", without="rope,muon"), shape(without=3)),
            *(shape(**{name: value}) for name in ("n_layer", "vocab_size") for value in SIZE),
            *(shape(n_embd=0), shape(block_size=0), shape(block_size=(1 << 20) + 1)),
            *(shape(n_head=0), shape(n_head=3), shape(n_head=1 << 31)),
        ],
    ),
}


@pytest.mark.parametrize("name", _FIELDS)
def test_each_field_up_to_its_bounds(name: str) -> None:
    right, wrong = BOUNDS[name]
    for value in right:
        assert wrong_field({**LEAST, name: value}) is None, value
    for value in wrong:
        assert wrong_field({**LEAST, name: value}) == name, value


@pytest.mark.parametrize("name", _FIELDS)
def test_only_later_fields_may_be_missing(name: str) -> None:
    state = {each: value for each, value in LEAST.items() if each != name}
    assert wrong_field(state) == (name if name in LEAST else None)


@pytest.mark.parametrize(
    ("knob", "right", "wrong"),
    [
        ("batch_size", 4, 0),
        ("batch_size", 1, "four"),
        ("learning_rate", 0.1, []),
        ("dtype", "float32", "int4"),
        ("memory", "activation,hidden", "activation,nothing"),
        ("memory_limit", "8GiB", "eight"),
        ("which", "best", "worst"),
        ("out_dir", "x", 3.5),
    ],
)
def test_each_knob_is_what_it_can_be(knob: str, right: Any, wrong: Any) -> None:
    assert wrong_field({**LEAST, "config": {knob: right}}) is None
    assert wrong_field({**LEAST, "config": {"nobody knows": 3, knob: wrong}}) == f"config.{knob}"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    trained(write_corpus(folder / "corpus"), folder / "out", n_layer=1, n_embd=8, max_iters=6)
    return folder / "out"


def places(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield (*at, name)
            yield from places(each, (*at, name))
    elif isinstance(value, list):
        for number, each in [*enumerate(value)][:FEW]:
            yield (*at, number)
            yield from places(each, (*at, number))


def put(state: dict[str, Any], at: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    changed: dict[str, Any] = dict(state)
    inner: Any = changed
    for name in at[:-1]:
        inner[name] = copy.copy(inner[name])
        inner = inner[name]
    if value is put:
        del inner[at[-1]]
    else:
        inner[at[-1]] = value
    return changed


def write(path: Path, state: dict[str, Any]) -> None:
    state.pop("checksum", None)
    path.write_text(json.dumps({**state, "checksum": checksum_of(state)}))


def test_every_value_of_a_state(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading and using it raises only our own errors; whatever passes the checks is really used."""
    source = sorted((run / "checkpoints").iterdir())[-1]
    directory = tmp_path / "out" / "checkpoints" / source.name
    shutil.copytree(source, directory)
    state = json.loads((source / "state.json").read_text())
    state["random_of_others"] = [state["random"]]
    state["scaler"] = dict.fromkeys(("scale", "growth_factor", "backoff_factor"), 1.5)
    state["scaler"] |= {"growth_interval": 3, "_growth_tracker": 0}
    write(directory / "state.json", state)
    verified(directory)
    passed = []
    for at in places(state):
        for value in (*HOSTILE, put):
            changed = put(state, at, value)
            if wrong_field(changed) is None:
                write(directory / "state.json", changed)
                with suppress(InputError):
                    read_state(directory)
                    passed.append((at, value))
    assert 100 < len(passed) < 500  # of some thousand
    for at, value in passed:
        if at[0] not in ("config", "versions", "written_by"):
            write(directory / "state.json", put(state, at, value))
            with suppress(InputError):
                saved = verified(directory)
                assert math.isfinite(saved.best[1] if saved.best else 0.0)
                assert 0 <= saved.windows < 1 << 63
    resumed = [(at, value) for at, value in passed if at[0] not in ("written_by", "versions", "nanopace")]
    assert len(resumed) > 50
    monkeypatch.chdir(tmp_path)
    for at, value in resumed[:: max(1, len(resumed) // 5)]:
        write(directory / "state.json", put(state, at, value))
        with suppress(NanopaceError):
            open_pretrained(tmp_path / "out").model()
            _resume(tmp_path / "out")


WRONG: dict[str, Any] = {
    "step": -1,
    "shape": {},
    "ingredients": [3],
    "config": [],
    "tokenizer": 3,
    "files": {"a": {"bytes": -1, "sha256": ""}},
    "corpus": 5,
    "corpus_sha256": {"train": 1},
    "windows": 1 << 62,
    "random": {},
    "random_of_others": [{}],
    "scaler": {
        "scale": 0.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 3, "_growth_tracker": 0,
    },
    "best": [1, math.nan],
    "recent": [1e300],
    "micro_batch": True,
    "memory_steps": "hidden",
    "card": 3,
    "versions": [],
    "data_offset": -1,
    "validation": {"before": 3},
    "training": {"before": [None]},
}  # fmt: skip


@pytest.mark.parametrize("name", _FIELDS)
def test_each_field_is_looked_at(run: Path, tmp_path: Path, name: str) -> None:
    source = sorted((run / "checkpoints").iterdir())[-1]
    directory = tmp_path / source.name
    directory.mkdir()
    state = json.loads((source / "state.json").read_text())
    write(directory / "state.json", {**state, name: WRONG[name]})
    with pytest.raises(InputError, match=f"its {name} is impossible"):
        read_state(directory)
    assert WRONG.keys() == _FIELDS.keys()


def _resume(out_dir: Path) -> None:
    resume(out_dir, save_interval=-1, device="cpu", compile=False, max_iters=7)


def test_a_step_that_its_directory_does_not_have(run: Path, tmp_path: Path) -> None:
    source = sorted((run / "checkpoints").iterdir())[-1]
    shutil.copytree(source, tmp_path / "checkpoints" / "step-00000099")
    with pytest.raises(InputError, match=r"step-00000099.*not the one in its directory's name"):
        verified(tmp_path / "checkpoints" / "step-00000099")
