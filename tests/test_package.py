"""The wheel and the sdist: what is in them, and that they work in environments with only what they require.

Nothing is downloaded. The packages that the wheel's metadata requires are links to the ones installed here; pip then
installs the wheel without an index, and fails if anything is missing.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
LOG = ROOT / "examples" / "slow-rows.log"
# The rooms that may import more than the plain dependencies.
NEED_MORE = ("nanopace.train", "nanopace.live.web", "nanopace.integrations.")

pytestmark = pytest.mark.slow


class Environment:
    """A virtual environment with `nanopace[extra]` from the wheel."""

    def __init__(self, folder: Path, wheel: Path, extra: str = "") -> None:
        self.bin, self.home = folder / "bin", folder / "home"
        venv.create(folder, symlinks=True)
        self.home.mkdir()
        (packages,) = folder.glob("lib/python*/site-packages")
        for name in sorted(_asked_for(wheel, extra)):
            _link(importlib.metadata.distribution(name), packages)
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install", "--quiet", "--no-index"]
        subprocess.run([*pip, f"{wheel}[{extra}]" if extra else str(wheel)], check=True)

    def start(self, *command: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
        environment = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.home), "LC_ALL": "C.UTF-8"}
        return subprocess.Popen(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.home,
            env=environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )

    def run(self, *command: str, exits: int = 0) -> str:
        process = self.start(*command)
        out, error = process.communicate()
        assert process.returncode == exits, out + error
        return out if exits == 0 else error


def _asked_for(wheel: Path, extra: str) -> set[str]:
    """Every package that nanopace[extra] needs, directly or not, by the metadata of each."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        asked = re.findall(r"(?m)^Requires-Dist: (.+)$", archive.read(name).decode())
    found: set[str] = set()
    waiting = [(requirement, {extra}) for requirement in map(Requirement, asked)]
    seen = set()
    while waiting:
        requirement, extras = waiting.pop()
        if requirement.marker and not any(requirement.marker.evaluate({"extra": each}) for each in extras | {""}):
            continue
        if (key := (requirement.name, frozenset(requirement.extras))) in seen:
            continue
        seen.add(key)
        found.add(requirement.name)
        further = importlib.metadata.requires(requirement.name) or []
        waiting += [(each, set(requirement.extras)) for each in map(Requirement, further)]
    return found


def _link(distribution: importlib.metadata.Distribution, packages: Path) -> None:
    for name in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
        if not (packages / name).exists():
            (packages / name).symlink_to(distribution.locate_file(name))


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the sdist, and of the wheel that was built from it."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return out


