"""The package's metadata, in pyproject.toml and elsewhere, and whether it agrees."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

import nanopace

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REPOSITORY: str = PROJECT["urls"]["Repository"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
# Modules that come with a package of another name. _typeshed is only for the type checker, and callbacks for other
# trainers are imported only where those are installed.
COMES_WITH = {"markupsafe": "jinja2", "re2": "google-re2", "triton": "torch", "huggingface_hub": "tokenizers"}
NOT_OURS_TO_ASK = {"_typeshed", "lightning", "pytorch_lightning", "transformers"}


def tool(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- the README on the package index ---------------------------------------------------------------------------------


class Addresses(HTMLParser):
    """A page's links, images and anchors."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page)

    def handle_starttag(self, _: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attributes if name in ("href", "src") and value]
        self.anchors |= {f"#{value}" for name, value in attributes if name == "id"}


def test_every_link_and_image_of_the_readme_works_on_the_index() -> None:
    markdown = pytest.importorskip("readme_renderer.markdown")
    pytest.importorskip("comrak")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    page = Addresses(markdown.render(tool("long_description").with_absolute_links(readme, REPOSITORY, "v1.2.3")))
    relative = [each for each in page.found if not each.startswith("https://") and each not in page.anchors]
    assert relative == []
    ours = re.findall(rf"{REPOSITORY}/(?:raw|blob)/v1\.2\.3/([^#\s]+)", "\n".join(page.found))
    assert len(ours) > 5
    assert [path for path in ours if not (ROOT / path).exists()] == []


def test_code_stays_as_it_is_and_images_are_files() -> None:
    text = """[a](docs/a.md#b) [b](https://x/y) [c](#c) ![d](./d.PNG) [![e](e.svg)](f)
<picture><source srcset="g.png"><img src='h.png'></picture> <a href="i.md">i</a> `[j](k)` [`l`](m.md)
```
[n](o.md)
```
"""
    expected = """[a](R/blob/v1/docs/a.md#b) [b](https://x/y) [c](#c) ![d](R/raw/v1/d.PNG) [![e](R/raw/v1/e.svg)](R/blob/v1/f)
<picture><source srcset="R/raw/v1/g.png"><img src='R/raw/v1/h.png'></picture> <a href="R/blob/v1/i.md">i</a> `[j](k)` [`l`](R/blob/v1/m.md)
```
[n](o.md)
```
"""  # noqa: E501
    pytest.importorskip("hatchling")
    assert tool("long_description").with_absolute_links(text, "R", "v1") == expected


# --- the address, the versions ---------------------------------------------------------------------------------------


def texts() -> Iterator[tuple[str, str]]:
    folders = [ROOT / name for name in (".github", "docs", "src", "tools")]
    for path in [*ROOT.iterdir(), *(path for folder in folders for path in folder.rglob("*"))]:
        if path.suffix in {".py", ".md", ".toml", ".cff", ".yml", ".yaml", ".html", ".js"} and path.is_file():
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def test_the_repository_has_one_address() -> None:
    own = re.compile(r"https?://(?:www\.)?github\.com/[\w.-]+/nanopace\b|https?://[\w.-]+/nanopace/nanopace\b")
    found = {(name, address) for name, text in texts() for address in own.findall(text)}
    assert {address for _, address in found} == {REPOSITORY}, sorted(found)
    assert all(address.startswith(REPOSITORY) for address in PROJECT["urls"].values())
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["repository-code"] == REPOSITORY
    assert citation["abstract"] == PROJECT["description"]
    assert citation["license"] == PROJECT["license"]
    assert [author["name"] for author in citation["authors"]] == [author["name"] for author in PROJECT["authors"]]


def test_the_pythons_that_are_promised_are_tested() -> None:
    prefix = "Programming Language :: Python :: 3."
    promised = [name.removeprefix(prefix) for name in PROJECT["classifiers"] if re.match(rf"{prefix}\d", name)]
    assert promised == ["11", "12", "13", "14"]
    assert PROJECT["requires-python"] == f">=3.{promised[0]}"
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    assert jobs["analyst"]["strategy"]["matrix"]["python"] == [f"3.{minor}" for minor in promised]


# --- the changelog ---------------------------------------------------------------------------------------------------


def test_the_changelog_has_sections_by_version_newest_first() -> None:
    headings = re.findall(r"(?m)^## (.+)$", CHANGELOG)
    assert headings[0] == "[Unreleased]"
    released = [re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - (\d{4}-\d\d-\d\d)", heading) for heading in headings[1:]]
    versions = [(tuple(map(int, each.groups()[:3])), each[4]) for each in released if each]
    assert len(versions) == len(headings) - 1
    assert versions == sorted(versions, reverse=True)
    kinds = set(re.findall(r"(?m)^### (.+)$", CHANGELOG))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    (newest, _), version = versions[0], nanopace.__version__
    if version.endswith(".dev0"):
        assert tuple(map(int, version.removesuffix(".dev0").split("."))) > newest
    else:
        assert tuple(map(int, version.split("."))) == newest


def test_the_notes_of_a_release_are_its_section() -> None:
    notes = tool("release_notes")
    text = "# C\n\n## [Unreleased]\n\n## [0.2.0] - 2026-01-02\n\n- b\n\n## [0.1.0] - 2026-01-01\n\n### Added\n\n- a\n"
    assert notes.notes(text, "0.2.0") == "- b\n"
    assert notes.notes(text, "0.1.0") == "### Added\n\n- a\n"
    with pytest.raises(SystemExit, match=r"CHANGELOG.md has no dated section for 0\.3\.0"):
        notes.notes(text, "0.3.0")
    with pytest.raises(SystemExit, match=r"^v9\.9\.9: src/nanopace/version\.py has "):
        notes.main("v9.9.9")


# --- the dependencies ------------------------------------------------------------------------------------------------


def test_everything_imported_is_declared() -> None:
    """Including late imports inside a function."""
    extras = [each for name, each in PROJECT["optional-dependencies"].items() if name != "dev"]
    declared = {Requirement(each).name for each in sum(extras, PROJECT["dependencies"])}
    imported: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.partition(".")[0])
    foreign = imported - set(sys.stdlib_module_names) - NOT_OURS_TO_ASK - {"nanopace"}
    assert {"torch", "jinja2"} <= foreign
    assert {COMES_WITH.get(name, name) for name in foreign} <= declared
