"""Files that no format reads, and the pattern suggested for them."""

from __future__ import annotations

import io
import json
import random
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.errors import NotALog
from nanopace.sources.runs import open_runs
from nanopace.sources.text import lines as clean_lines
from nanopace.sources.unread.guess import guess
from nanopace.sources.unread.offer import offer_pattern

from ..reading import read_one

pytest.importorskip("re2", reason="needs google-re2")

Print = Callable[[int, float, float, float], str]  # iteration, ms of one iteration, seconds since the start, loss


def printed(line: Print, rows: int = 60, every: int = 10, seed: int = 1) -> list[str]:
    noisy, elapsed, lines = random.Random(seed), 3.0, []
    for iteration in range(0, rows * every, every):
        ms = 100 + 40 * noisy.random()
        elapsed += ms * every / 1000
        lines.append(line(iteration, ms, elapsed, 4 - iteration / 1000 + 0.01 * noisy.random()))
    return lines


@pytest.mark.parametrize(
    ("line", "kind", "columns"),
    [
        (lambda i, ms, _, loss: f"step {i:5d}/600 | loss: {loss:.4f} | lr 3.0e-4 | dt: {ms:.2f}ms", "ms", (2, 11)),
        (lambda i, ms, _, loss: f"{i} {loss:.4f} {ms:.1f}ms", "ms", (1, 3)),
        (lambda i, ms, _, loss: f"it {i:>4} loss {loss:.3f} ms {ms:.2f}", "ms", (2, 6)),
        (lambda i, ms, _, loss: f"[12:00:{i // 10:02d},123] batch {i} took {ms:.0f} ms; loss {loss}", "ms", (3, 5)),
        (lambda i, ms, _, loss: str({"step": i, "loss": loss, "dt": ms / 1000}), "s", (2, 6)),
        (lambda i, ms, _, loss: json.dumps({"iter": i, "step_time_ms": ms, "loss": loss}), "ms", (2, 4)),
        (
            lambda i, ms, s, loss: f"iter {i}; loss {loss:.3f}; step {ms / 1000:.3f} sec/step; total {s:.1f}s",
            "s",
            (2, 6),
        ),
        (lambda i, ms, _, loss: f"step={i:,} tok={i * 512} loss={loss:.4f} {1000 / ms:.2f} it/s", "it_per_s", (1, 4)),
        (
            lambda i, _, s, loss: f"Epoch 1 Iter {i} Loss {loss:.3f} elapsed {int(s // 60)}:{s % 60:05.2f}",
            "elapsed_s",
            (4, 8),
        ),
        (lambda i, _, s, loss: f"step:{i:4d} time:{s:.3f}s loss:{loss:.3e}", "elapsed_s", (2, 3)),
        (  # of several times, the one that contains the others; of several steps, the one that counts all epochs
            lambda i, ms, _, loss: (
                f"[Step {i % 600:04d}/1200] global_step={i} loss={loss:.4f} "
                f"iter_time=0.001 train_time={ms / 1000:.4f} train_time_max=0.2 epoch_time={600 + ms:.1f}s"
            ),
            "s",
            (3, 6),
        ),
        (lambda i, _, s, loss: f"update {i} train_time_ms={1000 * s:.0f} loss={loss}", "elapsed_ms", (2, 3)),
        (lambda i, _, __, loss: f"({i}) train_loss: {loss:.4f} lr: 0.1", "loss", (1, 3)),
        (lambda i, ms, _, __: f"iter {i} eta 12.5s data_time: 0.012s batch_time: {ms / 1000:.3f}s", "s", (2, 8)),
        (lambda i, ms, _, loss: f"step {i} norm {loss:.2f} s {ms / 1000:.3f}", "s", (2, 6)),  # s is a name here
        (lambda i, ms, _, loss: f"| {i} | {loss:.4f} | {ms:.2f}ms | 12.01% |", "ms", (2, 6)),  # ms is no name of 12.01
        # No name tells the two apart, so the complete line has to be spelled out.
        (lambda i, ms, _, __: f"step {i // 10 % 4} of step {i} lr 1 took {ms:.2f}ms", "ms", (5, 9)),
    ],
)
def test_rows_of_hand_written_loops(line: Print, kind: str, columns: tuple[int, int]) -> None:
    lines = printed(line)
    found = guess(["loading 3 shards of data", "seed 1337", *lines, "done in 60 s"])
    assert found is not None
    assert (found.kind, found.lines) == (kind, 60)
    assert (found.iteration_column, found.kind_column) == columns
    run = read_one("".join(f"{line}\n" for line in lines), patterns=found.patterns)
    assert list(run.logged.iteration) == [*range(0, 600, 10)]


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["no numbers at all"] * 50,
        [f"for i in range({i}): time.sleep({i} ms)" for i in range(4)],  # too few
        [f"step {i * i} time {i}.5ms" for i in range(50)],  # no iteration
        [f"chapter {i}, page {7 * i}" for i in range(50)],
        [f"GET /item/{i} 200 12ms" for i in (5, 3, 9, 1, 1, 8, 2) * 9],
        [f"epoch {i} time 12.{i}s loss 3.{i}" for i in range(50)],  # no steps
        [f"step {i} eta 0:{59 - i:02d}:00 lr 0.{i}" for i in range(50)],
        [f"step {i} time {50 + i % 7}.5 lr 3" for i in range(50)],  # a time of what unit?
        [f"{i},3.{i},12{i % 3}.5" for i in range(50)],  # columns without names
        [f"iter {i}: loss 3,{1000 + i}, time 169,{10 + i}ms" for i in range(50)],  # decimal commas: 3 is not the loss
    ],
)
def test_nothing_is_offered_for_other_text(lines: list[str]) -> None:
    assert guess(lines) is None


