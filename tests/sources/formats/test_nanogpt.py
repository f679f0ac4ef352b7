from __future__ import annotations

import math
import time

import pytest

from nanopace.diagnosis.diagnose import diagnose
from nanopace.run import Run
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.nanogpt_lines import begins_line, read_line
from nanopace.sources.formats.table import NANOGPT

from ..nanogpt_logs import HEADER, WHOLE_LOG, print_rows
from ..reading import read


def feed(*lines: str, cut: str | None = None, width: int = 0) -> Run:
    builder = RunBuilder("log")
    reader = NANOGPT.open_reader(builder, width)
    for line in lines:
        reader.feed(line)
    if cut is not None:
        reader.feed_cut(cut)
    reader.finish()
    (run,) = builder.finish()
    return run


ROW = "iter 200: loss 6.2977, time 3917.80ms, mfu 12.87%"
NEXT = "iter 400: loss 5.7609, time 3903.44ms, mfu 12.88%"


# --- single lines ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "iteration", "ms", "loss", "mfu"),
    [
        (ROW, 200, 3917.8, 6.2977, 0.1287),
        ("iter 0: loss 10.8720, time 32025.45ms, mfu -100.00%", 0, 32025.45, 10.872, None),
        ("iter 7: loss 10.8720, time 32025.45ms", 7, 32025.45, 10.872, None),
        ("33iter 7800: loss 3.2876, time 9349.59ms, mfu 13.63%", 7800, 9349.59, 3.2876, 0.1363),
        ("[rank0]: iter 5: loss 3.2876, time 9.59ms, mfu 163.00%", 5, 9.59, 3.2876, 1.63),
        ("2024-01-01 12:00:00,123 INFO iter 5: loss 3.2876, time 9.59ms, mfu 0.00%", 5, 9.59, 3.2876, 0.0),
        ("iter 5: loss nan, time 9.59ms, mfu 1.00%", 5, 9.59, math.inf, 0.01),
        ("iter 5: loss 3.2876, lr 6.0e-04, time 9.59ms, mfu 1.00%, norm 0.5", 5, 9.59, 3.2876, 0.01),
    ],
)
def test_row(line: str, iteration: int, ms: float, loss: float, mfu: float | None) -> None:
    (row,) = feed(line).rows
    assert (row.iteration, row.ms, row.loss) == (iteration, ms, loss)
    assert row.mfu == (None if mfu is None else pytest.approx(mfu))


@pytest.mark.parametrize(
    "line",
    [
        "# iter 200: loss 6.2977, time 3917.80ms, mfu 12.87%",
        "iter 200: loss 6.2977, time 39",
        "er 200: loss 6.2977, time 3917.80ms, mfu 12.87%",
        "iter 200: loss 6.2977, time 0.00ms, mfu 12.87%",
        "iter 200: loss 6.2977, tiiter 201",
        "iter 99999999999999999999: loss 6.2977, time 1.00ms",
    ],
)
def test_no_row(line: str) -> None:
    assert list(feed(line, NEXT).rows.iteration) == [400]


def test_two_rows_in_one_line() -> None:
    assert list(feed(ROW + NEXT).rows.iteration) == [200, 400]


def test_a_torn_row_does_not_borrow_the_time_of_the_next() -> None:
    assert list(feed("iter 200: loss 6.2977, tim" + NEXT).rows.iteration) == [400]


@pytest.mark.parametrize(
    ("line", "kind", "values"),
    [
        ("tokens per iteration will be: 524,288", "tokens", ("524,288",)),
        ("number of parameters: 123.59M", "parameters", ("123.59",)),
        ("num decayed parameter tensors: 50, with 124,354,560 parameters", "groups", ("50", "124,354,560")),
        ("num non-decayed parameter tensors: 25, with 19,200 parameters", "groups", ("non-", "25", "19,200")),
        ("found vocab_size = 65 (inside data/shakespeare_char/meta.pkl)", "vocabulary", ("65",)),
        ("vocab_size = 65 (from data/shakespeare_char/meta.pkl)", "vocabulary", ("65",)),
        ("vocab_size not found in x, using GPT-2 default of 50257", "vocabulary", ("50257",)),
        ("using GPT-2 default of 50257 (rounded up to 50304 for efficiency)", "vocabulary", ("50257", "50304")),
        ("Resuming training from out", "resuming", ()),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried", "memory", ()),
        ("KeyboardInterrupt", "interrupt", ()),
        ("    except KeyboardInterrupt:", None, ()),
        ("# tokens per iteration will be: 5", None, ()),
    ],
)
def test_other_lines(line: str, kind: str | None, values: tuple[str, ...]) -> None:
    found = read_line(line)
    assert (found.kind if found else None) == kind
    assert (found.values if found else ()) == values


def test_what_begins_a_line() -> None:
    assert begins_line("iter 5")
    assert begins_line("33iter 5: loss")
    assert begins_line("step 10: tra")
    assert not begins_line("step by step")
    assert not begins_line("12.87%")


# --- the end of the log ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", range(len(NEXT)))
def test_a_cut_row_is_no_row(length: int) -> None:
    assert list(feed(ROW, cut=NEXT[:length]).rows.iteration) == [200]


