"""Reads the files of a Hugging Face directory, whatever model is in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nanopace.errors import InputError, unreadable
from nanopace.files import open_regular, read_object
from nanopace.train.formats.torch_file import read_torch_file

CONFIG = "config.json"
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")

_LARGEST_JSON = 16 << 20  # bytes: an index of a hundred thousand weights takes half of that


def read_json(path: Path) -> dict[str, object]:
    content = read_object(path, _LARGEST_JSON)
    if content is None:
        raise InputError("{path}: is not JSON that describes anything", path=path)
    return content


def read_weights(directory: Path) -> Iterator[tuple[str, object]]:
    """Weights by name, from one file or those an index lists; safetensors are preferred to pickles."""
    found = next((name for name in WEIGHTS if (directory / name).exists()), None)
    if found is None:
        raise InputError(
            "{path}: has no weights: neither {first} nor {second}", path=directory, first=WEIGHTS[0], second=WEIGHTS[2]
        )
    files = [found]
    if found.endswith(".index.json"):
        listed = read_json(directory / found).get("weight_map")
        files = sorted({str(name) for name in listed.values()}) if isinstance(listed, dict) else []
        if not files or any(Path(name).name != name for name in files):  # no path out of the directory
            raise InputError("{path}: lists no weights of this directory", path=directory / found)
    for name in files:
        read = read_safetensors if name.endswith(".safetensors") else _pickled
        yield from read(directory / name)


def read_safetensors(path: Path) -> Iterator[tuple[str, object]]:
    from safetensors import SafetensorError, safe_open

    try:
        open_regular(path).close()
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - it is not a dict
                yield name, file.get_tensor(name)
    except OSError as error:
        raise unreadable(path, error) from None
    except (SafetensorError, RuntimeError, ValueError, KeyError, AttributeError, TypeError):  # or a type torch lacks
        raise InputError("{path}: is not a safetensors file, or is damaged", path=path) from None


def _pickled(path: Path) -> Iterator[tuple[str, object]]:
    content = read_torch_file(path)
    if not isinstance(content, dict):
        raise InputError("{path}: is not a table of weights", path=path)
    yield from ((str(name), each) for name, each in content.items())