@pytest.fixture(scope="session")
def wheel(built: Path) -> Path:
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def sdist(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked sdist."""
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python 3.11 has it since 3.11.4
        archive.extractall(folder := tmp_path_factory.mktemp("sdist"), **safely)  # type: ignore[arg-type]
    (unpacked,) = folder.iterdir()
    return unpacked


@pytest.fixture(scope="session")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Environment]:
    made: dict[str, Environment] = {}

    def make(extra: str = "") -> Environment:
        if extra not in made:
            made[extra] = Environment(tmp_path_factory.mktemp(extra or "analyst"), wheel, extra)
        return made[extra]

    return make


@pytest.fixture
def analyst(environment: Callable[[str], Environment]) -> Environment:
    return environment("")


def _tracked() -> set[str]:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {name for name in listed.split("\0") if name and (ROOT / name).exists()}


# --- what is in them -------------------------------------------------------------------------------------------------


def test_the_wheel_has_the_package_and_no_sources_of_translations(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
        metadata = {name.partition(".dist-info/")[2] for name in archive.namelist() if ".dist-info/" in name}
    package = {name.removeprefix("src/") for name in _tracked() if name.startswith("src/")}
    assert found == {name for name in package if not name.endswith((".po", ".pot"))}
    assert {f"nanopace/wording/locale/{language}/LC_MESSAGES/nanopace.mo" for language in ("de", "es", "fr")} <= found
    assert {name for name in metadata if name.startswith("licenses/")} == {
        "licenses/LICENSE",
        "licenses/src/nanopace/corpus/tokenizers/assets/LICENSE.gpt2",
        "licenses/src/nanopace/views/page/assets/LICENSE.uplot",
    }


def test_the_sdist_has_everything_that_git_has(sdist: Path) -> None:
    found = {path.relative_to(sdist).as_posix() for path in sdist.rglob("*") if path.is_file()}
    assert found == {*_tracked(), "PKG-INFO"}


def test_the_sdist_can_run_its_tests(sdist: Path) -> None:
    tests = ["tests/test_golden.py", "tests/test_cases.py", "tests/docs/test_links.py", "tests/wording/test_catalog.py"]
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=sdist, env={"PYTHONPATH": "src"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


# --- the analyst alone -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["--version"],
        ["explain", str(LOG), "--gpu", "4070"],
        ["explain", str(LOG), "--lang", "de"],
        ["explain", str(LOG), "--json"],
        ["compare", str(LOG.with_name("narrow.log")), str(LOG.with_name("wide.log"))],
        ["recommend", "--gpu", "4070", "--model", "gpt2"],
        ["cards"],
        ["completion", "bash"],
    ],
    ids=" ".join,
)
def test_the_analyst_answers_as_the_checkout_does(analyst: Environment, command: list[str]) -> None:
    here = [sys.executable, "-m", "nanopace", *command]
    environment = {"PYTHONPATH": str(ROOT / "src"), "LC_ALL": "C.UTF-8", "HOME": str(analyst.home)}
    expected = subprocess.run(here, cwd=analyst.home, env=environment, check=True, capture_output=True, text=True)
    assert expected.stdout
    assert analyst.run("nanopace", *command) == expected.stdout


def test_the_analyst_writes_a_page(analyst: Environment) -> None:
    analyst.run("nanopace", "explain", str(LOG), "--html", "report.html")
    page = (analyst.home / "report.html").read_text(encoding="utf-8")
    assert "uPlot" in page
    assert "slow-rows.log" in page


def test_the_analyst_imports_nothing_undeclared(analyst: Environment) -> None:
    """Each of its modules can be imported, and `python -m nanopace` works."""
    program = f"""
import importlib, pkgutil, nanopace
for module in pkgutil.walk_packages(nanopace.__path__, "nanopace.", onerror=lambda name: None):
    if not module.name.startswith({NEED_MORE!r}) and not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(nanopace.__file__)
"""
    assert Path(analyst.run("python", "-c", program).strip()).is_relative_to(analyst.bin.parent)
    assert analyst.run("python", "-m", "nanopace", "--version") == analyst.run("nanopace", "--version")


@pytest.mark.parametrize(
    ("command", "extra"),
    [(["train"], "train"), (["sample"], "train"), (["explain", str(LOG), "--pattern", "(?P<ms>.)"], "pattern")],
    ids=["train", "sample", "--pattern"],
)
def test_a_missing_extra_is_one_line(analyst: Environment, command: list[str], extra: str) -> None:
    error = analyst.run("nanopace", *command, exits=2)
    assert error.count("\n") == 1
    assert f"pip install 'nanopace[{extra}]'" in error


# --- [train] and [live] ----------------------------------------------------------------------------------------------


def test_train_trains(environment: Callable[[str], Environment]) -> None:
    train = environment("train")
    data = train.home / "data" / "tiny"
    data.mkdir(parents=True)
    for name in ("train.bin", "val.bin"):
        (np.arange(4000) % 50).astype(np.uint16).tofile(data / name)
    flags = "--dataset=tiny --n_layer=1 --n_head=2 --n_embd=16 --block_size=16 --batch_size=4 --compile=False"
    schedule = "--gradient_accumulation_steps=1 --max_iters=4 --eval_interval=4 --eval_iters=1 --device=cpu"
    train.run("nanopace", "train", *flags.split(), *schedule.split())
    source = json.loads(train.run("nanopace", "explain", "out", "--json"))["source"]
    assert source["format"] == "ledger"
    assert source["last_iteration"] == 4


def test_live_serves_its_page(environment: Callable[[str], Environment]) -> None:
    command = ["nanopace", "watch", str(LOG), "--web", "--port", "0"]
    process = environment("live").start(*command, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    try:
        found = (re.search(r"http://127\.0\.0\.1:\d+\S*", line) for line in process.stdout)
        address = next(each[0] for each in found if each)
        with urllib.request.urlopen(address, timeout=10) as answer:
            assert b"<title>" in answer.read()
    finally:
        process.terminate()
        process.communicate()


def test_without_live_the_page_is_one_line(analyst: Environment) -> None:
    error = analyst.run("nanopace", "watch", str(LOG), "--web", "--port", "0", exits=2)
    assert error.count("\n") == 1
    assert "pip install 'nanopace[live]'" in error
