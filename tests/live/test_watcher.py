"""Which comments appear below the lines of a training run, and when."""

from __future__ import annotations

import pytest

from nanopace.ledger import EndEvent, RunEvent, StallEvent, StepEvent
from nanopace.ledger.codec import to_json
from nanopace.live.last_words import Close
from nanopace.live.watcher import AT_REST_S
from nanopace.sources.infer.infer import complete

from .made_up import HEADER, Heard, rows


def test_a_healthy_training_has_its_start_its_evaluations_and_its_status() -> None:
    heard = Heard(rows(0, 120), gpu="4090")
    assert heard.alerts == []
    start, status, *evaluations = heard.texts
    assert start.startswith("Iteration 0 took 4.10 s instead of 100 ms: the first evaluation and the warm-up")
    assert status == (
        "iteration 4 of 200, 2%, 19.6 s left without the evaluations, 81.9k tokens/s, 100.1 ms per step, "
        "~42% of the RTX 4090, evaluation at 50 in 4.60 s"
    )
    assert evaluations == [
        f"Iteration {at} is slow, but not because of training: evaluation + checkpoint 4.00 s, the step 100 ms."
        for at in (50, 100)
    ]


HAPPENINGS = [
    ({"took": {60: 30_100.0}}, ("stall", 60), "Iteration 60 took 30.1 s instead of 100 ms, for no reason the log"),
    ({"took": {60: 300.0}}, None, "Iteration 60 took 0.30 s instead of 100 ms, for no reason the log shows."),
    ({"losses": {70: "nan", 71: "nan"}}, ("nan", 70), "The loss is NaN or infinite at iteration 70."),
    ({"losses": {70: "9.9000"}}, ("spike", 70), "The loss spiked to 9.9000 at iteration 70: "),
    ({"losses": {70: "9.9", 71: "9.95", 80: "9.99"}}, ("spike", 70), "The loss spiked to 9.9000 at iteration 70: "),
]


@pytest.mark.parametrize(("what", "alert", "said"), HAPPENINGS, ids=lambda each: str(each)[:40])
def test_what_happens_to_a_row_is_said_once(what: dict[str, dict[int, float]], alert: object, said: str) -> None:
    heard = Heard()
    heard.lines(rows(0, 120, **what))  # type: ignore[arg-type]
    assert heard.alerts == ([alert] if alert else [])
    assert sum(text.startswith(said) for text in heard.texts) == 1
    usual = Heard(rows(0, 120))
    assert [text for text in heard.texts if text not in usual.texts and not text.startswith("iteration ")] == [
        next(text for text in heard.texts if text.startswith(said))
    ]


@pytest.mark.parametrize(
    ("ratio", "said"),
    [(1.3, "From iteration 80 on, a step takes 129.9"), (2.2, "From iteration 80 on, a step takes 2.2x as long")],
)
def test_a_slower_pace_is_an_alert_and_its_end_is_told(ratio: float, said: str) -> None:
    heard = Heard(rows(0, 80), rows(80, 130, ms=100 * ratio))
    assert [event for event, _ in heard.alerts] == ["slower"]
    shift = next(each for each in heard.said if each.event == "slower")
    assert shift.text.startswith(said)
    assert shift.iteration == 80
    heard.wait(2)
    tokens = 8.192 / (0.1 * ratio)
    assert f"{tokens:.1f}k tokens/s" in "".join(heard.watcher.footer(200)), "of now"
    before = len(heard.said)
    heard.lines(rows(130, 190))
    back = [each for each in heard.said[before:] if each.text.startswith("From iteration 130 on, a step takes 100")]
    assert [each.event for each in back] == [None]


@pytest.mark.usefixtures("untraced")
def test_a_pace_that_goes_to_and_fro_is_said_once() -> None:
    heard = Heard(header=HEADER.replace("max_iters = 200", "max_iters = 2000"))
    for at in range(0, 800, 80):
        heard.lines(rows(at, at + 80, ms=100.0 if at % 160 == 0 else 130.0, evaluate=10_000))
    assert [event for event, _ in heard.alerts] == ["slower"]
    heard.lines(rows(800, 880, ms=170.0, evaluate=10_000))
    assert [event for event, _ in heard.alerts] == ["slower", "slower"], "even slower"


