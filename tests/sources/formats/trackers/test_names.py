"""Which series is which, as people name them."""

from __future__ import annotations

import pytest

from nanopace.sources.formats.trackers.names import find_steps, find_train, find_validation, is_wanted, listed


@pytest.mark.parametrize(
    ("points", "train", "validation"),
    [
        # nanoGPT, Hugging Face, Lightning, torchtitan, Megatron, nanochat, and loops that people write
        ({"iter": 9, "train/loss": 9, "val/loss": 9, "lr": 9, "mfu": 9}, "train/loss", "val/loss"),
        ({"train/loss": 9, "train/train_loss": 1, "eval/loss": 3, "train/epoch": 9}, "train/loss", "eval/loss"),
        ({"train_loss_step": 90, "train_loss_epoch": 3, "val_loss": 3, "epoch": 90}, "train_loss_step", "val_loss"),
        ({"train_loss_epoch": 3, "val_loss_step": 30, "val_loss_epoch": 3}, "train_loss_epoch", "val_loss_epoch"),
        (
            {"loss_metrics/global_avg_loss": 9, "loss_metrics/global_max_loss": 9, "validation_metrics/loss": 2},
            "loss_metrics/global_avg_loss",
            "validation_metrics/loss",
        ),
        ({"lm loss": 9, "lm loss vs samples": 9, "lm loss validation": 2}, "lm loss", "lm loss validation"),
        ({"train/loss": 9, "val/bpb": 2, "core_metric": 1}, "train/loss", "val/bpb"),
        ({"Loss/train": 9, "Loss/valid": 9, "Loss/test": 9}, "Loss/train", "Loss/valid"),
        ({"loss": 9, "accuracy": 9, "val_loss": 9}, "loss", "val_loss"),
        ({"training_loss": 9, "loss": 9, "dev-loss": 9}, "training_loss", "dev-loss"),
        (
            {"train_loss_local": 9, "lr": 9, "val_loss/dataloader_idx_0": 3},
            "train_loss_local",
            "val_loss/dataloader_idx_0",
        ),
        # what is something else
        ({"gen_loss": 9, "disc_loss": 9, "train/aux_loss": 9, "test_loss": 9}, None, None),
        ({"eval/wiki_loss": 3, "eval/code_loss": 3, "accuracy": 9}, None, None),
    ],
)
def test_losses(points: dict[str, int], train: str | None, validation: str | None) -> None:
    assert (find_train(points), find_validation(points)) == (train, validation)
    assert all(is_wanted(name) for name in (train, validation) if name is not None)
    assert find_train(dict(reversed(points.items()))) == train


@pytest.mark.parametrize(
    ("points", "steps"),
    [
        ({"loss": 9, "iter": 9, "_step": 20}, "iter"),
        ({"loss": 9, "train/global_step": 12, "_step": 20}, "train/global_step"),
        ({"loss": 9, "iter": 4, "_step": 20}, "_step"),
        ({"loss": 9, "iter": 3}, None),
    ],
)
def test_the_counter_of_steps(points: dict[str, int], steps: str | None) -> None:
    assert find_steps(points, "loss") == steps


def test_a_message_lists_a_few() -> None:
    assert listed(["b", "a", "_step"]) == "a, b"
    assert listed([f"{number:02d}" for number in range(20)]).endswith("06, 07, …")
    assert listed(["x" * 41]) == "x" * 39 + "…"
