from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from nanopace.errors import InputError, NotALog
from nanopace.run import Run
from nanopace.sources.notebook import CELL
from nanopace.sources.opening import open_log
from nanopace.sources.runs import open_runs
from nanopace.sources.text import CHUNK

from .reading import read


def rows(first: int = 0, last: int = 4) -> str:
    return "".join(f"iter {at}: loss 2.0000, time 100.00ms, mfu 30.00%\n" for at in range(first, last + 1))


def stream(text: str | list[str], name: str = "stdout") -> dict[str, Any]:
    return {"name": name, "output_type": "stream", "text": text}


def error(name: str) -> dict[str, Any]:
    return {
        "output_type": "error",
        "ename": name,
        "evalue": "",
        "traceback": [
            f"\x1b[0;31m{name}\x1b[0m    Traceback (most recent call last)",
            f"\x1b[0;31m{name}\x1b[0m: it failed",
        ],
    }


def cell(*outputs: object) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": 1, "metadata": {}, "outputs": [*outputs], "source": ["train()\n"]}


def notebook(*cells: object, **more: object) -> bytes:
    prose = {"cell_type": "markdown", "metadata": {}, "source": ["`iter 9: loss 1.0, time 9.00ms`"]}
    return json.dumps({"cells": [prose, *cells], "metadata": {}, "nbformat": 4, **more}, indent=1).encode()


def printed(data: bytes) -> str:
    with open_log(io.BytesIO(data)) as log:
        return b"".join(log.chunks).decode()


def iterations(runs: list[Run]) -> list[list[int]]:
    return [[*run.rows.iteration] for run in runs]


def test_a_cell_is_a_log() -> None:
    coloured = rows().replace("iter ", "iter \x1b[1;36m").replace(":", "\x1b[0m:", 1)
    header = "tokens per iteration will be: 32,768\n"
    (run,) = read(notebook(cell(stream([header, *coloured.splitlines(keepends=True)]))))
    assert iterations([run]) == [[0, 1, 2, 3, 4]]
    assert run.facts["tokens_per_iteration"].value == 32_768


def test_whatever_its_keys_come_in_and_however_it_is_packed(tmp_path: Path) -> None:
    of_colab = {"nbformat": 4, "nbformat_minor": 0, "metadata": {}, "cells": [cell(stream(rows()))]}
    output = {"output_type": "stream", "stream": "stdout", "text": [rows()]}
    shown = {"output_type": "pyout", "prompt_number": 1, "text": [rows()]}
    of_2013 = {"metadata": {"name": ""}, "nbformat": 3, "worksheets": [{"cells": [{"outputs": [output]}]}]}
    also = {"metadata": {"name": ""}, "nbformat": 3, "worksheets": [{"cells": [{"outputs": [shown]}]}]}
    for each in (of_colab, of_2013, also):
        data = json.dumps(each).encode()
        path = tmp_path / "run.ipynb"
        for kept in (data, b"\xef\xbb\xbf\n" + data, gzip.compress(data)):
            path.write_bytes(kept)
            assert iterations(open_runs(path)) == [[0, 1, 2, 3, 4]]
            assert iterations(read(kept)) == [[0, 1, 2, 3, 4]]


def test_what_each_output_shows_as_text() -> None:
    data = notebook(
        cell(stream("epoch 1\repoch 2\r"), stream("warning", "stderr"), stream("s\n")),
        cell({"output_type": "display_data", "data": {"text/html": ["<b>"], "text/plain": ["a ", "table"]}}),
        cell({"output_type": "display_data", "data": {"image/png": "iVBO"}}, error("ValueError")),
    )
    assert printed(data).replace("\n\n", "\n").splitlines() == [
        *("In [ ]:", "epoch 1", "epoch 2", "warnings"),
        *("In [ ]:", "a table"),
        *("In [ ]:", "", *error("ValueError")["traceback"]),
    ]


def html(text: str, plain: str = "<IPython.core.display.HTML object>") -> dict[str, Any]:
    return {"output_type": "display_data", "data": {"text/html": text, "text/plain": [plain]}}


