"""A format whose files are one document: recognised by its opening, and read in one piece."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from nanopace.errors import NotALog
from nanopace.run import Row
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats import registry
from nanopace.sources.log_format import LogFormat
from nanopace.sources.runs import open_runs

FORMAT = LogFormat(
    name="notebook",
    trainer="notebook",
    reader=f"{__name__}:NotebookReader",
    opening=r'\A\s{0,99}\{\s{0,99}"notebook_version"',
)


class NotebookReader:
    """Every document is {"notebook_version": 1, "steps": [[iteration, ms or null, loss], ...]}."""

    def __init__(self, builder: RunBuilder) -> None:
        self._builder = builder

    def read(self, chunks: Iterable[bytes]) -> None:
        try:
            steps = json.loads(b"".join(chunks))["steps"]
        except (ValueError, KeyError) as error:
            raise NotALog("{path}: no notebook: {why}", path=self._builder.name, why=str(error)) from error
        for iteration, ms, loss in steps:
            if ms is None:
                self._builder.untimed_row(iteration, loss)
            else:
                self._builder.row(Row(iteration, ms, loss))


@pytest.fixture(autouse=True)
def notebooks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry._known, FORMAT.name, FORMAT)
        yield


def written(folder: Path, *steps: tuple[int, float | None, float], pad: int = 0, before: str = "") -> Path:
    document = {"notebook_version": 1, "note": "iter 0: loss 3.0000, time 1.00ms\n" * pad, "steps": steps}
    path = folder / "run.json"
    path.write_text(before + json.dumps(document), encoding="utf-8")
    return path


def test_all_of_the_document_is_read_though_lines_of_another_format_are_in_it(tmp_path: Path) -> None:
    steps = [(at, 10.0 + at, 3.0) for at in range(40)]
    (run,) = open_runs(written(tmp_path, *steps, pad=600_000, before=" \n"))  # of 20 MB
    assert (run.format, run.name) == ("notebook", "run.json")
    assert list(run.rows.ms) == [10.0 + at for at in range(40)]


def test_one_without_times(tmp_path: Path) -> None:
    (run,) = open_runs(written(tmp_path, (1, None, 3.0), (2, None, 2.5)))
    assert (len(run.rows), list(run.untimed_rows.loss)) == (0, [3.0, 2.5])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"notebook_version": 1, "steps": [', "no notebook: Expecting value"),
        ('{"notebook_version": 1}', "no notebook: 'steps'"),
        ('{"notebook_version": 1, "steps": []}', "the start of a training log"),
        ('[{"notebook_version": 1}]', "contains text but no training log"),  # not its opening
    ],
)
def test_what_is_wrong_with_it_is_said(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(NotALog) as refused:
        open_runs(path)
    assert why in str(refused.value)