def test_times_of_rows_that_cover_several_iterations_are_said_of_one() -> None:
    heard = Heard(header="")
    for at in range(1, 81):
        seconds = 13 * at + (0 if at < 60 else 40)
        heard.lines(
            [
                f'{{"current_steps": {10 * at}, "total_steps": 2000, "loss": {3 - at / 100:.4f}, "epoch": 0.1, '
                f'"percentage": 5.0, "elapsed_time": "{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"}}'
            ]
        )
    said = [text for text in heard.texts if "for no reason" in text]
    assert [text[:43] for text in said] == ["Iteration 600 took 5.30 s instead of 1.30 s"]


@pytest.mark.parametrize("scheduled", [True, False])
def test_a_pace_that_changes_by_plan_is_no_alert(scheduled: bool) -> None:
    code = f"import os\n{'ws_schedule = (3, 7, 11)' if scheduled else 'x = 1'}\n{'=' * 100}\n"
    heard, at_ms = Heard(header=code + "step:0/400 val_loss:10.8258 train_time:0ms step_avg:nanms"), 0
    for step in range(1, 201):
        at_ms += 100 if step <= 100 else 150
        heard.lines([f"step:{step}/400 train_time:{at_ms}ms step_avg:100.00ms"])
        if step % 50 == 0:
            heard.lines([f"step:{step}/400 val_loss:5.0000 train_time:{at_ms}ms step_avg:100.00ms"])
    assert [event for event, _ in heard.alerts] == ([] if scheduled else ["slower"])


def test_a_warm_up_that_gets_faster_is_nothing_to_tell() -> None:
    heard = Heard(rows(0, 30, ms=150.0), rows(30, 120))
    assert not any("From iteration" in text for text in heard.texts)


def test_a_longer_evaluation_than_before_is_an_alert() -> None:
    heard = Heard(rows(0, 160), rows(160, 201, took={200: 60_000.0}))
    assert heard.alerts == [("stall", 200)]
    assert heard.texts[-1] == (
        "Iteration 200 is slow, but not because of training: evaluation + checkpoint 1 min 4 s, the step 100 ms. "
        "Earlier ones took 4.00 s."
    )


def test_slow_rows_without_end_are_not_said_without_end() -> None:
    heard = Heard()
    heard.lines(rows(0, 150, took=dict.fromkeys(range(20, 150, 6), 180.0)), each_s=0.5)
    said = [text for text in heard.texts if "for no reason" in text]
    assert len(said) == 3
    assert said[1].endswith("8 more rows have been slow since the last comment.")


def test_the_status_comes_every_five_minutes_and_after_evaluations_but_not_without_rows() -> None:
    heard = Heard()
    heard.lines(rows(0, 49), each_s=10.0)
    assert [text.split(" of ")[0] for text in heard.texts if text.startswith("iteration")] == [
        *("iteration 4", "iteration 34"),
    ]
    before = len(heard.texts)
    heard.wait(400)
    assert len(heard.texts) == before
    heard.lines(rows(49, 60), each_s=10.0)
    assert heard.texts[-1].startswith("iteration 50 of 200, 25%, ")


def test_of_stalls_in_a_row_the_first_is_told() -> None:
    heard = Heard(rows(0, 100, took={60: 30_000.0, 61: 30_000.0, 62: 30_000.0}))
    assert heard.alerts == [("stall", 60)]


@pytest.mark.parametrize(("device", "alerts"), [("cuda", [("slower", 80)]), ("cpu", [])])
def test_on_a_cpu_the_pace_may_change_a_little(device: str, alerts: list[tuple[str, int]]) -> None:
    header = HEADER.replace("log_interval", f"device = '{device}'\nlog_interval")
    heard = Heard(rows(0, 80), rows(80, 130, ms=115.0), header=header)
    assert heard.alerts == alerts


def test_lines_that_are_printed_twice_are_told_of_once() -> None:
    heard = Heard([line for line in rows(0, 120, took={60: 300.0}) for _ in range(2)])
    assert sum("Iteration 60 took" in text for text in heard.texts) == 1
    assert sum("Iteration 100 is slow, but not because" in text for text in heard.texts) == 1


def test_silence_counts_evaluations_and_its_end_is_told() -> None:
    heard = Heard(rows(0, 60))
    heard.wait(50)
    assert heard.alerts == []
    heard.wait(20)
    assert heard.alerts == [("silent", 59)]
    assert heard.texts[-1].startswith("No line for 1 min ")
    assert heard.texts[-1].endswith("; they usually arrive every 100 ms. The last row was iteration 59.")
    heard.wait(500)
    assert len(heard.alerts) == 1
    heard.lines(rows(60, 61))
    assert heard.texts[-2].startswith("Lines are arriving again after 9 min ")


