"""The Trainer's console: dicts without a step, and bars with one, however a pipe or a terminal mixed them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.errors import NotALog
from nanopace.run import Run
from nanopace.sources.formats.hugging_face.console_lines import bars, entries, seconds, step_of
from nanopace.sources.formats.hugging_face.steps_of_epochs import Known, steps_of_logs

from ...reading import read
from ..examples.hugging_face import EXAMPLES, bar

LOG = str(EXAMPLES["hf_console"])
STEPS = list(range(10, 130, 10))
EVALUATED = [(40, 2500), (80, 2500), (120, 2500)]


def dicts_of(log: str) -> list[str]:
    return re.findall(r"\{[^}]*\}", log)


def quoted(log: str) -> str:
    """As of version 5: values are strings with four digits."""
    return re.sub(r"': (-?[\d.e-]+)", lambda found: f"': '{float(found[1]):.4g}'", log)


def in_blocks(log: str, size: int) -> str:
    """As from a pipe: standard output comes in blocks, after the bars."""
    waiting: list[str] = []
    out = ""
    for part in re.split(r"(\{[^}]*\}\n)", log):
        if part.startswith("{"):
            waiting.append(part)
        else:
            out += part
        if len(waiting) == size:
            out, waiting = out + "".join(waiting), []
    return out + "".join(waiting)


def check(run: Run) -> None:
    assert list(run.rows.iteration) == STEPS
    assert [(each.iteration, each.ms) for each in run.evaluations] == EVALUATED
    assert run.rows.loss[3] == pytest.approx(3.5537, abs=0.001)
    assert sum(run.rows.ms) == pytest.approx(15_600, rel=0.02)
    assert (run.value("max_iters"), run.ending, run.rows_cover, run.wall_ms) == (120, "finished", 10, 163_500)


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("block", [1, 2, 5, 100])
def test_dicts_find_their_steps(version: int, block: int) -> None:
    log = in_blocks(LOG, block)
    (run,) = read(log if version == 4 else quoted(log))
    check(run)
    assert [each.code for each in run.caveats] == ["whole_seconds"]


@pytest.mark.parametrize("block", [1, 3, 5])
def test_dicts_that_follow_a_bar_in_its_line(block: int) -> None:
    """Standard output was flushed after the bar was redrawn, because an evaluation or a save began."""
    log = re.sub(r"((?:\{[^}]*\}\n)+)(\r[^\r\n]*\])", r"\2\1", in_blocks(LOG, block))
    assert re.search(r"/120 \[[^]]*\]\{'loss'", log)
    check(read(log)[0])


@pytest.mark.parametrize("block", [1, 5, 100])
def test_epochs_that_tell_little_and_bars_of_evaluations_that_are_wiped(block: int) -> None:
    log = re.sub(r"'epoch': ([\d.]+)", lambda found: f"'epoch': {round(float(found[1]) / 20, 2)}", LOG)
    wiped = "\n\r" + bar(7, 7, 2.5, " 2.80it/s") + f"\x1b[A\r{' ' * 50}"
    log = re.sub(r"('eval_runtime'[^\n]*\n\r[^\r]*)", lambda found: found[1] + wiped, log)
    assert log.count("7/7") == 6
    check(read(in_blocks(log, block))[0])


def test_a_bar_that_is_not_painted_for_every_step() -> None:
    """tqdm redraws at most ten times per second."""
    log = re.sub(r"\r[^\r\n]*\| (?!\d*0/|[17]/)\d+/120 \[[^\]]*\]", "", LOG)
    assert log.count("/120 [") < 60
    check(read(log)[0])


def test_what_a_terminal_leaves() -> None:
    """Of an overwritten line, only the last state is left: a bar, and a dict after or below it."""
    for between in ("", "\n"):
        lines = [f"{bar(step, 120, 1.3 * step)}{between}{{'loss': 2.5, 'epoch': {step / 100}}}\n" for step in STEPS]
        (run,) = read("".join(lines))
        assert list(run.rows.iteration) == STEPS
        assert sum(run.rows.ms) == pytest.approx(15_600, rel=0.02)


def test_what_a_notebook_leaves() -> None:
    """Bars only at evaluations, once before and once after each."""
    log, at_s = "", 0.0
    for step in range(1, 205):
        at_s += 2
        if step % 10 == 0:
            log += f"{{'loss': '9.5', 'epoch': '{step / 34:.4g}'}}\n"
        if step % 34 == 0:
            log += bar(step, 204, at_s) + "\n" + bar(8, 9, 3, "2.44it/s") + f"\n{' ' * 40}\n"
            at_s += 4
            log += (
                f"{{'eval_loss': '9.1', 'eval_runtime': '4', 'epoch': '{step // 34}'}}\n" + bar(step, 204, at_s) + "\n"
            )
            log += bar(9, 9, 3, "2.54it/s") + "\n"
    log += "{'train_runtime': '432', 'train_steps_per_second': '0.472', 'epoch': '6'}\n" + bar(204, 204, 432) + "\n"
    (run,) = read(log)
    assert list(run.rows.iteration) == list(range(10, 201, 10))
    assert [(each.iteration, each.ms) for each in run.evaluations] == [(34 * n, 4000) for n in range(1, 7)]
    assert list(run.rows.ms) == pytest.approx([2000] * 20, rel=0.08)


def training_with_few_bars(total: int, *, per_epoch: int, killed_at: int = 0) -> str:
    """Bars only before and after evaluations, at the end of each epoch. One evaluation was before the training."""
    log, at_s = bar(31, 31, 8.1, "3.9it/s") + "\n", 0.0
    for step in range(1, (killed_at or total) + 1):
        at_s += 0.64
        if step % 10 == 0:
            log += f"{{'loss': 8.5, 'learning_rate': 5e-05, 'epoch': {round(step / per_epoch, 2)}}}\n"
        if step % per_epoch == 0:
            log += bar(step, total, at_s) + "\n" + bar(0, 31, 0) + "\n" + bar(30, 31, 8) + f"\n{' ' * 40}\n"
            at_s += 8.5
            log += f"{{'eval_loss': 9.1, 'eval_runtime': 8.5, 'epoch': {step / per_epoch}}}\n" + bar(step, total, at_s)
            log += "\n" + bar(31, 31, 8.5) + "\n"
    if killed_at:
        return log
    log += bar(total, total, at_s) + f"\n{{'train_runtime': {at_s:.4f}, 'epoch': {total / per_epoch}}}\n"
    return log


def test_an_evaluation_before_the_training() -> None:
    (run,) = read(training_with_few_bars(1330, per_epoch=266))
    assert list(run.rows.iteration) == list(range(10, 1331, 10))
    assert [(each.iteration, each.ms) for each in run.evaluations] == [(266 * n, 8500) for n in range(1, 6)]
    assert list(run.rows.ms) == pytest.approx([640] * 133, rel=0.16)
    assert (run.value("max_iters"), run.ending) == (1330, "finished")


def test_steps_that_may_be_others_are_not_told() -> None:
    """It was killed after an evaluation, and an epoch is too long for its two decimals."""
    (run,) = read(training_with_few_bars(1330, per_epoch=266, killed_at=600))
    assert list(run.rows.iteration) == list(range(10, 531, 10))  # later ones have no time
    with pytest.raises(NotALog, match=r"Trainer \(40\)"):
        read(training_with_few_bars(40_000, per_epoch=20_000, killed_at=400))


def test_bars_that_are_far_between() -> None:
    """A terminal left some bars and not all dicts: which step a dict is of cannot be said."""
    log = ""
    for step in range(1, 60):
        log += (
            f"{{'loss': 9.5, 'epoch': {round(step / 2000, 2)}}}\n" if step % 7 else bar(step, 2000, 0.3 * step) + "\n"
        )
    with pytest.raises(NotALog, match=r"Trainer \(51\)"):
        read(log)


def test_a_bar_of_another_moment() -> None:
    """A terminal leaves it if a dict of another step is printed later."""
    rows = [f"{{'loss': '1.{9 - n}', 'learning_rate': '5e-05', 'epoch': '{n}'}}\n" for n in (1, 2, 3)]
    end = "{'train_runtime': '2279', 'train_steps_per_second': '1.498', 'epoch': '3'}\n"
    (run,) = read(rows[0] + bar(1272, 3414, 759) + rows[1] + rows[2] + end + bar(3414, 3414, 2279) + "\n")
    assert list(run.logged.iteration) == [1138, 2276, 3414]
    assert list(run.logged.loss) == [1.8, 1.7, 1.6]


@pytest.mark.parametrize(
    "before",
    [
        "Map: 100%|██████████| 500/500 [00:09<00:00, 52.00 examples/s]\n",
        "Loading checkpoint shards: 100%|██████████| 4/4 [10:09<00:00, 2.00s/it]\n",
        bar(300, 300, 900) + "\n{'eval_loss': 9.5, 'eval_runtime': 900.0, 'epoch': 0}\n",
    ],
)
def test_bars_of_other_things(before: str) -> None:
    (run,) = read(before + LOG)
    assert list(run.rows.iteration) == STEPS
    assert run.value("max_iters") == 120
    assert sum(run.rows.ms) == pytest.approx(15_600, rel=0.02)


def test_evaluations_before_the_first_row() -> None:
    """The Trainer logs every 500 steps by default."""
    log = re.sub(r"\r {50}\r\{'loss'[^}]*'epoch': 0\.[1-7]\}\n\r[^\r\n]*", "", LOG)
    (run,) = read(log)
    assert list(run.rows.iteration) == STEPS[8:]  # how much of the time before 80 was training, is unknown
    assert [(each.iteration, each.ms) for each in run.evaluations] == EVALUATED


def test_a_process_that_resumes() -> None:
    """Its bar starts at 0 and jumps to the step where it resumes."""
    killed = LOG[: LOG.index("{'loss': 2.2555")]  # at step 100
    rest = bar(0, 120, 0) + "\r" + bar(81, 120, 3)
    for step in range(82, 121):
        rest += "\r" + bar(step, 120, 3 + 1.3 * (step - 81))
        if step % 10 == 0:
            rest += f"\r{' ' * 50}\r{{'loss': 1.5, 'epoch': {step / 100}}}\n\r" + bar(step, 120, 3 + 1.3 * (step - 81))
    (run,) = read(killed + "Killed\n\r" + rest + "\n")
    assert list(run.rows.iteration) == STEPS
    assert [(each.iteration, each.reached) for each in run.restarts] == [(90, 90)]
    assert run.wall_ms is None


def test_two_trainings_in_a_file() -> None:
    first, second = read(
        LOG + LOG.replace("/120 [", "/130 [").replace("'train_runtime': 163.5", "'train_runtime': 160")
    )
    assert list(first.rows.iteration) == list(second.rows.iteration) == STEPS
    assert (first.value("max_iters"), second.value("max_iters")) == (120, 130)


def test_dicts_that_name_their_step() -> None:
    """ms-swift's, on the console and in its logging.jsonl."""
    lines = [
        f"{{'loss': 1.5, 'epoch': 0.1, 'global_step/max_steps': '{step}/94', 'elapsed_time': '{2 * step // 60}m "
        f"{2 * step % 60}s', 'train_speed(iter/s)': 0.5}}\n"
        for step in range(5, 95, 5)
    ]
    for log in ("".join(lines), "".join(lines).replace("'", '"')):
        (run,) = read(log)
        assert list(run.rows.iteration) == list(range(5, 95, 5))
        assert sum(run.rows.ms) == pytest.approx(18 * 2000, rel=0.01)
        assert run.value("max_iters") == 94
    (run,) = read("".join(f"{{'loss': 1.5, 'epoch': 0.1, 'step': {step}}}\n" for step in (5, 10, 15)))
    assert list(run.untimed_rows.iteration) == [5, 10, 15]


