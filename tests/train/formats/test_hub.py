"""GPT-2 by name, on a machine that has it and on one that does not. The hub itself is a stand-in."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanopace.errors import NanopaceError
from nanopace.train.formats.convert import open_pretrained
from nanopace.train.formats.hub import find_model, is_of_the_hub
from nanopace.train.formats.huggingface import save_huggingface
from nanopace.train.plan.origin import find_pretrained

from ..conftest import Recorder
from ..tiny import same_weights, tiny_weights

ENVIRONMENT = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME")
COMMAND = "hf download openai-community/gpt2-xl config.json model.safetensors vocab.json merges.txt --local-dir gpt2-xl"


@pytest.fixture(autouse=True)
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory, and an empty home."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def cached(cache: Path, folder: str = "models--openai-community--gpt2-xl", commit: str = "a" * 40) -> Path:
    """A model in huggingface_hub's cache: the files are blobs, and a snapshot links to them."""
    repository = cache / folder
    snapshot = repository / "snapshots" / commit
    save_huggingface(repository / "blobs", tiny_weights())
    snapshot.mkdir(parents=True)
    for blob in (repository / "blobs").iterdir():
        blob.rename(blob.with_name(f"hash-of-{blob.name}"))
        (snapshot / blob.name).symlink_to(Path("..", "..", "blobs", f"hash-of-{blob.name}"))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    return snapshot


def refused(name: str, download: bool = False) -> str:
    with pytest.raises(NanopaceError) as caught:
        find_model(name, download)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("folder", ["models--openai-community--gpt2-xl", "models--gpt2-xl"])
@pytest.mark.parametrize("name", ["gpt2-xl", "openai-community/gpt2-xl"])
def test_in_the_cache_through_its_links(room: Path, name: str, folder: str) -> None:
    snapshot = cached(room / "home" / ".cache" / "huggingface" / "hub", folder)
    assert find_model(name) == snapshot
    assert same_weights(find_pretrained(name, "", Recorder()), tiny_weights())
    assert "gpt2-large: is neither" in refused("gpt2-large")


@pytest.mark.parametrize(
    ("variables", "cache"),
    [
        ({"HF_HOME": "{}/hf"}, "hf/hub"),
        ({"HF_HUB_CACHE": "{}/direct", "HF_HOME": "{}/hf"}, "direct"),
        ({"HUGGINGFACE_HUB_CACHE": "{}/old"}, "old"),
        ({"XDG_CACHE_HOME": "{}/xdg"}, "xdg/huggingface/hub"),
        ({"HF_HOME": "~/hf"}, "home/hf/hub"),
        ({"HF_HOME": ""}, "home/.cache/huggingface/hub"),
    ],
    ids=str,
)
def test_the_cache_is_where_the_environment_says(
    room: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], cache: str
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value.format(room))
    snapshot = cached(room / cache)
    assert find_model("gpt2-xl") == snapshot


def test_a_directory_of_that_name_comes_first(room: Path) -> None:
    cached(room / "home" / ".cache" / "huggingface" / "hub")
    Path("gpt2-xl").mkdir()
    assert find_model("gpt2-xl").name == "a" * 40  # there is no model in it
    Path("gpt2-xl").rmdir()
    save_huggingface(Path("gpt2-xl"), tiny_weights())
    assert find_model("gpt2-xl") == Path("gpt2-xl")
    assert find_model("openai-community/gpt2-xl") == Path("gpt2-xl")


def test_main_comes_first_and_what_is_not_whole_never(room: Path) -> None:
    cache = room / "home" / ".cache" / "huggingface" / "hub"
    whole = cached(cache)
    repository = whole.parent.parent
    shutil.copytree(whole, repository / "snapshots" / ("b" * 40), symlinks=True)
    assert find_model("gpt2-xl") == whole
    (repository / "refs" / "main").write_text("b" * 40 + "\n")
    assert find_model("gpt2-xl").name == "b" * 40
    (repository / "snapshots" / ("b" * 40) / "model.safetensors").unlink()
    assert find_model("gpt2-xl") == whole
    for broken in ("../../../elsewhere", "\0", "x" * 500):
        (repository / "refs" / "main").write_text(broken)
        assert find_model("gpt2-xl") == whole
    (repository / "blobs" / "hash-of-model.safetensors").unlink()  # a download that was broken off
    assert "is neither in ./gpt2-xl nor in the Hugging Face cache" in refused("gpt2-xl")