def test_before_its_first_evaluation_a_training_may_be_silent_for_longer() -> None:
    heard = Heard([line for line in rows(1, 40) if line.startswith("iter")], header="")
    heard.wait(500)
    assert heard.alerts == []
    heard.wait(200)
    assert heard.alerts == [("silent", 39)]


def test_a_watch_that_stood_still_itself_does_not_call_the_training_silent() -> None:
    """Ctrl-Z stops both."""
    heard = Heard(rows(0, 60))
    heard.now += 3600.0
    heard.wait(30)
    assert heard.alerts == []


def test_a_person_s_own_limit_of_silence() -> None:
    heard = Heard(rows(0, 40), silent_s=7.0)
    heard.wait(6)
    assert heard.alerts == []
    heard.wait(2)
    assert heard.alerts == [("silent", 39)]


def test_what_was_there_before_is_read_in_silence() -> None:
    heard = Heard(live=False)
    heard.lines(rows(0, 150, took={60: 30_000.0}), live=False)
    assert heard.said == []
    heard.wait(1)
    (status,) = heard.texts
    assert status.startswith("iteration 149 of 200, 74%, 9.18 s left, ")


ENDS = [
    (["Traceback (most recent call last):", "torch.cuda.OutOfMemoryError: CUDA out of memory."], "out_of_memory", 119),
    (["Traceback (most recent call last):", "ValueError: no"], "error", 119),
    (["KeyboardInterrupt"], "interrupted", 119),
    ([], "died", 119),
    (list(rows(120, 201)), "finished", 200),
]


@pytest.mark.parametrize(("lines", "event", "at"), ENDS, ids=[each[1] for each in ENDS])
def test_how_it_ended(lines: list[str], event: str, at: int) -> None:
    heard = Heard(rows(0, 120), lines)
    heard.watcher.finish(Close(closed=True))
    assert heard.alerts == [(event, at)]
    assert any(text.startswith("A normal step takes 100 ms. ") for text in heard.texts)


def test_an_error_is_told_before_the_pipe_closes_and_not_twice() -> None:
    heard = Heard([*rows(0, 60), "Traceback (most recent call last):", "ValueError: no"])
    heard.wait(3)
    assert heard.alerts == [("error", 59)]
    heard.watcher.finish(Close(closed=True))
    assert heard.alerts == [("error", 59)]


@pytest.mark.parametrize("header", ["", HEADER.replace("max_iters = 200\n", "")], ids=["unknown", "by default"])
def test_where_its_end_is_unknown_nobody_calls_it_dead(header: str) -> None:
    heard = Heard(rows(0, 60), header=header)
    heard.watcher.finish(Close(closed=True))
    assert heard.alerts == [("ended", 59)]
    left = Heard(rows(0, 60))
    left.watcher.finish(Close(closed=False))
    assert left.alerts == []


def test_a_finished_log_is_over_when_it_rests() -> None:
    heard = Heard(rows(0, 201))
    heard.wait(AT_REST_S - 1)
    assert not heard.watcher.over
    heard.wait(2)
    assert heard.watcher.over


def test_a_restart_is_told_and_its_rows_are_judged_anew() -> None:
    heard = Heard([*rows(0, 70), "Resuming training from out", *rows(50, 100, took={51: 900.0})])
    assert "Training resumes at iteration 50; it had reached 69 before." in heard.texts
    assert heard.alerts == []


def test_another_run_in_the_same_pipe_has_a_start_of_its_own() -> None:
    heard = Heard()
    heard.lines(
        [*rows(0, 60), "Initializing a new model from scratch", *rows(0, 30, evaluation_ms=9000.0)], each_s=0.05
    )
    said = [text.split(" instead")[0] for text in heard.texts if text.startswith("Iteration 0 took")]
    assert said == ["Iteration 0 took 4.10 s", "Iteration 0 took 9.10 s"]


def test_several_processes_in_one_pipe_are_no_restarts() -> None:
    twice = [line for line in rows(0, 100) for _ in range(2)]
    twice = [line.replace("time ", "time 1") if number % 2 else line for number, line in enumerate(twice)]
    heard = Heard(twice)
    heard.watcher.finish(Close(closed=True))
    assert not any("Training resumes" in text for text in heard.texts)
    assert any("Several processes wrote to this log" in text for text in heard.texts)


