from __future__ import annotations

import pytest

from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Throughput
from nanopace.diagnosis.time.rows import find_pace
from nanopace.diagnosis.time.slow_rows import break_down_rows
from nanopace.diagnosis.time.throughput import find_throughput, throughput_findings
from nanopace.diagnosis.time.wall_time import account
from nanopace.run import Run

from ..synthetic import nanogpt_run, rows_run

NARROW = {
    "tokens_per_iteration": 524_288,
    "batch_size": 16,
    "gradient_accumulation_steps": 32,
    "block_size": 1024,
}


def throughput_of(run: Run) -> Throughput:
    pace = find_pace(run)
    wall, _, _ = account(run, pace, break_down_rows(run, pace))
    return find_throughput(run, pace, wall)


def test_only_normal_rows_count() -> None:
    found = throughput_of(nanogpt_run(step_ms=3909.8, noise=0.0, evaluation_ms=50_000.0, facts=NARROW))
    assert found.tokens_per_s == pytest.approx(134_096, abs=1)
    assert found.tokens_per_day == pytest.approx(134_096 * 86_400, rel=1e-5)
    assert found.tokens_per_s_overall is not None
    assert found.tokens_per_s_overall < 0.98 * 134_096
    assert found.tokens_total == 20_001 * 524_288
    assert found.micro_batch_ms == pytest.approx(122.18, abs=0.01)
    assert found.micro_batch_sequences == 16


def test_gpus_share_the_micro_batches() -> None:
    found = throughput_of(nanogpt_run(step_ms=3909.8, noise=0.0, facts=NARROW | {"gpu_count": 8}))
    assert found.micro_batch_ms == pytest.approx(8 * 122.18, abs=0.1)


def test_unknown_stays_unknown() -> None:
    run = nanogpt_run(facts={"batch_size": 16})
    found = throughput_of(run)
    assert (found.tokens_per_s, found.tokens_total, found.micro_batch_ms) == (None, None, None)
    (finding,) = throughput_findings(run, find_pace(run))
    assert finding.code == "tokens_unknown"
    assert finding.numbers["missing"] == "gradient_accumulation_steps, block_size"


def test_without_a_step_time_there_is_no_throughput() -> None:
    for facts in ({"tokens_per_iteration": 1000}, {}):
        run = rows_run([9000.0] + [1000.0] * 5, evaluated=range(6), facts=facts)
        assert throughput_of(run).tokens_per_s is None
        codes = {each.code for each in diagnose(run).findings}
        assert codes.isdisjoint({"tokens_unknown", "mfu_unknown"})  # no setting would help
