"""A state.json with a right checksum, and one hostile value in it, at every place there is."""

from __future__ import annotations

import copy
import json
import math
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from nanopace.config import Asked
from nanopace.errors import InputError, NanopaceError
from nanopace.train.checkpoint.layout import checksum_of, read_state, verified
from nanopace.train.checkpoint.state_checks import _FIELDS, wrong_field
from nanopace.train.formats.convert import open_pretrained
from nanopace.train.run import train

from ..conftest import TINY, Recorder, write_corpus

HOSTILE: tuple[Any, ...] = (None, True, -1, 10**400, 1 << 62, math.nan, 1e308, "x", "\ud800\0", [[]], {"a": {}})
FEW = 2  # of a long list, as many are replaced


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    corpus = write_corpus(folder / "corpus")
    knobs = {**TINY, "n_layer": 1, "n_embd": 8, "max_iters": 6, "dataset": str(corpus), "out_dir": str(folder / "out")}
    train(Asked(given=knobs, files=("config.py",)), listener=Recorder())
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
    """Only our own errors come out of reading it and of all that is asked of it; what passes is used for real."""
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
    with pytest.raises(InputError, match=f"{name} cannot be"):
        read_state(directory)
    assert WRONG.keys() == _FIELDS.keys()


def _resume(out_dir: Path) -> None:
    given = {"init_from": "resume", "out_dir": str(out_dir), "save_interval": -1, "device": "cpu", "compile": False}
    given |= {"max_iters": 7}
    train(Asked(given=given), listener=Recorder())


def test_a_step_that_its_directory_does_not_have(run: Path, tmp_path: Path) -> None:
    source = sorted((run / "checkpoints").iterdir())[-1]
    shutil.copytree(source, tmp_path / "checkpoints" / "step-00000099")
    with pytest.raises(InputError, match=r"step-00000099.*not the one in its directory's name"):
        verified(tmp_path / "checkpoints" / "step-00000099")