def test_ranks_are_told_apart() -> None:
    heard = Heard([f"[rank{rank}]: {line}" for line in rows(0, 100) for rank in range(4)])
    assert any("Iteration 50 is slow, but not because of training" in text for text in heard.texts), "before the end"
    heard.watcher.finish(Close(closed=True))
    assert any("4 ranks write to this log" in text for text in heard.texts)
    assert not any("Training resumes" in text for text in heard.texts)


def test_rows_that_come_in_blocks() -> None:
    heard = Heard()
    lines = list(rows(0, 200, evaluation_ms=0.0))
    for begin in range(0, 200, 60):
        heard.now += 6.0
        heard.lines(["\n".join(lines[begin : begin + 60])], each_s=0.0)
    assert sum(text.startswith("Rows arrive in blocks of about 5") for text in heard.texts) == 1


def test_a_ledger_says_more() -> None:
    heard = Heard(header="")
    run = RunEvent("2026-01-01T00:00:00+00:00", "0.1.0", config={"max_iters": 400}, tokens_per_iteration=1000)
    events = [run, *(StepEvent(i, 100.0, loss=3.0, at_ms=100.0 * i) for i in range(60))]
    events += [StallEvent(60, 20_000.0, "data"), StallEvent(60, 90_000.0, "suspend")]
    events += [StepEvent(60, 100.0, loss=9.0, spike=8.0), StepEvent(61, 100.0, loss=float("nan"), skipped=True)]
    heard.lines([to_json(event) for event in events])
    assert heard.alerts == [("stall", 60), ("spike", 60), ("nan", 61)]
    assert any("was suspended once, for 1 min 30 s" in text for text in heard.texts)
    heard.lines([to_json(EndEvent("finished"))])
    heard.watcher.finish(Close(closed=True))
    assert heard.alerts[-1] == ("finished", 61)


def test_rows_that_are_held_back_until_an_evaluation_show_how_far_it_is() -> None:
    """modded-nanogpt's rows get their times when the next evaluation shows how far the program was ahead of its GPU."""
    heard = Heard(header="step:0/1000 val_loss:10.8258 train_time:0ms step_avg:nanms")
    ahead = [
        f"step:{at}/1000 train_loss:5.{900 - at} train_time:{100 * at - 90}ms step_avg:95.00ms" for at in range(1, 61)
    ]
    heard.lines(ahead[:20])
    assert heard.texts == [], "the first rows are too short"
    assert heard.watcher.footer(80)[0].startswith("iteration 1"), "but a footer says how far it is"
    heard.lines(ahead[20:])
    (status,) = heard.texts
    assert status.startswith("iteration 3")
    assert status.endswith(" left without the evaluations, 100.0 ms per step")
    heard.lines([f"step:{at}/1000 train_loss:nan train_time:{100 * at - 90}ms step_avg:95.00ms" for at in (61, 62)])
    heard.wait(2)
    assert heard.alerts == [("nan", 61)], "at once"
    heard.wait(700)
    assert heard.alerts[1:] == [("silent", 62)]
    heard.lines(["step:62/1000 val_loss:nan train_time:6200ms step_avg:100.00ms"])
    assert len(heard.alerts) == 2
    assert not any("took" in text for text in heard.texts)


def test_a_log_without_times_has_a_time_left_by_the_clock_here() -> None:
    heard = Heard(header="epoch,step,train_loss")
    heard.watcher._standing._complete = lambda run: complete(run, None, {"max_iters": 1000}, None)
    heard.lines([f"0,{at},{5 - at / 400:.4f}" for at in range(0, 500, 10)], each_s=20.0)
    heard.watcher.finish(Close(closed=False))
    assert "iteration 190 of 1,000, 19%, 27 min 0 s left" in heard.texts
    assert heard.alerts == []


def test_text_that_is_no_log() -> None:
    heard = Heard(["hello", "world"] * 30, header="")
    assert heard.said == []
    heard.watcher.finish(Close(closed=True))
    (said,) = heard.texts
    assert said.startswith("No training log found in these lines; supported: logs from nanoGPT")


def test_lines_that_were_left_out_are_told_and_the_figures_that_need_them_are_not() -> None:
    heard = Heard(rows(0, 120))
    heard.watcher.finish(Close(closed=True, left_out=2000))
    assert "2,000 lines arrived too fast to be read" in heard.texts[-4]
    assert heard.texts[-2].startswith("A normal step takes 100 ms.")