def test_other_lines_with_the_same_names_are_no_rows() -> None:
    lines = [line for i in range(50) for line in (f"step {i} dt 12.5ms", f"kernel: step {i % 4} dt 3.5ms in all")]
    text = "".join(f"{line}\n" for line in lines).encode()
    run = read_one(text, patterns=offered(text))
    assert list(run.rows.ms) == [12.5] * 50


def test_the_loss_is_that_of_training() -> None:
    lines = printed(lambda i, ms, _, loss: f"step {i} val loss 9.5 train loss {loss:.4f} lr 1 dt {ms:.1f}ms")
    text = "".join(f"{line}\n" for line in lines).encode()
    run = read_one(text, patterns=offered(text))
    assert max(run.rows.loss) < 5


def test_evaluations_are_offered_with_the_rows() -> None:
    lines = printed(lambda i, ms, _, loss: f"step {i} loss {loss:.4f} dt {ms:.1f}ms")
    for at in range(50, 5, -10):
        lines.insert(at, f"> eval at step {10 * at}: val_loss {3 + at / 100:.3f} acc 0.{at}")
    found = guess(lines)
    assert found is not None
    assert len(found.patterns) == 2
    run = read_one("".join(f"{line}\n" for line in lines), patterns=found.patterns)
    assert [(each.iteration, each.val) for each in run.evaluations] == [
        (10 * at, 3 + at / 100) for at in range(10, 60, 10)
    ]
    assert len(run.rows) == 60


# --- what is offered is right ----------------------------------------------------------------------------------------

PREFIXES = ("", "[rank0] ", "INFO:root:", "2026-11-17 12:00:00,123 - train - ", "| ", "train>\t", "\x1b[32m")
ITERATIONS = (
    "step {i}",
    "iter={i}",
    "Iteration: {i:>6}",
    "it {i:<6}",
    "batch {i:,}",
    "[{i}/9999]",
    "global_step={i:05d}",
)
LOSSES = ("loss {loss:.4f}", "loss={loss:.6f}", "train_loss: {loss:.3e}", "Loss = {loss:7.3f}", "'loss': {loss}")
OTHERS = (
    "lr 3.00e-04",
    "norm {n:.3f}",
    "tok/s {n2:,}",
    "mem 12.3GB",
    "epoch 0",
    "grad={n:.2e}",
    "eta 0:10:0{d}",
    "gpu0 {d}%",
)
TIMES = {
    "ms": ("dt: {ms:.2f}ms", "time={ms:.1f} ms", "{ms:.3f}ms/step", "step_ms={ms:.2f}", "dt(ms) {ms:8.2f}"),
    "s": ("time: {s1:.4f}s", "{s1:.5f} sec/step", "dt {s1:.4f}", "step time (s): {s1:.3f}"),
    "it_per_s": ("{rate:.3f} it/s", "steps/s: {rate:.3f}"),
    "elapsed_s": ("elapsed {total:.3f}s", "time {clock}", "total time: {total:.2f} sec"),
    "elapsed_ms": ("train_time:{total_ms:.0f}ms", "elapsed_ms={total_ms:.1f}"),
}
SEPARATORS = (" | ", ", ", " ", "\t", "; ", "  -  ")


