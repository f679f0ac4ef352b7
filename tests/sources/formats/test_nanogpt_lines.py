"""Where nanoGPT's lines end, when one is complete, and how broken ones are joined."""

from __future__ import annotations

import pytest

from nanopace.run import Run
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.nanogpt_lines import Line, begins_line, like_evaluation, read_line
from nanopace.sources.formats.table import NANOGPT

ROW = "iter 5: loss 3.1000, time 12.50ms, mfu 1.00%"
EVALUATION = "step 5: train loss 3.1000, val loss 3.2000"


def row(text: str) -> Line:
    found = read_line(text)
    assert found is not None
    assert found.kind == "row"
    return found


# --- one line --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("between", "found"), [(286, True), (287, False)])
def test_a_time_is_in_the_300_characters_behind_the_loss(between: int, found: bool) -> None:
    text = f"iter 5: loss 3.1000, {'x' * (between - 1)} time 12.50ms | y"
    assert (read_line(text) is not None) == found


@pytest.mark.parametrize(("between", "found"), [(1999, False), (2000, True)])
def test_a_comment_begins_in_the_2000_characters_before(between: int, found: bool) -> None:
    for line in (f"{ROW}, more", EVALUATION, "tokens per iteration will be: 5"):
        assert (read_line("#" + " " * between + line) is not None) == found


@pytest.mark.parametrize(("length", "begins"), [(1999, True), (2000, False)])
def test_a_beginning_is_below_2000_characters(length: int, begins: bool) -> None:
    assert begins_line(" " * (length - 6) + "iter 5") == begins


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("iter 5: loss 3.1, time 2.50s", ("5", "3.1", "2500.0", "", "", "", "")),
        ("iter 5: loss 3.1, lr 1e-3, time 2.50ms", ("5", "3.1", "2.50", "", "", "", "other")),
        ("iter 5: loss 3.1, time 2.50ms, lr 1e-3", ("5", "3.1", "2.50", "", "", "", "other")),
        ("iter 5: loss 3.1, time 2.50ms, mfu 1.00%, lr 1e-3", ("5", "3.1", "2.50", "1.00", "", "", "")),
        ("iter 5: loss 3.1 BPC, time 2.50ms", ("5", "3.1", "2.50", "", "BPC", "", "")),
        ("iter 5: loss 3.1, time 2.50ms, 1,234 tok/s", ("5", "3.1", "2.50", "", "", "1234.0", "other")),
        ("iter 5: loss 3.1, time 2.50ms, 1.5k tok/s", ("5", "3.1", "2.50", "", "", "1500.0", "other")),
        ("iter 5: loss 3.1, time 2.50ms, tokens_per_second: 12", ("5", "3.1", "2.50", "", "", "12.0", "other")),
        ("iter 5: loss 3.1, tok/s 2.5K, time 2.50ms", ("5", "3.1", "2.50", "", "", "2500.0", "other")),
        ("iter 5: loss 3.1, data time 9.00ms, time 2.50ms", ("5", "3.1", "2.50", "", "", "", "other")),
    ],
)
def test_the_values_of_a_row(text: str, values: tuple[str, ...]) -> None:
    assert row(text).values == values


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        (ROW, True),
        ("x " + ROW, True),
        ("iter 5: loss 3.1000, time 12.50ms", False),  # an mfu may follow
        ("iter 5: loss 3.1000, time 12.50ms, mf", False),
        ("iter 5: loss 3.1000, time 12.50ms, mfu 1.", False),
        ("iter 5: loss 3.1000, time 12.50ms, lr 1", True),
        (EVALUATION, True),
        (EVALUATION[:-1], False),  # three decimals
        (EVALUATION[:-1] + " ", True),
        ("step 5: train loss 3.1000, val loss nan", True),
        ("step 5: train loss 3.1000, val loss inf", True),
    ],
)
def test_when_a_line_is_complete(text: str, complete: bool) -> None:
    found = read_line(text)
    assert found is not None
    assert found.complete == complete


def test_where_a_line_begins_and_ends() -> None:
    for line in (ROW, "iter 5: loss 3.1000, time 12.50ms", EVALUATION, "compiling the model..."):
        found = read_line(f"12 {line}; more")
        assert found is not None
        assert (found.start, found.end) == (3, 3 + len(line))


def test_a_value_that_the_next_line_has_is_not_this_ones() -> None:
    assert row("iter 5: loss 3.1, time 2.00ms iter 6: loss 3.1, time 2.00ms, mfu 1.00%").values[3] == ""


@pytest.mark.parametrize(
    ("text", "like"),
    [
        ("step 5: mean loss 2.4", True),
        ("Step 5/9 | loss: 2.4", True),
        ("step 5: mean loss 2", False),
        ("step 5 mean loss 2.4", False),
        ("iter 5: mean loss 2.4", False),
    ],
)
def test_what_looks_like_an_evaluation(text: str, like: bool) -> None:
    assert like_evaluation(text) == like


