"""The callback in Hugging Face's own Trainer, with a tiny GPT-2 on the CPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nanopace import diagnose, open_run
from nanopace.cli.main import main
from nanopace.ledger import CheckpointEvent, EndEvent, EvalEvent, NoteEvent, RunEvent, StepEvent

from ..clock.hands import ledger_of

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

LAYERS, WIDTH, VOCABULARY, CONTEXT = 1, 16, 40, 16


def trainer(folder: Path, *callbacks: Any, steps: int = 12, **arguments: Any) -> Any:
    torch.manual_seed(1)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS, n_head=2, bos_token_id=0,
        eos_token_id=0,
    )  # fmt: skip
    tokens = [{"input_ids": row, "labels": row} for row in torch.randint(0, VOCABULARY, (40, CONTEXT))]
    settings = {
        "output_dir": str(folder),
        "max_steps": steps,
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 2,
        "eval_strategy": "steps",
        "eval_steps": 4,
        "save_steps": 6,
        "logging_steps": 1,
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        "learning_rate": 1e-2,
        **arguments,
    }
    made = transformers.Trainer(
        transformers.GPT2LMHeadModel(config),
        transformers.TrainingArguments(**settings),
        train_dataset=tokens,
        eval_dataset=tokens[:8],
        callbacks=list(callbacks),
    )
    made.remove_callback(transformers.PrinterCallback)
    return made


def callback(**facts: Any) -> Any:
    from nanopace.integrations.hugging_face import NanopaceCallback

    return NanopaceCallback(**facts)


def test_a_training_with_evaluations_and_saves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training = trainer(tmp_path, callback(config={"block_size": CONTEXT}), include_num_input_tokens_seen=True)
    training.train()
    events = ledger_of(tmp_path).events
    run = events[0]
    assert isinstance(run, RunEvent)
    assert run.trainer == "transformers"
    assert dict(run.config) == {
        "batch_size": 2,
        "gradient_accumulation_steps": 2,
        "learning_rate": 1e-2,
        "max_iters": 12,
        "device": "cpu",
        "dtype": "float32",
        "block_size": CONTEXT,
    }
    assert run.parameters == sum(each.numel() for each in training.model.parameters())
    steps = [event for event in events if isinstance(event, StepEvent)]
    logged = [row["loss"] for row in training.state.log_history if "loss" in row]
    assert [event.loss for event in steps] == pytest.approx(logged)
    assert [event.iteration for event in steps] == list(range(12))
    assert {event.tokens for event in steps} == {2 * 2 * CONTEXT}
    assert all((event.grad_norm or 0) > 0 and event.lr is not None for event in steps)
    evaluated = {row["step"]: row["eval_loss"] for row in training.state.log_history if "eval_loss" in row}
    assert {event.iteration: event.val for event in events if isinstance(event, EvalEvent)} == pytest.approx(evaluated)
    saved = [event.path for event in events if isinstance(event, CheckpointEvent)]
    assert saved == [str(tmp_path / f"checkpoint-{step}") for step in (6, 12)]
    assert all(Path(path or "").is_dir() for path in saved)
    assert [event.reason for event in events if isinstance(event, EndEvent)] == ["finished"]
    assert not any(isinstance(event, NoteEvent) for event in events)

    assert main(["explain", str(tmp_path / "ledger.jsonl"), "--json"]) == 0
    wall = json.loads(capsys.readouterr().out)["wall"]
    parts = [name for name in wall if name.endswith("_s") and name != "total_s"]
    assert sum(wall[name] for name in parts) == pytest.approx(wall["total_s"], rel=1e-3)
    assert wall["unknown_s"] < 0.01 * wall["total_s"]
    assert min(wall["training_s"], wall["evaluation_s"], wall["checkpoint_s"]) > 0
    phases = diagnose(open_run(tmp_path / "ledger.jsonl")).phases
    assert min(phases.data_s, phases.forward_backward_s, phases.optimizer_s, phases.logging_s) > 0


def test_a_training_that_goes_on(tmp_path: Path) -> None:
    trainer(tmp_path, callback(), logging_steps=3).train()
    trainer(tmp_path, callback(), steps=18, logging_steps=3).train(resume_from_checkpoint=True)
    run = open_run(tmp_path / "ledger.jsonl")
    assert list(run.rows.iteration) == list(range(18))
    assert [(each.iteration, len(each.lost)) for each in run.restarts] == [(12, 0)]
    assert {each.text for each in run.notes} == {"each loss is the mean of the last 3 steps, as the Trainer reports it"}


def test_no_hook_stops_a_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AttributeError("of another version")

    monkeypatch.setattr("nanopace.integrations.hugging_face._knobs", fail)
    with pytest.warns(RuntimeWarning, match="the clock is off, and training continues: AttributeError: of another"):
        assert trainer(tmp_path, callback(), steps=2).train().global_step == 2
    assert not (tmp_path / "ledger.jsonl").exists()


def test_a_training_that_fails_and_is_begun_again(tmp_path: Path) -> None:
    class Fails(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
            if state.global_step == 3:
                raise RuntimeError("no")

    ours = callback(path=tmp_path / "both.jsonl")
    with pytest.raises(RuntimeError, match="no"):
        trainer(tmp_path, ours, Fails()).train()
    trainer(tmp_path, ours, steps=2).train()
    events = ledger_of(tmp_path / "both.jsonl").events
    assert [event.name for event in events if isinstance(event, (RunEvent, EndEvent))] == ["run", "run", "end"]
    assert [event.iteration for event in events if isinstance(event, StepEvent)] == [0, 1, 2, 0, 1]