class Log:
    """The log of a hand-written loop, and what it means."""

    def __init__(self, seed: int) -> None:
        noisy = random.Random(seed)
        self.kind = noisy.choice([*TIMES])
        fields = [noisy.choice(TIMES[self.kind]), *noisy.sample(OTHERS, noisy.randrange(4))]
        fields += [noisy.choice(LOSSES)] if noisy.random() < 0.8 else []
        noisy.shuffle(fields)
        template = noisy.choice(PREFIXES) + noisy.choice(SEPARATORS).join([noisy.choice(ITERATIONS), *fields])
        self.every = noisy.choice([1, 1, 5, 10, 50])
        self.lines, self.told, elapsed = ["seed: 1337", "found 4 files"], list[tuple[int, float]](), 2.0
        for iteration in range(noisy.choice([0, self.every]), 40 * self.every, self.every):
            ms = noisy.uniform(80, 150)
            elapsed += self.every * ms / 1000
            minutes, seconds = divmod(elapsed, 60)
            values = {"i": iteration, "loss": noisy.uniform(2, 4), "ms": ms, "s1": ms / 1000, "rate": 1000 / ms}
            values |= {"n": noisy.random(), "n2": noisy.randrange(10**6), "d": noisy.randrange(10), "total": elapsed}
            values |= {"total_ms": 1000 * elapsed, "clock": f"{minutes // 60:.0f}:{minutes % 60:02.0f}:{seconds:05.2f}"}
            self.lines.append(template.format(**values))
            self.told.append((iteration, elapsed if self.kind.startswith("elapsed") else ms))

    @property
    def rows(self) -> list[tuple[int, float]]:
        """Iterations, and the ms of one."""
        if not self.kind.startswith("elapsed"):
            return self.told
        (first, start), *_ = self.told
        rows = [(first, 1000 * start / max(1, min(first, self.every)))]
        for (_, before), (iteration, after) in zip(self.told, self.told[1:], strict=False):
            rows.append((iteration, 1000 * (after - before) / self.every))
        return rows


def offered(text: bytes) -> list[str]:
    """The patterns suggested in the refusal, as a shell would read them."""
    said = offer_pattern("x.log", (line for line, _ in clean_lines([text])))
    assert said is not None, text[-200:]
    assert '"\'"' not in str(said)  # a quote in a quote would be unreadable
    flags = shlex.split(str(said).partition("read them with ")[2])
    assert flags[::2] == ["--pattern"] * (len(flags) // 2)
    return flags[1::2]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9))
def test_what_is_offered_reads_the_right_iterations_and_times(seed: int) -> None:
    log = Log(seed)
    text = "".join(f"{line}\n" for line in log.lines).encode()
    run = read_one(text, patterns=offered(text))
    found = [(row.iteration, row.ms) for row in run.rows]
    assert [at for at, _ in found] == [at for at, _ in log.rows], log.lines[-1]
    for (at, ms), (_, true_ms) in zip(found, log.rows, strict=True):
        digit_ms = 11 / max(1, min(at, log.every)) if log.kind.startswith("elapsed") else 0.01 * true_ms
        assert abs(ms - true_ms) <= digit_ms, log.lines[-1]
    assert all(loss is None or 2 <= loss <= 4 for loss in (row.loss for row in run.rows))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_offered_command_is_run_verbatim_through_a_shell(seed: int, tmp_path: Path) -> None:
    log = Log(seed)
    path = tmp_path / "my run.log"
    path.write_text("".join(f"{line}\n" for line in log.lines), encoding="utf-8")
    with pytest.raises(NotALog, match="look like rows") as refused:
        open_runs(path)
    flags = str(refused.value).partition("read them with ")[2]
    command = f"{shlex.quote(sys.executable)} -m nanopace explain {shlex.quote(str(path))} {flags} --json"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["source"]["rows"] == len(log.told)