def test_a_table_that_is_shown_in_html_alone() -> None:
    table = """
    <div>
      <progress value='2' max='4' style='width:300px;'></progress>
      [2/4 00:05 &lt; 00:05, 0.4 it/s, Epoch 1/2]
    </div>
    <table border="1" class="dataframe">
  <thead>
 <tr style="text-align: left;">
      <th>Step</th>
      <th>Training Loss</th>
    </tr>
  </thead>
  <tbody>
    <tr>
      <td>1</td>
      <td><b>2.5</b> &amp; more</td>
    </tr>
  </tbody>
</table><p>"""
    shown = [CELL, "[2/4 00:05 < 00:05, 0.4 it/s, Epoch 1/2]", "Step\tTraining Loss", "1\t2.5 & more"]
    assert [line for line in printed(notebook(cell(html(table)))).splitlines() if line] == shown
    styled = html(table, "<pandas.io.formats.style.Styler at 0x7f00>")
    assert [line for line in printed(notebook(cell(styled))).splitlines() if line] == shown
    of_2013 = {"output_type": "display_data", "html": [table]}
    assert [line for line in printed(notebook(cell(of_2013))).splitlines() if line] == shown


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (html("<table><tr><td>1</td></tr></table>", "   a\n0  1"), "   a\n0  1"),  # pandas writes a text as well
        (html("<b>no table</b>"), "<IPython.core.display.HTML object>"),
        (html("<table><script>f(1)</script></table>"), "<IPython.core.display.HTML object>"),
        (html("<table><style>td {}</style></table>"), "<IPython.core.display.HTML object>"),
    ],
)
def test_other_html_stays_what_it_is_as_text(output: dict[str, Any], text: str) -> None:
    assert printed(notebook(cell(output))) == f"{CELL}\n\n{text}\n"


def test_a_line_that_two_outputs_share() -> None:
    (run,) = read(
        notebook(cell(stream(rows(0, 3)), stream("iter 4: loss 2.0000, ti"), stream("me 90.00ms, mfu 30.00%\n")))
    )
    assert run.rows.ms[-1] == 90.0


def test_the_last_line_of_a_notebook_saved_in_mid_sentence() -> None:
    (run,) = read(notebook(cell(stream(rows() + "iter 5: loss 2.0000, time 100."))))
    assert iterations([run]) == [[0, 1, 2, 3, 4]]


def test_a_cell_that_trains_anew_is_another_run() -> None:
    runs = read(notebook(cell(stream(rows())), cell(stream("sampling\n")), cell(stream(rows(0, 2)))))
    assert iterations(runs) == [[0, 1, 2, 3, 4], [0, 1, 2]]
    assert [run.name for run in runs] == ["log", "log #2"]


def test_also_if_it_counts_from_one() -> None:
    first, second = read(notebook(cell(stream(rows(1, 50))), cell(stream(rows(1, 50)))))
    assert first.restarts == second.restarts == ()
    assert len(first.rows) == len(second.rows) == 50


def test_a_cell_that_trains_further_continues_the_run() -> None:
    (run,) = read(notebook(cell(stream(rows(1, 50))), cell(error("NameError")), cell(stream(rows(51, 80)))))
    assert (run.rows.last_iteration[-1], len(run.rows), run.restarts, run.ending) == (80, 80, (), None)


def test_a_cell_that_takes_up_an_interrupted_one_restarts_it() -> None:
    (run,) = read(notebook(cell(stream(rows(1, 50)), error("KeyboardInterrupt")), cell(stream(rows(41, 80)))))
    assert [(each.iteration, each.reached) for each in run.restarts] == [(41, 50)]


@pytest.mark.parametrize(("name", "ending"), [("OutOfMemoryError", "out_of_memory"), ("NameError", "error")])
def test_only_the_error_of_its_own_cell_ends_a_run(name: str, ending: str) -> None:
    (run,) = read(notebook(cell(stream(rows()), error(name))))
    assert run.ending == ending
    (run,) = read(notebook(cell(stream(rows())), cell(stream("drawing\n"), error(name))))
    assert run.ending is None
    (run,) = read(notebook(cell(error(name)), cell(stream(rows()))))
    assert run.ending is None