def test_without_bars_the_end_tells_the_steps() -> None:
    end = "{'train_runtime': 163.5, 'train_steps_per_second': 0.734, 'epoch': 1.2}"
    rows = [each for each in dicts_of(LOG) if "train_runtime" not in each]
    with pytest.raises(NotALog, match="are missing or incomplete"):
        read("\n".join([*rows, end]) + "\n")  # it may have stopped early, and the end would not say so
    rows = [each.replace("5e-05", f"{5e-05 * (1 - n / len(rows)) ** 2}") for n, each in enumerate(rows)]
    (run,) = read("\n".join([*rows, end]) + "\n")
    assert list(run.untimed_rows.iteration) == STEPS
    assert [each.iteration for each in run.evaluations] == [40, 80, 120]
    assert (run.wall_ms, run.ending, run.ended_at) == (163_500, "finished", 120)
    (twice,) = read("\n".join(each for each in [*rows, end] for _ in range(2)) + "\n")  # a callback prints them, too
    assert (twice.untimed_rows, twice.evaluations) == (run.untimed_rows, run.evaluations)
    with pytest.raises(NotALog, match=r"Trainer \(12\), but the progress bars .* are missing or incomplete"):
        read("\n".join(rows) + "\n")


def epoch_of(step: int, batches: int, per_step: int, *, drops_rest: bool) -> float:
    """An epoch whose batches are no multiple of a step's: its rest was dropped by versions before 4.46, and is a step
    of its own since."""
    steps = max(1, batches // per_step if drops_rest else -(-batches // per_step))
    whole, rest = divmod(step, steps)
    if rest == 0:
        whole, rest = whole - 1, steps
    return whole + min(1.0, rest * per_step / batches)


@given(
    between=st.integers(1, 500),
    rows=st.integers(2, 400),
    batches=st.integers(20, 20_000),
    per_step=st.integers(1, 16),
    drops_rest=st.booleans(),
    first=st.booleans(),
    version=st.sampled_from([4, 5]),
    beyond=st.floats(0, 0.99),
)
def test_steps_of_logs_are_right_or_unknown(
    between: int, rows: int, batches: int, per_step: int, drops_rest: bool, first: bool, version: int, beyond: float
) -> None:
    def printed(step: int) -> str:
        epoch = epoch_of(step, batches, per_step, drops_rest=drops_rest)
        return str(round(epoch, 2)) if version == 4 else f"{epoch:.4g}"

    total = between * rows + int(beyond * between)
    steps = [*[1] * (first and between > 1), *range(between, between * rows + 1, between)]
    found = steps_of_logs([printed(step) for step in steps], Known(total, total, printed(total)), total)
    assert found in (steps, None)


@pytest.mark.parametrize(
    ("steps", "epochs", "known"),
    [
        ([*range(30, 751, 30)], 1950, Known(760, 760, "0.39")),
        ([*range(500, 5001, 500)], 549, Known(5490, 5490, "10.0")),
        ([1, *range(20, 1961, 20)], 1971, Known(1967.5, 1981.5, "1.0")),
        ([1138, 2276, 3414], 1138, Known(3414, 3414, "3")),
        ([*range(250, 501, 10)], 266, Known(532, 532, "2.0")),
        ([10, 20], 10_000, Known(20, 20, "0.0")),
        ([10], 100, Known(20, 20, "0.2")),
    ],
)
def test_steps_of_logs(steps: list[int], epochs: int, known: Known) -> None:
    """The last two leave more than one answer."""
    text = [f"{step / epochs:.4g}" if known.epoch == "3" else str(round(step / epochs, 2)) for step in steps]
    assert steps_of_logs(text, known, known.most) == (steps if len(steps) > 2 else None)


def test_a_training_that_logs_no_loss() -> None:
    """Shorter than logging_steps, 500 by default: only the bar has the times."""
    log = re.sub(r"\r {50}\r\{'loss'[^}]*\}\n\r[^\r\n]*", "", LOG)
    (run,) = read(log)
    assert list(run.rows.iteration) == list(range(1, 121))
    assert sum(run.rows.ms) == pytest.approx(120 * 1300, rel=0.01)
    assert [(each.iteration, each.ms) for each in run.evaluations] == EVALUATED
    assert run.rows[5].loss is None
    assert len(read(log.replace(" 119/120 [", " 999999999999/120 ["))[0].rows) == 120
    with pytest.raises(NotALog, match="a Hugging Face Trainer run that logged no loss"):
        read(log[log.index("{'train_runtime'") :])


def test_tokens_that_are_counted() -> None:
    counted = LOG.replace("'epoch': 0.1}", "'epoch': 0.1, 'num_input_tokens_seen': 5120}")
    assert read(counted)[0].value("tokens_per_iteration") is None  # the later ones do not say
    for step in STEPS:
        counted = counted.replace(
            f"'epoch': {step / 100}}}", f"'epoch': {step / 100}, 'num_input_tokens_seen': {step}00}}"
        )
    assert read(counted)[0].value("tokens_per_iteration") == 100


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (" 12%|█▏        | 199/1677 [05:36<41:13,  1.67s/it]", [(199, 1677, 336.0)]),
        ("  4% 99/2238 [1:48:23<35:43:37, 60.13s/it]", [(99, 2238, 6503.0)]),
        ("Train:   2%|▎         | 1/40 [01:08<44:41, 68.75s/it]", [(1, 40, 68.0)]),
        ("[rank0]:   2%|▎         | 1/40 [01:08<44:41, 68.75s/it]", [(1, 40, 68.0)]),
        ("  0%|          | 0/40 [00:00<?, ?it/s]", [(0, 40, 0.0)]),
        ("Epoch 1/3: 100%|██████████| 1250/1250 [00:45<00:00, 27.3it/s]", []),
        ("100%|██████████| 35/35 [00:00<00:00, 1027.60ex/s]", []),
        ("50%|##5| 1/2 [00:01<00:01, 1.0s/it]50%|##5| 2/2 [00:02<00:00, 1.0s/it]", [(1, 2, 1.0), (2, 2, 2.0)]),
    ],
)
def test_bars(line: str, found: list[tuple[int, int, float]]) -> None:
    assert [each[:3] for each in bars(line)] == found