marks = st.text(st.sampled_from(":=|/'\"\\{}()[]*+?^$<>#%&~`;!@\t\x00\u00e9\u2588"), max_size=12)


@settings(max_examples=150, deadline=None)
@given(marks, marks, marks)
def test_no_mark_in_the_lines_breaks_the_pattern(before: str, between: str, behind: str) -> None:
    lines = [f"{before} step {at} {between} dt {90 + at % 7}.5ms {behind}" for at in range(40)]
    text = "".join(f"{line}\n" for line in lines).encode()
    run = read_one(text, patterns=offered(text))
    assert [(row.iteration, row.ms) for row in run.rows] == [(at, 90.5 + at % 7) for at in range(40)]


@pytest.mark.parametrize(
    "line",
    [
        "step 1 loss 1 " * 5000,
        " " * 60_000,
        "1 " * 30_000,
        "1,234" * 9000,
        "a" * 60_000 + " 1",
        "1:00:00" * 8000,
        "nan" * 20_000,
    ],
)
def test_a_hostile_file_is_refused_soon(line: str) -> None:
    lines = [line, *(f"step {at} {line[:300]}" for at in range(3000))]
    began = time.process_time()
    guess(lines)
    assert time.process_time() - began < 6


def test_a_perplexity_is_no_validation_loss() -> None:
    rows = [f"step {at} loss 2.5 time {0.1 + at / 1e4:.4f}" for at in range(1, 41)]
    evaluations = [f"at step {at} val_ppl=12.5 val_time=3.0" for at in range(10, 50, 10)]
    found = guess([*rows, *evaluations])
    assert found is not None
    assert len(found.patterns) == 1
    found = guess([*rows, *(each.replace("val_ppl=", "val_loss=2.52 val_ppl=") for each in evaluations)])
    assert found is not None
    assert "val_loss=" in found.patterns[1]


def bars(name: str, first: int = 1, last: int = 60, total: int = 1250) -> list[str]:
    """tqdm's, which grow."""
    return [
        f"Epoch 1/3:  {at}%|{'█' * (at // 10):10s}| {at}/{total} "
        f"[{at // 60:02d}:{at % 60:02d}<02:53,  {at / 7:.2f}it/s, {name}, x=1]"
        for at in range(first, last + 1)
    ]


@pytest.mark.parametrize("name", ["loss=2.5000", "train_loss=2.5", "Loss: 2.5000", "avg loss=2.50"])
def test_progress_bars_with_a_loss(name: str) -> None:
    found = guess([*bars(name), *bars("val_loss=9.0", last=5)])
    assert found is not None
    assert (found.lines, found.kind, found.iteration_column, found.kind_column) == (60, "elapsed_s", 5, 6)
    run = read_one("".join(f"{line}\n" for line in bars(name)), patterns=found.patterns)
    assert [*run.rows.iteration] == [*range(1, 61)]
    assert set(run.rows.loss) == {2.5}


@pytest.mark.parametrize(
    "lines",
    [
        bars("opt=3"),  # no loss
        bars("val_loss=2.5"),
        bars("loss=2.5", first=0, last=4),  # too few
        [*bars("loss=2.5", first=60)] * 20,  # of each epoch, only the last
    ],
)
def test_other_progress_bars_are_not_offered(lines: list[str]) -> None:
    assert guess(lines) is None


def test_evaluations_that_are_not_evenly_spaced() -> None:
    rows = [f"Iter {at}: Train loss 2.5, It/sec {1.7 + at / 1e4:.3f}, Peak mem 4.4 GB" for at in range(10, 610, 10)]
    evaluations = [f"Iter {at}: Val loss 2.6, Val took 8.1s" for at in (1, 200, 400, 600)]
    found = guess([*evaluations[:1], *rows[:20], *evaluations[1:2], *rows[20:], *evaluations[2:]])
    assert found is not None
    log = io.BytesIO("".join(f"{line}\n" for line in [*evaluations[:1], *rows, *evaluations[1:]]).encode())
    (run,) = open_runs(log, patterns=found.patterns)
    assert [each.iteration for each in run.evaluations] == [1, 200, 400, 600]