def test_a_whole_row_needs_no_newline() -> None:
    assert list(feed(ROW, cut=NEXT).rows.iteration) == [200, 400]


def test_without_mfu_a_row_is_whole_at_its_ms() -> None:
    first, second = ROW.partition(", mfu")[0], NEXT.partition(", mfu")[0]
    assert list(feed(first, cut=second).rows.iteration) == [200, 400]
    assert list(feed(first, cut=second[:-1]).rows.iteration) == [200]


def test_a_whole_row_in_two_pieces_needs_no_newline() -> None:
    assert list(feed(ROW, NEXT[:24], cut=NEXT[24:]).rows.iteration) == [200, 400]
    assert list(feed(ROW, NEXT[:24], cut=NEXT[24:-3]).rows.iteration) == [200]


def test_how_a_process_died_needs_no_newline() -> None:
    assert feed(ROW, cut="KeyboardInterrupt").ending == "interrupted"


def test_a_cut_evaluation_is_none() -> None:
    assert feed(ROW, cut="step 500: train loss 5.4354, val loss 5.53").evaluations == ()
    assert len(feed(ROW, cut="step 500: train loss 5.4354, val loss 5.5328").evaluations) == 1


@pytest.mark.parametrize(
    ("lines", "ending"),
    [
        (("Traceback (most recent call last):", "torch.cuda.OutOfMemoryError: CUDA out of memory."), "out_of_memory"),
        (("^CTraceback (most recent call last):", "KeyboardInterrupt"), "interrupted"),
        (("Traceback (most recent call last):", "RuntimeError: x"), "error"),
        (("Killed",), "error"),
        ((), None),
    ],
)
def test_ending(lines: tuple[str, ...], ending: str | None) -> None:
    assert feed(ROW, *lines).ending == ending


# --- terminals -------------------------------------------------------------------------------------------------------


def wrapped(text: str, width: int) -> str:
    return "\n".join(line[at : at + width] for line in text.split("\n") for at in range(0, max(1, len(line)), width))


def same(a: list[Run], b: list[Run]) -> bool:
    return [(r.rows, r.evaluations, r.checkpoints, r.restarts, dict(r.facts), r.ending) for r in a] == [
        (r.rows, r.evaluations, r.checkpoints, r.restarts, dict(r.facts), r.ending) for r in b
    ]


@pytest.mark.parametrize("width", range(40, 201))
def test_a_terminal_of_any_width(width: int) -> None:
    assert same(read(wrapped(WHOLE_LOG, width)), read(WHOLE_LOG))


@pytest.mark.parametrize("width", [33, 48, 60])
def test_rows_without_mfu_in_a_terminal(width: int) -> None:
    log = print_rows(mfu=False)
    assert same(read(wrapped(log, width)), read(log))


@pytest.mark.parametrize("width", [50, 64, 90])
def test_a_broken_line_that_is_also_cut(width: int) -> None:
    end = WHOLE_LOG.index("iter 1200:")
    last = "iter 1200: loss 2.6923, time 9343.00ms, mfu "
    expected = read(WHOLE_LOG[:end])
    for length in range(1, len(last)):
        assert same(read(wrapped(WHOLE_LOG[:end] + last[:length], width)), expected)


def test_a_long_path_in_a_terminal() -> None:
    log = print_rows().replace("out-web", "/very/long/path/" * 6)
    assert same(read(wrapped(log, 80)), read(log))
    assert read(wrapped(log, 80))[0].checkpoints[0].path == "/very/long/path/" * 6


def test_colours_keys_bars_and_windows() -> None:
    littered = (
        WHOLE_LOG.replace("iter 400", "^[[A^[[B\x1b[31miter 400\x1b[0m")
        .replace("iter 600", " 10%|#   |\r 20%|##  |\riter 600")
        .replace("iter 800", "q33iter 800")
        .replace("\n", "\r\n")
    ).encode() + b"\xff\xfe\x00 \n"
    assert same(read(littered), read(WHOLE_LOG))


# --- headers ---------------------------------------------------------------------------------------------------------


def test_the_header() -> None:
    (run,) = read(WHOLE_LOG)
    said = {name: fact.value for name, fact in run.facts.items() if fact.origin == "log"}
    assert said["batch_size"] == 8  # the flag after the file
    assert said["gradient_accumulation_steps"] == 64
    assert said["max_iters"] == 3000
    assert said["weight_decay"] == 0.1
    assert said["tokens_per_iteration"] == 524_288
    assert said["vocab_size"] == 50304
    assert said["parameters"] == 123_587_328
    assert "learning_rate" not in said
    assert run.ending == "finished"


def test_ranks_that_print_into_each_other() -> None:
    lines = HEADER.splitlines()
    interleaved = "\n".join(f"[rank{rank}]: {line}" for line in lines for rank in (0, 1)) + "\n"
    late = "\n".join(lines[1:]) + "\n"  # a rank whose output was buffered until it left
    assert same(read(interleaved + print_rows() + late), read(HEADER + print_rows()))


