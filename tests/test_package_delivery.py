"""The workflows, the issue forms and the Dockerfiles: nothing here runs them, so they are at least parsed."""

from __future__ import annotations

import fnmatch
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
DOCKERFILES = sorted(ROOT.glob("Dockerfile*"))


def read(path: Path) -> dict[Any, Any]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


# --- GitHub ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_do_little_and_uses_pinned_versions(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        if "uses" in job:
            assert (ROOT / job["uses"]).is_file()
            continue
        assert job["steps"]
        for step in job["steps"]:
            assert len({"run", "uses"} & step.keys()) == 1
            if "uses" in step:
                assert re.fullmatch(r"actions/[\w-]+@v\d+|pypa/gh-action-pypi-publish@release/v1", step["uses"])
            else:
                assert "${{" not in step["run"]  # text from outside stays out of the shell


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_what_a_workflow_runs_is_there(path: Path) -> None:
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))
    commands = [step["run"] for job in read(path)["jobs"].values() for step in job.get("steps", ()) if "run" in step]
    for program, argument in (command.split()[:2] if " " in command else (command, "") for command in commands):
        match program:
            case "make":
                assert argument in targets
            case "python":
                assert (ROOT / argument).is_file()
            case "gh":
                assert argument == "release"
            case _:
                assert (ROOT / program).is_file()


def test_only_what_was_tested_is_published() -> None:
    jobs = read(GITHUB / "workflows" / "release.yml")["jobs"]
    assert set(jobs["publish"]["needs"]) == {"test", "build"}
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["announce"]["needs"] == "publish"
    assert "workflow_call" in read(ROOT / jobs["test"]["uses"])[True]  # YAML reads `on` as true


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_a_form_has_what_github_asks_for(path: Path) -> None:
    form = read(path)
    assert form["name"]
    assert form["description"]
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert all(field["type"] in {"input", "textarea", "checkboxes"} for field in fields)
    assert all(isinstance(field["id"], str) and field["attributes"]["label"] for field in fields)
    assert len({field["id"] for field in fields}) == len(fields)


def test_a_wrong_explanation_comes_with_its_evidence() -> None:
    body = read(GITHUB / "ISSUE_TEMPLATE" / "wrong-explanation.yml")["body"]
    required = {field["id"] for field in body if field.get("validations", {}).get("required")}
    assert required == {"log", "command", "said", "truth", "version"}


# --- Docker ----------------------------------------------------------------------------------------------------------


def instructions(path: Path) -> list[tuple[str, str]]:
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines())]


def copied(path: Path) -> list[tuple[str, str]]:
    """Source and target of everything that is copied from the checkout."""
    copies = [rest.split() for word, rest in instructions(path) if word == "COPY"]
    return [(source, target) for *sources, target in copies for source in sources]


def ignored(name: str) -> bool:
    """Whether .dockerignore excludes it: the last matching line decides."""
    last = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if line and not line.startswith("#") and fnmatch.fnmatch(name, line.removeprefix("!")):
            last = not line.startswith("!")
    return last


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_a_dockerfile_copies_what_exists_and_runs_as_a_user(path: Path) -> None:
    found = instructions(path)
    known = {"FROM", "ARG", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT", "CMD"}
    assert {word for word, _ in found} <= known
    assert found[0][0] == "FROM"
    for source, _ in copied(path):
        assert (ROOT / source).exists()
        assert not ignored(source)
    final = found[max(at for at, (word, _) in enumerate(found) if word == "FROM") :]
    user = final.index(("USER", "nanopace"))
    assert "RUN" not in {word for word, _ in final[user:]}
    assert final[user:][1:] == [("WORKDIR", "/work"), ("ENTRYPOINT", '["nanopace"]'), ("CMD", '["--help"]')]


@pytest.mark.slow
@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_what_a_dockerfile_copies_is_enough_to_build(path: Path, tmp_path: Path) -> None:
    for source, target in copied(path):
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, tmp_path / target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (tmp_path / target).mkdir(exist_ok=True)
            shutil.copy(ROOT / source, tmp_path / target)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    (versions,) = (rest for word, rest in instructions(path) if word == "RUN" and rest.startswith("sed "))
    subprocess.run(versions.partition(" && ")[0], shell=True, cwd=tmp_path, check=True)
    lines = (tmp_path / "versions.txt").read_text().splitlines()
    assert len(lines) > 50
    assert all(re.fullmatch(r"[\w.-]+==[\w.!+]+", line) for line in lines)