def test_entries_and_their_parts() -> None:
    line = (
        "x {'loss': '2.9', 'a/b(c)': nan, 'text': 'it's', 'epoch': 0.5} {'eval_x_loss': 1e-05, 'epoch': '1'} {'lr': 1}"
    )
    first, second = (entry for _, entry in entries(line))
    assert (first["loss"], first["a/b(c)"], first["epoch"]) == ("2.9", "nan", "0.5")
    assert second == {"eval_x_loss": "1e-05", "epoch": "1"}
    assert step_of({"global_step/max_steps": "5/94"}) == (5, 94)
    assert step_of({"global_step": "5"}) == (5, None)
    assert step_of({"step": "²"}) == (None, None)
    assert [seconds(text) for text in ("1d 2h 3m 4s", "9m 0s", "59s", "1:02:03", "02:03", "4", None)] == [
        *(93_784, 540, 59, 3723, 123),
        *(None, None),
    ]


def test_a_list_of_what_was_logged_before() -> None:
    """ms-swift ends its logging.jsonl with it."""
    entry = '{{"loss": 1.5, "epoch": {0}, "global_step/max_steps": "{1}/40", "elapsed_time": "{1}s"}}'
    lines = [entry.format(step / 40, step) for step in range(10, 50, 10)]
    evaluated = '{"eval_loss": 1.4, "eval_runtime": 3.5, "epoch": 1.0, "global_step/max_steps": "40/40"}'
    history = [f'{{"loss": 1.5, "epoch": {step / 40}, "step": {step}}}' for step in range(10, 50, 10)]
    history.append('{"eval_loss": 1.4, "eval_runtime": 3.5, "epoch": 1.0, "step": 40}')
    end = f'{{"best_metric": 1.4, "log_history": [{", ".join(history)}]}}'
    (run,) = read("\n".join([*lines, evaluated, end]) + "\n")
    assert (list(run.rows.iteration), run.restarts) == ([10, 20, 30, 40], ())
    assert sum(each.ms or 0 for each in run.evaluations) + sum(each.ms for each in run.spans) == 3500