def test_what_only_the_whole_run_shows_is_its_own() -> None:
    """The tokens of a step follow from the rates of all rows."""
    form = "step {:05d}/00050 (2.00%) | loss: 3.0 | lrm: 1.00 | dt: {:.2f}ms | tok/sec: {:,.0f}"
    printed = "".join(
        form.format(at, 101 + at, 32_768_000 / (101 + at)) + " | bf16_mfu: 1.00 | epoch: 1 | total time: 0.10m\n"
        for at in range(50)
    )
    for after in (cell(error("NameError")), cell(stream("done\n")), cell(stream("Distributed world size: 1\n"))):
        (run,) = read(notebook(cell(stream(printed)), after))
        assert run.facts["tokens_per_iteration"].value == 32_768
        assert run.ending is None


def test_with_patterns() -> None:
    lines = "".join(f"step {at} took 0.5 s\n" for at in range(1, 5))
    data = notebook(cell(stream(lines)), cell(stream(lines)))
    runs = read(data, patterns=[r"step (?P<iteration>\d+) took (?P<s>\S+) s"])
    assert iterations(runs) == [[1, 2, 3, 4]] * 2


def test_without_output() -> None:
    image = {"output_type": "display_data", "data": {"image/png": "iVBO"}}
    for data in (notebook(cell()), notebook(), notebook(cell(stream(""))), notebook(cell(image))):
        with pytest.raises(NotALog, match=r"a notebook whose cells have no text output$"):
            read(data)


def test_without_a_training() -> None:
    with pytest.raises(NotALog, match="contains text but no training log"):
        read(notebook(cell(stream("hello\n"))))


# --- what is no notebook, or a broken one -----------------------------------------------------------------------------

WHOLE = notebook(cell(stream(rows().splitlines(keepends=True))))


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b'{"metadata": 1}',
        b'{"metadata": {"name": "of something else"}, "cells": []}',
        b'{"cells": ' * 100_000,
        b'{"nbformat": ' + b"9" * 100_000 + b"}",
        WHOLE[:-5],
        WHOLE.replace(b'"cells"', b'"cells" "cells"'),
        WHOLE + b"and more",
        b'{"nbformat": 4, "cells": [' + b"{}," * 2_000_000 + b"{}]}",
    ],
    ids=lambda data: str(data[:30]),
)
def test_anything_else_stays_as_it_is(data: bytes) -> None:
    with open_log(io.BytesIO(data)) as log:
        assert b"".join(log.chunks) == data


def test_a_damaged_one_is_read_as_text() -> None:
    assert iterations(read(WHOLE[:-5]))[-1] == [0, 1, 2, 3, 4]


def test_one_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    data = notebook(cell(stream(rows(0, 40_000))))
    monkeypatch.setattr("nanopace.sources.notebook._MOST_BYTES", CHUNK)
    with open_log(io.BytesIO(data)) as log:
        assert b"".join(log.chunks) == data


@pytest.mark.parametrize("odd", [None, 1, -1e400, "x", [], [[]], {}, {"text/plain": 1}, {"outputs": [1]}, [None, "x"]])
@pytest.mark.parametrize("key", ["cells", "outputs", "output_type", "text", "data", "text/plain", "traceback"])
def test_any_value_anywhere(key: str, odd: object) -> None:
    outputs = [stream("a\n"), error("NameError"), {"output_type": "display_data", "data": {"text/plain": "b"}}]

    def spoiled(found: Any) -> Any:
        if isinstance(found, list):
            return [spoiled(each) for each in found]
        if isinstance(found, dict):
            return {name: odd if name == key else spoiled(value) for name, value in found.items()}
        return found

    data = json.dumps(spoiled(json.loads(notebook(cell(*outputs))))).encode()
    with pytest.raises(InputError):
        read(data)


def test_half_a_character() -> None:
    data = notebook(cell(stream(rows() + "\ud83d\n")))
    assert b"\\ud83d" in data
    assert iterations(read(data)) == [[0, 1, 2, 3, 4]]