def test_a_finetuned_gpt2() -> None:
    run = feed(
        "Initializing from OpenAI GPT-2 weights: gpt2-xl",
        "loading weights from pretrained gpt: gpt2-xl",
        "forcing vocab_size=50257, block_size=1024, bias=True",
        ROW,
    )
    assert [run.value(name) for name in ("n_layer", "n_head", "n_embd", "vocab_size", "bias")] == [
        48,
        25,
        1600,
        50257,
        True,
    ]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("gpt2", [12, 12, 768]),
        ("gpt2-medium", [24, 16, 1024]),
        ("gpt2-large", [36, 20, 1280]),
        ("gpt2-xl", [48, 25, 1600]),
    ],
)
def test_the_shapes_of_gpt2(name: str, shape: list[int]) -> None:
    run = feed(f"Initializing from OpenAI GPT-2 weights: {name}", ROW)
    assert [run.value(knob) for knob in ("n_layer", "n_head", "n_embd")] == shape


@pytest.mark.parametrize(
    ("line", "size"),
    [
        ("found vocab_size = 65 (inside data/shakespeare_char/meta.pkl)", 65),
        ("using GPT-2 default of 50257 (rounded up to 50304 for efficiency)", 50304),
    ],
)
def test_the_vocabulary_that_a_header_names(line: str, size: int) -> None:
    assert feed(line, ROW).value("vocab_size") == size


# --- processes -------------------------------------------------------------------------------------------------------


def test_a_resumed_run_with_its_header() -> None:
    resumed = HEADER.replace("Initializing a new model from scratch", "Resuming training from out-web")
    (run,) = read(HEADER + print_rows(0, 1700) + "KeyboardInterrupt\n" + resumed + print_rows(1500))
    assert list(run.rows.iteration) == list(range(0, 3001, 200))
    (restart,) = run.restarts
    assert (restart.iteration, restart.reached) == (1500, 1600)
    assert list(restart.lost.iteration) == [1600]
    assert len(run.evaluations) == 7
    assert run.ending == "finished"


def test_a_restart_shows_in_the_mfu() -> None:
    (run,) = read(print_rows(0, 1999, log_interval=100) + print_rows(2000, log_interval=100))
    (restart,) = run.restarts
    assert (restart.row, restart.iteration, restart.reached) == (20, 2000, 1900)
    assert len(restart.lost) == 0


def test_two_runs_in_a_file() -> None:
    other = HEADER.replace("Overriding: batch_size = 8\n", "")
    first, second = read(HEADER + print_rows(0, 1001) + other + print_rows())
    assert (first.value("batch_size"), second.value("batch_size")) == (8, 16)
    assert (len(first.rows), len(second.rows)) == (6, 16)
    assert second.name == "log #2"


@pytest.mark.parametrize(
    "line",
    [
        " " * 65_536,
        "^C" + " " * 65_000 + "x",
        "^C " * 20_000,
        "KeyboardInterrupt" + " " * 65_000 + "x",
        "iter 5" + " " * 65_000 + "x",
        "saving checkpoint to" + " " * 65_000,
        "vocab_size" + " " * 65_000 + "=",
    ],
)
def test_a_long_line_is_read_in_no_time(line: str) -> None:
    start = time.perf_counter()
    read_line(line)
    assert time.perf_counter() - start < 1.0  # what is quadratic takes many seconds


def test_knobs_of_a_fork_cost_no_search_for_what_they_may_have_meant() -> None:
    """A fork's knob took 0.14 ms: 14 s for a log with 100,000 of them."""
    began = time.process_time()
    run = feed(*(f"Overriding: fork_{number}_interval_size = 8" for number in range(5000)), ROW, NEXT)
    assert time.process_time() - began < 0.4
    assert "fork_0_interval_size" not in run.facts


# When the process dies: within the step of an iteration, whose row is not printed, or right after its evaluation.
@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize(
    ("dies_at", "evaluated", "resumes"),
    [(2346, False, 2000), (2001, False, 2000), (2000, True, 2000), (2500, True, 2000), (2500, True, 2500)],
)
def test_iterations_done_twice_are_those_trained_twice(
    dies_at: int, evaluated: bool, resumes: int, header: bool
) -> None:
    """nanoGPT evaluates and saves before an iteration's step, and a resumed process evaluates there again."""
    trained: list[int] = []
    lines: list[str] = []

    def process(first: int, end: int) -> None:
        for iteration in range(first, end + 1):
            if iteration % 500 == 0 and (iteration < end or evaluated):
                lines.append(f"step {iteration}: train loss 3.1000, val loss 3.2000")
                if iteration > first:
                    lines.append("saving checkpoint to out")
            if iteration < end:
                trained.append(iteration)
                lines.append(f"iter {iteration}: loss 3.1234, time {100 + iteration % 7}.00ms, mfu 10.00%")

    process(0, dies_at)
    if header:
        lines += ["Resuming training from out", "number of parameters: 124.00M"]
    process(resumes, 3000)
    assert diagnose(feed(*lines)).restarts.lost_iterations == len(trained) - len(set(trained))
