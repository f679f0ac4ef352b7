"""trainer_state.json: rows without a time, unless tokens are counted, and which set an evaluation used."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from nanopace.diagnosis.diagnose import diagnose
from nanopace.errors import InputError
from nanopace.sources.formats.hugging_face import trainer_state
from nanopace.sources.runs import open_runs

from ...reading import read_one
from ..examples.hugging_face import EXAMPLES


def state(*history: dict[str, Any], **more: Any) -> str:
    return json.dumps({"epoch": 1.0, "log_history": history, "max_steps": 40, **more}, indent=2)


def row(step: int, loss: Any = 2.0, **more: Any) -> dict[str, Any]:
    return {"epoch": step / 40, "loss": loss, "step": step, **more}


def test_a_run_without_times() -> None:
    run = read_one(EXAMPLES["hf_trainer_state"])
    assert len(run.rows) == 0
    assert list(run.untimed_rows.iteration) == list(range(10, 130, 10))
    assert run.untimed_rows.loss[0] == 4.8859
    assert [(each.iteration, each.val, each.ms) for each in run.evaluations] == [
        (40, pytest.approx(3.6537), 2500),
        (80, pytest.approx(2.6544), 2500),
        (120, pytest.approx(2.1413), 2500),
    ]
    assert (run.value("max_iters"), run.wall_ms, run.ending) == (120, 46_700, "finished")
    assert run.rows_cover == 1
    assert run.row_loss == "smoothed"


@pytest.mark.parametrize("before", ["", " \n", "\ufeff"])
def test_the_history_alone_is_read_too(before: str) -> None:
    run = read_one(before + json.dumps([row(10), row(20, 1.5), {"epoch": 1, "eval_loss": 1.7, "step": 20}]))
    assert (list(run.untimed_rows.loss), len(run.evaluations)) == ([2.0, 1.5], 1)


def test_where_tokens_are_counted_there_is_a_clock() -> None:
    """It keeps running during evaluations, and restarts in a resumed process."""
    counted = [row(10, train_runtime=5.0), row(20, train_runtime=9.0), {"epoch": 1, "eval_loss": 2.1, "step": 20}]
    counted[-1]["eval_runtime"] = 3.0
    run = read_one(state(*counted, row(30, train_runtime=16.0), num_input_tokens_seen=30 * 512, global_step=30))
    assert list(run.rows.ms) == [500, 400, 400]
    assert (run.rows_cover, run.value("tokens_per_iteration")) == (10, 512)
    assert run.row_contains_evaluation is False
    resumed = read_one(state(*counted, row(30, train_runtime=6.0), row(40, train_runtime=10.0)))
    assert [each.iteration for each in resumed.restarts] == [30]


def test_tokens_that_differ_from_step_to_step_are_no_fact() -> None:
    assert read_one(state(row(10), num_input_tokens_seen=5121, global_step=10)).value("tokens_per_iteration") is None


def test_of_several_validation_sets_the_first_one_counts() -> None:
    first, other = {"eval_wiki_loss": 3.0, "eval_wiki_runtime": 2.0}, {"eval_code_loss": 1.0, "eval_code_runtime": 4.0}
    entries = [{"epoch": 1, "step": step, **each} for step in (10, 20) for each in (first, other)]
    run = read_one(state(row(10), *entries[:2], row(20), *entries[2:]))
    assert [(each.iteration, each.val, each.ms) for each in run.evaluations] == [(10, 3.0, 2000), (20, 3.0, 2000)]
    assert [(span.iteration, span.ms) for span in run.spans] == [(10, 4000), (20, 4000)]


@pytest.mark.parametrize(
    ("runtimes", "evaluation_s", "wall_ms"),
    [((90.0,), 9.0, 90_000), ((90.0, 50.0), 9.0, None), ((5.0,), 9.0, None), ((), 9.0, None)],
)
def test_what_a_run_took_is_known_of_one_process(
    runtimes: tuple[float, ...], evaluation_s: float, wall_ms: float | None
) -> None:
    evaluation = {"epoch": 1, "eval_loss": 2.1, "eval_runtime": evaluation_s, "step": 10}
    ends = [{"epoch": 1, "step": 10, "train_runtime": each, "train_steps_per_second": 0.5} for each in runtimes]
    run = read_one(state(row(10), evaluation, *ends))
    assert run.wall_ms == wall_ms
    assert run.ending == ("finished" if runtimes else None)
    told = {each.code: dict(each.numbers) for each in run.caveats}
    rate = {"printed": 0.5, "evaluation_s": 9.0, "runtime_s": 90.0}
    assert told == ({"rate_with_evaluations": rate} if wall_ms else {})


def ended(step: int, train_loss: float) -> dict[str, Any]:
    return {"epoch": step / 40, "step": step, "train_loss": train_loss, "train_runtime": 90.0}


def test_the_mean_step_counts_the_steps_after_the_last_row() -> None:
    """A row every 10 steps, 29 steps: 90 s of those are 3.1 s each, not 4.5."""
    run = read_one(state(row(10, 4.0), row(20, 3.0), ended(29, 3.0), max_steps=40))
    assert (run.wall_ms, run.ended_at) == (90_000, 29)
    (untimed,) = (each for each in diagnose(run).findings if each.code == "untimed_log")
    assert untimed.numbers["mean_step_s"] == pytest.approx(90 / 29)


@pytest.mark.parametrize(
    ("losses", "train_loss", "resumed"),
    [
        ((4.0, 3.0, 2.0, 1.0), 2.5, False),
        ((4.0, 3.0, 2.0, 1.0), 2.5003, False),  # steps after the last row count, too
        ((4.0, 3.0, 2.0, 1.0), 0.75, True),  # the last 20 steps over all 40
        ((4.0, 3.0, -2.0, 1.0), 0.75, False),  # rewards have no such sum
        ((math.inf, 3.0, 2.0, 1.0), 0.75, False),
    ],
)
def test_a_resumed_run_has_only_the_time_of_its_last_process(
    losses: tuple[float, ...], train_loss: float, resumed: bool
) -> None:
    rows = [row(10 * number, loss) for number, loss in enumerate(losses, 1)]
    run = read_one(state(*rows, ended(40, train_loss)))
    assert run.wall_ms == (None if resumed else 90_000)


@pytest.mark.parametrize("loss", ["NaN", "Infinity", '"1.5"', "1e999"])
def test_losses_as_json_has_them(loss: str) -> None:
    run = read_one('{"log_history": [{"loss": ' + loss + ', "step": 1, "epoch": 1}]}')
    assert run.untimed_rows.loss[0] == (1.5 if "1.5" in loss else float("inf"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (state(), "log: its log_history has no loss; there is nothing to explain"),
        (state({"loss": True, "step": 1}, {"loss": 2.0, "step": -1}), "has no loss"),
        (state({"loss": 2.0, "step": 10**30}, {"loss": 2.0}), "has no loss"),
        (state(row(1))[:-9], "log: is not complete JSON: "),
        ('{"log_history": [' + '{"a": ' * 100_000, "is not complete JSON"),
        ('{"log_history": [' + "[" * 200_000, "nested too deeply"),
        ('{"log_history": [1' + "0" * 5000 + "]}", "is not complete JSON"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_line(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read_one(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_large_a_file_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer_state, "MOST_BYTES", 1 << 20)
    with pytest.raises(InputError, match="is read up to 1 MB"):
        read_one(state(row(1)) + " " * (1 << 20))


def of_directory(directory: Path, states: dict[str, str]) -> list[int]:
    """The last step of each run that a directory holds."""
    for place, text in states.items():
        (directory / place).parent.mkdir(parents=True, exist_ok=True)
        (directory / place).write_text(text)
    return [run.untimed_rows.iteration[-1] for run in open_runs(directory)]


def test_the_checkpoints_of_a_run_are_one_run(tmp_path: Path) -> None:
    """Every checkpoint has the history up to it. The final state is next to them, or missing."""
    history = [row(step, float("nan") if step == 10 else 3.0 - step / 100) for step in range(10, 130, 10)]
    states = {f"checkpoint-{last}/trainer_state.json": state(*history[: last // 10]) for last in (20, 40, 100)}
    assert of_directory(tmp_path / "ended", states) == [100]
    at_end = {"trainer_state.json": state(*history, {"step": 120, "train_runtime": 60.0, "train_loss": 2.0})}
    assert of_directory(tmp_path / "saved", states | at_end) == [120]
    assert of_directory(
        tmp_path / "twice", {f"{run}/{name}": text for run in "ab" for name, text in states.items()}
    ) == [
        100,
        100,
    ]


def test_a_checkpoint_that_another_run_left_is_another_run(tmp_path: Path) -> None:
    others = [row(step, 2.5) for step in range(10, 50, 10)]
    history = [row(step, 2.0) for step in range(10, 110, 10)]
    states = {
        "checkpoint-20/trainer_state.json": state(*history[:2]),
        "checkpoint-40/trainer_state.json": state(*others),
        "checkpoint-100/trainer_state.json": state(*history),
        "checkpoint-60/trainer_state.json": state(*history[:6]).removesuffix("}"),  # cut: it says nothing
    }
    assert sorted(of_directory(tmp_path, states)) == [40, 100]


def runs_in(directory: Path, files: dict[str, str]) -> list[str]:
    for place, text in files.items():
        (directory / place).parent.mkdir(parents=True, exist_ok=True)
        (directory / place).write_text(text)
    return sorted(run.name for run in open_runs(directory))


def test_a_state_next_to_a_log_with_times_is_the_same_run(tmp_path: Path) -> None:
    """LLaMA-Factory's and ms-swift's."""
    losses = {step: 3.0 - step / 100.3 for step in range(10, 110, 10)}
    states = {
        f"checkpoint-{last}/trainer_state.json": state(*(row(at, losses[at]) for at in losses if at <= last))
        for last in (50, 100)
    }
    final = {"trainer_state.json": state(*(row(at, loss) for at, loss in losses.items()), ended(100, 2.5))}
    factory = "".join(
        f'{{"current_steps": {at}, "total_steps": 100, "loss": {loss:.4f}, "epoch": 0.1, '
        f'"elapsed_time": "0:00:{at // 2:02d}"}}\n'
        for at, loss in losses.items()
    )
    swift = "".join(
        f'{{"loss": {loss:.8f}, "epoch": 0.1, "global_step/max_steps": "{at}/100", "elapsed_time": "{at // 2}s"}}\n'
        for at, loss in losses.items()
    )
    assert runs_in(tmp_path / "factory", states | final | {"trainer_log.jsonl": factory}) == ["trainer_log.jsonl"]
    assert runs_in(tmp_path / "swift", states | {"logging.jsonl": swift}) == ["logging.jsonl"]
    others = {"trainer_state.json": state(*(row(at, loss + 0.1) for at, loss in losses.items()))}
    assert len(runs_in(tmp_path / "others", others | {"trainer_log.jsonl": factory})) == 2
    longer = {"trainer_state.json": state(*(row(at, losses.get(at, 1.0)) for at in range(10, 210, 10)))}
    assert len(runs_in(tmp_path / "longer", longer | {"trainer_log.jsonl": factory})) == 2
