"""How trials are run: what is stored is not run again, and what a failure ends. The runs themselves are in
test_trial.py and cli/test_ablate.py."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from nanopace.config import KNOBS
from nanopace.literals import Value
from nanopace.tune.ablate import trials
from nanopace.tune.ablate.trials import Trial, Tried, measure, plan_text, read_results, settings_of_repeat
from nanopace.tune.results import RESULTS
from nanopace.tune.trial import Outcome


def outcome(rate: float) -> Outcome:
    return Outcome(failure=None, seconds=1.0, tokens_per_second=rate)


def two_rounds(*names: str) -> list[Trial]:
    settings = [frozenset[str](), *(frozenset([name]) for name in names)]
    return [Trial(some, repeat, {"seed": repeat}) for repeat in (0, 1) for some in settings]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The directories of the trials, of which the third runs out of memory."""
    folders: list[Path] = []

    def run_trial(_: Mapping[str, Value], folder: Path, __: float) -> Outcome:
        folder.mkdir()
        folders.append(folder)
        return Outcome(failure="memory", seconds=1.0) if len(folders) == 3 else outcome(float(len(folders)))

    monkeypatch.setattr(trials, "run_trial", run_trial)
    return folders


def test_what_is_there_is_not_run_again_and_a_failure_ends_it(tmp_path: Path, ran: list[Path]) -> None:
    plan = two_rounds("batch_size")
    told: list[Tried] = []
    tried = measure(plan, tmp_path, 60, told.append)
    assert told == tried
    assert [each.outcome.failure for each in tried] == [None, None, "memory"]
    kept = (tmp_path / RESULTS).read_text()
    (tmp_path / RESULTS).write_text(kept[:-20])  # torn, as by a kill
    assert [each.outcome for each in read_results(tmp_path)] == [each.outcome for each in tried[:2]]
    again = measure(plan, tmp_path, 60, told.append)
    assert [each.outcome.tokens_per_second for each in again] == [1.0, 2.0, 4.0, 5.0]
    assert len(set(ran)) == 5  # no directory is used twice
    assert [each.outcome for each in read_results(tmp_path)] == [each.outcome for each in again]


def test_where_not_all_are_needed_only_what_failed_is_not_run_again(tmp_path: Path, ran: list[Path]) -> None:
    plan = two_rounds("batch_size", "n_layer", "n_embd")  # the third is n_layer
    tried = measure(plan, tmp_path, 60, lambda _: None, all_needed=False)
    assert [(sorted(each.changed), each.repeat) for each in tried] == [
        ([], 0),
        (["batch_size"], 0),
        (["n_layer"], 0),
        (["n_embd"], 0),
        ([], 1),
        (["batch_size"], 1),
        (["n_embd"], 1),
    ]
    again = measure(plan, tmp_path, 60, lambda _: None, all_needed=False)
    assert again == tried
    assert len(ran) == 7  # the stored failure counts as well


def test_without_a_itself_there_is_nothing_to_compare_with(tmp_path: Path, ran: list[Path]) -> None:
    plan = two_rounds("batch_size")[1:]  # A is the second one, and the third run
    ran += [tmp_path / "before"]
    tried = measure(plan, tmp_path, 60, lambda _: None, all_needed=False)
    assert [(sorted(each.changed), each.outcome.failure) for each in tried] == [(["batch_size"], None), ([], "memory")]


def test_each_repeat_has_the_next_seed_and_what_a_recipe_decides_is_left_out() -> None:
    default = KNOBS["seed"].default
    settings = settings_of_repeat({"batch_size": 4, "beta2": None}, 2, 7, evaluates=False)
    assert (settings["seed"], settings["batch_size"], settings["max_iters"], settings["eval_iters"]) == (
        default + 2,
        4,
        7,
        1,
    )
    assert "beta2" not in settings
    evaluated = settings_of_repeat({"seed": 5}, 1, 7, evaluates=True)
    assert evaluated["seed"] == 6
    assert "eval_iters" not in evaluated


def test_plans_differ_by_what_they_run() -> None:
    plan = two_rounds("batch_size")
    texts = {
        plan_text(plan),
        plan_text(plan[:-1]),
        plan_text([*plan[:-1], Trial(plan[-1].changed, 1, {"seed": 2})]),
        plan_text(two_rounds("n_embd")),
    }
    assert len(texts) == 4
