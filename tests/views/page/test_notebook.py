"""What notebooks show: complete without scripts, small, and a log's contents stay plain text."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nanopace import Comparison, Diagnosis, Run, compare, diagnose, open_run
from nanopace.diagnosis.compare.compare import compare as compare_diagnoses
from nanopace.views.page.render import asset

from .seen import Seen

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
MOST = 80_000  # bytes: a notebook keeps every output


@pytest.fixture(scope="module")
def run() -> Run:
    return open_run(EXAMPLES / "wide.log", config=EXAMPLES / "wide.py", gpu="4070")


def shown(run: Run) -> list[Run | Diagnosis | Comparison]:
    return [run, diagnose(run), compare(run, run)]


def html_of(result: Run | Diagnosis | Comparison) -> str:
    return result._repr_html_()


def test_they_show_themselves(run: Run) -> None:
    of_run, of_diagnosis, of_comparison = (Seen(html_of(each)) for each in shown(run))
    for seen in (of_run, of_diagnosis, of_comparison):
        assert "wide.log" in seen.text
        assert len(seen.with_tag("svg")) == 2
        assert [tag for tag, _ in seen.tags[:2]] == ["div", "style"]
    assert "n_layer" in of_run.text
    assert "Try: " not in of_run.text  # a Run has no opinion
    assert "A normal step takes" in of_diagnosis.text
    assert "waiting" not in of_diagnosis.text
    assert "B" in of_comparison.text


def test_nothing_runs_and_nothing_is_loaded(run: Run) -> None:
    for each in shown(run):
        tags = Seen(html_of(each)).tags
        assert not {"script", "link", "iframe", "img", "object", "form", "a"} & {tag for tag, _ in tags}
        names = {name for _, attributes in tags for name in attributes}
        assert not [name for name in names if name.startswith("on") or name in ("src", "href")]
        assert "http" not in html_of(each)


def test_a_hostile_log_stays_text() -> None:
    name = '</style><script>alert(1)</script>"'
    log = "".join(f"iter {i}: loss 4.0, time {500 + i % 3}.00ms, mfu 12.00%\n" for i in range(30)).encode()
    file = io.BytesIO(log)
    file.name = f"/tmp/{name}" + "x" * 100_000
    run = open_run(file, set={"dataset": "<img src=x onerror=alert(1)>"})
    for each in shown(run):
        assert not {"script", "img"} & {tag for tag, _ in Seen(html_of(each)).tags}
        assert len(html_of(each)) < MOST


@pytest.mark.usefixtures("untraced")
def test_a_long_run_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    with path.open("w") as file:
        for i in range(60_000):
            if i % 50 == 0:
                file.write(f"step {i}: train loss {9 - i / 1e4:.4f}, val loss {9.1 - i / 1e4:.4f}\n")
            slow = 9000 if i % 50 == 0 else 3000 if i % 997 == 0 else 100 + i % 7
            file.write(f"iter {i}: loss {9 - i / 1e4:.4f}, time {slow}.00ms, mfu 12.00%\n")
    run = open_run(path)
    diagnosis = diagnose(run)
    for each in (run, diagnosis, compare_diagnoses(diagnosis, diagnosis)):  # `compare` would diagnose it twice more
        assert len(html_of(each)) < MOST


def test_a_run_without_figures() -> None:
    for each in shown(open_run(io.BytesIO(b"iter 0: loss nan, time 5.00ms, mfu -100.00%\n"))):
        assert Seen(html_of(each)).text


def test_it_has_the_colours_of_the_page_and_no_others(run: Run) -> None:
    for each in shown(run):
        html = html_of(each)
        known = {"shade", "share", "size", *re.findall(r"--([\w-]+): light-dark\(", html)}
        assert {"surface", "text", "training", "run-2"} <= known
        assert {*re.findall(r"var\(--([\w-]+)\)", html)} <= known
        assert not re.search(r"#[0-9a-f]{3,6}\b", html.replace(asset("palette.css"), ""))


def test_who_does_not_look_does_not_pay() -> None:
    code = (
        "import sys, io, nanopace;"
        f"nanopace.diagnose(nanopace.open_run({str(EXAMPLES / 'wide.log')!r}));"
        "print([name for name in ('jinja2', 'nanopace.views.page.notebook') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