def of_olmo(at: int) -> list[str]:
    return [
        f"2024-08-06 10:0{at // 60}:{at % 60:02d}.180 host:0 train:908 INFO [step={at}/739,328,epoch=0]",
        "    optim/total_grad_norm=0.23",
        f"    train/CrossEntropyLoss={4 - at / 100:.3f}",
        f"    throughput/total_tokens={at * 1024:,}",
        "    throughput/device/tokens_per_second=26,668",
        f"    throughput/device/batches_per_second={0.025 + at / 1e5:.4f}",
    ]


def of_composer(at: int) -> list[str]:
    return [
        f"[batch={at}/4800]:",
        f"\t Train time/batch: {at}",
        "\t Train trainer/device_train_microbatch_size: 4",
        f"\t Train loss/train/total: {4 - at / 100:.4f}",
        f"\t Train throughput/batches_per_sec: {0.35 + at / 1e4:.4f}",
        "\t Train throughput/device/tokens_per_sec: 23500.1",
        f"\t Train time/remaining_estimate: {100 - at / 10:.4f}",
    ]


@pytest.mark.parametrize("of_row", [of_olmo, of_composer])
def test_rows_of_several_lines(of_row: Callable[[int], list[str]]) -> None:
    lines = [line for at in range(1, 60) for line in of_row(at)]
    offer = offer_pattern("train.log", lines)
    assert ": groups of lines look like rows" in str(offer)
    found = guess(lines)
    assert found is not None
    run = read_one("".join(f"{line}\n" for line in lines), patterns=found.patterns)
    first, first_ms = (2, 1000) if of_row is of_olmo else (1, 1000 / 0.3501)  # OLMo's rate is the mean of 20 batches
    assert [*run.rows.iteration] == [*range(first, 60)]
    assert run.rows.loss[0] == 4 - first / 100
    assert run.rows.ms[0] == pytest.approx(first_ms, rel=0.01)


@pytest.mark.parametrize(
    ("stamp", "whole"),
    [
        (lambda s: f"2025-12-31 23:{58 + s // 60 % 2}:{s % 60:02d},250 - INFO - __main__ - ", False),
        (lambda s: f"[{(23 + (s + 3540) // 3600) % 24:02d}:{(s + 3540) // 60 % 60:02d}:{s % 60:02d}] INFO ", True),
        (lambda s: f"INFO 2025/02/03T00:{s // 60:02d}:{s % 60:02d} root: ", True),
    ],
)
def test_lines_with_a_loss_and_the_time_of_printing(stamp: Callable[[int], str], whole: bool) -> None:
    """As Python's logging prints them. The first row has no time: nothing shows when it began."""
    lines = [f"{stamp(2 * at)}step {10 * at}/500 | loss {4 - at / 20:.4f} | lr 3e-4" for at in range(40)]
    found = guess(["2025-12-31 23:57:00,000 - INFO - loading", *lines])
    assert found is not None
    assert found.kind == "stamp"
    run = read_one("".join(f"{line}\n" for line in lines), patterns=found.patterns)
    assert [*run.rows.iteration] == [*range(10, 400, 10)]
    assert sum(run.rows.ms) / len(run.rows) == pytest.approx(200, rel=0.03)
    assert ("whole_seconds" in {each.code for each in run.caveats}) == whole


def test_a_name_inside_another_is_not_matched() -> None:
    """OLMo prints eval_step= between two rows with step=."""
    lines = [
        line for at in range(1, 60) for line in (*of_olmo(at), f"2024-08-06 10:{at:02d}:00.1 INFO [eval_step=1/5]")
    ]
    found = guess(lines)
    assert found is not None
    run = read_one("".join(f"{line}\n" for line in lines), patterns=found.patterns)
    assert len(run.rows) == 58


@pytest.mark.parametrize("without", ["Loss", "step="])
def test_groups_of_lines_without_a_loss_or_a_step_are_not_offered(without: str) -> None:
    assert guess([line for at in range(1, 60) for line in of_olmo(at) if without not in line]) is None
