"""What `make fuzz` found in the readers of logs and ledgers: small inputs that each broke something once."""

from __future__ import annotations

import io
import json

import pytest

from nanopace import Diagnosis, compare, diagnose, open_runs

RUN = {"event": "run", "ledger": "1.3", "started": "", "nanopace": "1", "config": {"batch_size": 8}}
NANOCHAT = (
    "step {:05d}/9999 (0.05%) | loss: 3.100000 | lrm: 1.00 | dt: {:.2f}ms | tok/sec: 1 | mfu: {} | total time: 1m"
)


def step(iteration: int, ms: float = 100.0, **more: object) -> dict[str, object]:
    return {"event": "step", "iteration": iteration, "ms": ms, "loss": 2.5, "at_ms": 100.0 * iteration, **more}


def explained(*events: dict[str, object]) -> Diagnosis:
    """The first run of a ledger."""
    return diagnose(open_runs(io.BytesIO("\n".join(map(json.dumps, events)).encode() + b"\n"))[0])


def test_a_rollback_may_take_back_all_that_came_after_a_restart() -> None:
    """Then no row is left at which the restart could be reported, but the lost steps still took time."""
    resumed = {"event": "resume", "iteration": 6, "checkpoint": "c"}
    rollback = {"event": "rollback", "iteration": 4, "failed_at": 8, "checkpoint": "c", "data_offset": 3}
    rows = [step(n) for n in range(1, 8)]
    another_run = step(0)
    found = explained(RUN, *rows, RUN, resumed, step(6), step(7), step(8), rollback, another_run)
    assert found.restarts.count == 1
    assert found.wall.restart_s == pytest.approx(0.2)
    assert found.wall.rollback_s == pytest.approx(0.5)  # 4 and 5 of the first process, 6 to 8 of the second
    assert found.wall.training_s == pytest.approx(0.3)


@pytest.mark.parametrize("pieces", [(0, 4), (4, 0)])
def test_nobody_is_told_to_train_in_no_pieces(pieces: tuple[int, int]) -> None:
    less = {"event": "micro_batch", "iteration": 1, "batch_size": pieces[0], "accumulation": pieces[1]}
    found = explained(RUN, step(0), less, *(step(n) for n in range(1, 6)))
    assert not found.faults.micro_batches
    assert all(each.code != "smaller_micro_batch" for each in found.findings)


def test_a_number_below_zero_is_no_fact() -> None:
    told = RUN | {"flops_per_token": -1, "tokens_per_iteration": 8}
    found = explained(told, *(step(n) for n in range(20)))
    assert found.mfu.achieved_tflops is None
    assert found.throughput.tokens_per_s == pytest.approx(80)


@pytest.mark.parametrize("mfu", ["inf", "-3.00", "nan"])
def test_an_mfu_that_no_card_has_is_not_read(mfu: str) -> None:
    text = "\n".join(NANOCHAT.format(n, 300 + n % 3, mfu) for n in range(9))
    (found,) = map(diagnose, open_runs(io.BytesIO(text.encode() + b"\n")))
    assert found.mfu.steady_printed is None
    assert found.mfu.printed_last is None
    assert compare(found, found).findings is not None
