"""Real processes that train."""

from __future__ import annotations

from pathlib import Path

import pytest

from nanopace.literals import Value
from nanopace.tune.trial import LOG, Outcome, data_share, introduction, last_line, run_trial, settings_of_trial

from ..train.conftest import TINY, write_corpus


def tried(folder: Path, knobs: dict[str, Value], timeout_s: float = 120, *, steps: int = 4) -> Outcome:
    settings = {**TINY, "dataset": str(write_corpus(folder / "corpus")), **knobs}
    return run_trial(settings_of_trial(settings, steps, evaluates=True), folder / "trial", timeout_s)


@pytest.mark.slow
def test_a_trial_says_how_fast_it_was_and_leaves_no_checkpoint(tmp_path: Path) -> None:
    found = tried(tmp_path, {})
    assert found.worked, found.said
    assert len(found.step_ms) == 3  # of the five, two settle
    assert found.tokens_per_second > 0
    assert found.loss is not None
    assert found.flops_per_token is not None
    assert not list((tmp_path / "trial" / "out" / "checkpoints").iterdir())
    event = introduction(tmp_path / "trial")
    assert event.config["batch_size"] == TINY["batch_size"]
    assert 0 <= (data_share(tmp_path / "trial") or 0) < 1
    assert introduction(tmp_path) is None
    assert data_share(tmp_path) is None


@pytest.mark.slow
def test_where_no_config_is_given_the_machine_decides(tmp_path: Path) -> None:
    small: dict[str, Value] = {"device": "cpu", "n_layer": 1, "dataset": str(write_corpus(tmp_path / "corpus"))}
    found = run_trial(settings_of_trial(small, 2), tmp_path / "trial", 120, machine_decides=True)
    assert found.worked, found.said
    event = introduction(tmp_path / "trial")
    assert (event.config["n_layer"], event.config["n_embd"], event.config["batch_size"]) == (1, 128, 8)


@pytest.mark.slow
def test_one_that_fails_or_hangs_is_a_result(tmp_path: Path) -> None:
    failed = tried(tmp_path / "a", {"n_head": 3})
    assert (failed.failure, failed.tokens_per_second) == ("error", None)
    assert failed.said.startswith("n_embd must be a multiple of n_head")
    hung = tried(tmp_path / "b", {}, timeout_s=2, steps=10**6)
    assert hung.failure == "time"
    assert hung.seconds < 60


@pytest.mark.parametrize(("evaluates", "iterations"), [(True, None), (False, 1)])
def test_nothing_but_steps_is_asked_for(evaluates: bool, iterations: int | None) -> None:
    settings = settings_of_trial({"batch_size": 3, "init_from": "resume"}, 7, evaluates=evaluates)
    assert settings["batch_size"] == 3
    assert (settings["max_iters"], settings["save_interval"], settings["init_from"]) == (7, -1, "scratch")
    assert settings.get("eval_iters") == iterations


def test_why_it_failed_is_the_line_that_names_the_error(tmp_path: Path) -> None:
    log = tmp_path / LOG
    assert last_line(log) == ""
    log.write_text("iter 0\nnanopace: no such corpus\n")
    assert last_line(log) == "no such corpus"
    log.write_text("Traceback\n  File x\ntorch._inductor.exc.InductorError: no compiler\n\nSet VERBOSE=1 for more\n")
    assert last_line(log) == "torch._inductor.exc.InductorError: no compiler"