def test_the_command_that_fetches_it_is_said() -> None:
    said = refused("gpt2-xl")
    assert said.startswith("--init_from=gpt2-xl: ")
    assert "--download" in said
    assert said.endswith(COMMAND)
    assert refused("openai-community/gpt2-xl").endswith(COMMAND)


def test_other_names_are_paths(room: Path) -> None:
    assert "no such file or directory" in refused("gpt2-huge")
    assert "no such file or directory" in refused("somebody/gpt2")
    assert find_model(str(room)) == room
    Path("gpt2").mkdir()
    assert find_model("./gpt2") == Path("gpt2")
    assert is_of_the_hub("gpt2")
    assert not any(map(is_of_the_hub, ("./gpt2", "gpt2-xxl", "scratch", "openai/gpt2")))


# --- downloads -------------------------------------------------------------------------------------------------------

STAND_IN = """
import json, shutil
from pathlib import Path

def snapshot_download(repo_id, *, allow_patterns, cache_dir):
    Path("asked.json").write_text(json.dumps([repo_id, allow_patterns, cache_dir]))
    {does}
    snapshot = Path(cache_dir, "models--" + repo_id.replace("/", "--"), "snapshots", "c" * 40)
    shutil.copytree("model", snapshot)
    return str(snapshot)
"""


@pytest.fixture
def hub(room: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A stand-in for huggingface_hub. The code in `does` runs before the files arrive."""
    there = sys.modules.pop("huggingface_hub", None)
    (room / "modules").mkdir()
    monkeypatch.syspath_prepend(str(room / "modules"))
    path = room / "modules" / "huggingface_hub.py"
    path.write_text(STAND_IN.format(does="pass"))
    save_huggingface(Path("model"), tiny_weights())
    yield path
    sys.modules.pop("huggingface_hub", None)
    if there is not None:
        sys.modules["huggingface_hub"] = there


@pytest.mark.usefixtures("hub")
def test_a_download_goes_into_the_cache_and_is_found_there(room: Path) -> None:
    found = find_model("gpt2-xl", download=True)
    assert found.is_relative_to(room / "home" / ".cache" / "huggingface" / "hub")
    assert same_weights(open_pretrained(found), tiny_weights())
    repository, files, _ = json.loads(Path("asked.json").read_text())
    assert repository == "openai-community/gpt2-xl"
    assert files == ["config.json", "model.safetensors", "vocab.json", "merges.txt"]
    Path("asked.json").unlink()
    assert find_model("gpt2-xl") == found
    assert find_model("gpt2-xl", download=True) == found
    assert not Path("asked.json").exists()  # what is here is not fetched again


def test_nothing_is_asked_of_the_hub_without_consent(hub: Path) -> None:
    hub.write_text("raise AssertionError('imported')")
    refused("gpt2-xl")


@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ("raise OSError(28, 'No space left on device')", "No space left on device"),
        ("raise RuntimeError('no network\\n\\nCheck your connection.')", "no network"),
        ("raise KeyError", "KeyError"),
        ("raise ValueError('x' * 5000)", "xxx"),
    ],
)
def test_what_the_hub_says_is_one_line(hub: Path, does: str, reason: str) -> None:
    hub.write_text(STAND_IN.format(does=does))
    said = refused("gpt2", download=True)
    assert said.startswith("openai-community/gpt2: cannot be downloaded: ")
    assert reason in said
    assert len(said) < 300


@pytest.mark.usefixtures("hub")
def test_a_download_without_weights() -> None:
    Path("model", "model.safetensors").unlink()
    assert "was downloaded, but model.safetensors is not in it" in refused("gpt2", download=True)


def test_without_the_library_it_is_said_how_to_get_it(hub: Path) -> None:
    hub.write_text("raise ModuleNotFoundError(name='huggingface_hub')")
    assert refused("gpt2", download=True) == "--download needs huggingface_hub: pip install huggingface_hub"