# --- lines that a terminal broke -------------------------------------------------------------------------------------


def feed(*lines: str, width: int = 0) -> tuple[Run, list[bool]]:
    """The run, and whether each line was understood."""
    builder = RunBuilder("log")
    reader = NANOGPT.open_reader(builder, width)
    understood = [reader.feed(line) for line in lines]
    reader.finish()
    (run,) = builder.finish()
    return run, understood


FIRST = "iter 0: loss 9.9000, time 12.50ms, mfu 1.00%"


@pytest.mark.parametrize(("pieces", "joined"), [(12, True), (13, False)])
def test_a_line_of_up_to_twelve_pieces(pieces: int, joined: bool) -> None:
    """The first piece is long enough to be recognised as a beginning."""
    parts = [ROW[:6], *(ROW[6 + at : 7 + at] for at in range(pieces - 2)), ROW[4 + pieces :]]
    assert "".join(parts) == ROW
    run, _ = feed(FIRST, *parts)
    assert list(run.rows.iteration) == ([0, 5] if joined else [0])


@pytest.mark.parametrize(("width", "joined"), [(20, True), (21, False)])
def test_a_line_that_fills_the_terminal_may_go_on(width: int, joined: bool) -> None:
    run, _ = feed("tokens per iteration", " will be: 524,288", FIRST, width=width)
    assert run.value("tokens_per_iteration") == (524_288 if joined else None)


@pytest.mark.parametrize(("width", "path"), [(29, "/very/long/path"), (30, "/very/lo")])
def test_a_path_that_fills_the_terminal_may_go_on(width: int, path: str) -> None:
    run, _ = feed(EVALUATION, "saving checkpoint to /very/lo", "ng/path", ROW, width=width)
    assert [each.path for each in run.checkpoints] == [path]


@pytest.mark.parametrize(("width", "kept"), [(40, False), (41, True)])
def test_an_evaluation_that_fills_the_terminal_at_the_end_of_a_log_was_cut(width: int, kept: bool) -> None:
    short = EVALUATION[:-2]
    assert len(short) == 40
    run, _ = feed(FIRST, short, width=width)
    assert [each.val for each in run.evaluations] == ([3.2] if kept else [])


@pytest.mark.parametrize(("first", "rows"), [(FIRST, [0]), ("iter 0: loss 9.9000, time 12.50ms", [0, 5])])
def test_a_last_row_without_mfu_was_cut_if_others_have_one(first: str, rows: list[int]) -> None:
    run, _ = feed(first, "iter 5: loss 3.1000, time 12.50ms")
    assert list(run.rows.iteration) == rows


def test_what_follows_a_beginning_and_is_a_line_of_its_own() -> None:
    run, understood = feed(
        FIRST, "iter 5: loss 3.10", ROW, "iter 6: lo", "iter 7: loss 3.1000, time 12.50ms, mfu 1.00%"
    )
    assert list(run.rows.iteration) == [0, 5, 7]
    assert understood == [True, False, True, False, True]


@pytest.mark.parametrize(
    ("line", "understood"),
    [
        (ROW, True),
        (EVALUATION, True),
        ("saving checkpoint to out", True),
        ("number of parameters: 123.59M", True),
        ("KeyboardInterrupt", True),
        ("", False),
        ("hello", False),
        ("step 5: mean loss 2.4", False),
        ("device: NVIDIA L4", False),  # not before the rows
    ],
)
def test_which_lines_are_understood(line: str, understood: bool) -> None:
    assert feed(FIRST, line)[1] == [True, understood]


def test_settings_before_the_rows_are_understood() -> None:
    assert feed("device: NVIDIA L4", "hello", FIRST)[1] == [True, False, True]


@pytest.mark.parametrize(
    ("mfus", "restarts"),
    [
        (["-100.00", "1.00", "-100.00"], 1),
        (["-100.00", "-100.00", "-100.00"], 0),
        (["1.00", "1.00", "1.00"], 0),
        (["1.00", "nan", "nan"], 1),
    ],
)
def test_an_mfu_that_is_unknown_again_is_a_new_process(mfus: list[str], restarts: int) -> None:
    lines = [f"iter {n}: loss 3.1000, time 12.50ms, mfu {mfu}%" for n, mfu in enumerate(mfus)]
    run, _ = feed(*lines)
    assert len(run.restarts) == restarts
    assert [each.mfu for each in run.rows] == [0.01 if mfu == "1.00" else None for mfu in mfus]


def test_rows_of_bits_per_character_say_so() -> None:
    hints = ("row_tokens", "other_columns", "loss_unit")
    run, _ = feed("iter 5: loss 3.1 BPC, time 500.00ms, 1,000 tok/s")
    assert [run.value(hint) for hint in hints] == [500.0, True, "bpc"]
    run, _ = feed(ROW)
    assert [run.value(hint) for hint in hints] == [None, None, None]