def swift_line(step: int, at_s: float, speed: str) -> str:
    elapsed = f"{int(at_s) // 60}m {int(at_s) % 60}s"
    return (
        f'{{"loss": 1.5, "epoch": 0.1, "global_step/max_steps": "{step}/94", "elapsed_time": "{elapsed}", {speed}}}\n'
    )


@pytest.mark.parametrize("is_rate", [False, True])
def test_a_mean_speed_tells_fractions_of_a_second(is_rate: bool) -> None:
    """ms-swift's: six decimals, of which trailing zeros are missing."""
    took = [1.012345 + 0.37 * (step % 5) for step in range(1, 95)]
    ends = [sum(took[:step]) for step in range(1, 95)]
    speeds = [round(step / at if is_rate else at / step, 6) for step, at in enumerate(ends, 1)]
    key = "train_speed(iter/s)" if is_rate else "train_speed(s/it)"
    lines = [swift_line(step, ends[step - 1], f'"{key}": {speeds[step - 1]}') for step in range(1, 95)]
    (run,) = read("".join(lines))
    assert list(run.rows.ms) == pytest.approx([1000 * each for each in took], abs=30)
    assert not run.caveats


@pytest.mark.parametrize("speed", ["'1.74'", "9.123456", "'x'", "0.0"])
def test_a_mean_speed_that_tells_nothing(speed: str) -> None:
    """It has four digits, or is that of something else."""
    lines = [swift_line(step, 1.74 * step, f'"train_speed(s/it)": {speed}') for step in range(1, 95)]
    (run,) = read("".join(lines))
    assert sum(run.rows.ms) == pytest.approx(94 * 1740, rel=0.01)
    assert [each.code for each in run.caveats] == ["whole_seconds"]
