"""The callback in Lightning's own Trainer, with a tiny model on the CPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nanopace import diagnose, open_run
from nanopace.ledger import CheckpointEvent, EndEvent, EvalEvent, RunEvent, StepEvent

from ..clock.hands import ledger_of

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
torch = pytest.importorskip("torch")
lightning = pytest.importorskip("lightning.pytorch")


class Module(lightning.LightningModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer = torch.nn.Linear(4, 1)
        self.losses: list[float] = []

    def training_step(self, batch: Any, _index: int) -> Any:
        loss = self.layer(batch).square().mean()
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch: Any, _index: int) -> None:
        self.log("val_loss", self.layer(batch).square().mean())

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.05)


def fit(folder: Path, module: Any, *callbacks: Any, steps: int = 8, resume: str | None = None) -> Any:
    from nanopace.integrations.lightning import NanopaceCallback

    save = lightning.callbacks.ModelCheckpoint(dirpath=folder / "saved", every_n_train_steps=4, save_top_k=-1)
    trainer = lightning.Trainer(
        max_steps=steps,
        accumulate_grad_batches=2,
        val_check_interval=4,
        default_root_dir=folder,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[NanopaceCallback(tokens_per_iteration=16), save, *callbacks],
    )
    loader = torch.utils.data.DataLoader(torch.randn(24, 4), batch_size=2)
    trainer.fit(module, loader, loader, ckpt_path=resume)
    return trainer


def test_a_fit_with_validation_and_saves(tmp_path: Path) -> None:
    module = Module()
    trainer = fit(tmp_path, module)
    events = ledger_of(tmp_path).events
    run = events[0]
    assert isinstance(run, RunEvent)
    assert (run.trainer, run.parameters, run.tokens_per_iteration) == ("lightning", 5, 16)
    assert dict(run.config) == {
        "gradient_accumulation_steps": 2, "device": "cpu", "max_iters": 8, "dtype": "float32"
    }  # fmt: skip
    steps = [event for event in events if isinstance(event, StepEvent)]
    means = [(a + b) / 2 for a, b in zip(module.losses[::2], module.losses[1::2], strict=True)]
    assert [event.loss for event in steps] == pytest.approx(means)
    assert {event.lr for event in steps} == {0.05}
    evaluations = [event for event in events if isinstance(event, EvalEvent)]
    assert [event.iteration for event in evaluations] == [2, 4, 6, 8]
    assert evaluations[-1].val == pytest.approx(float(trainer.callback_metrics["val_loss"]))
    saves = [event for event in events if isinstance(event, CheckpointEvent)]
    assert [event.iteration for event in saves] == [4, 8]
    assert all(Path(event.path or "").is_file() and (event.stall_ms or 0) > 0 for event in saves)
    assert "save_checkpoint" not in vars(trainer)
    diagnosis = diagnose(open_run(tmp_path / "ledger.jsonl"))
    assert diagnosis.source.ending == "finished"
    assert diagnosis.wall.unknown_s == pytest.approx(0, abs=0.01 * diagnosis.wall.total_s)
    assert diagnosis.phases.data_s > 0


def test_a_fit_that_goes_on(tmp_path: Path) -> None:
    fit(tmp_path, Module())
    fit(tmp_path, Module(), steps=10, resume=str(next((tmp_path / "saved").glob("*step=8.ckpt"))))
    run = open_run(tmp_path / "ledger.jsonl")
    assert list(run.rows.iteration) == list(range(10))
    assert [(each.iteration, len(each.lost)) for each in run.restarts] == [(8, 0)]


def test_a_fit_that_fails(tmp_path: Path) -> None:
    class Fails(lightning.Callback):  # type: ignore[misc]
        def on_train_batch_start(self, *_: Any) -> None:
            if _[-1] == 5:
                raise MemoryError

    with pytest.raises(MemoryError):
        fit(tmp_path, Module(), Fails())
    ends = [event.reason for event in ledger_of(tmp_path).events if isinstance(event, EndEvent)]
    assert ends == ["out_of_memory"]


def test_the_package_of_the_loop_is_the_callbacks() -> None:
    pytest.importorskip("pytorch_lightning")
    code = (
        "import pytorch_lightning, nanopace.integrations.lightning as ours;"
        "print(issubclass(ours.NanopaceCallback, pytorch_lightning.Callback))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "True\n"
