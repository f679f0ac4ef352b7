"""Speed on a CPU compared with nanoGPT, in turns: both trainers are started, and each runs for a second at a time.

A machine's speed never stays the same for two minutes, so measuring one trainer after the other is not fair. Here a
turn is a second, or five steps, and counts the rows printed in it; a round is one turn each. It covers all wall-clock
time between two rows: data, step, logging. On a shared machine, the fastest tenth of the steps and the CPU time are
more meaningful.

    python bench/cpu.py path/to/nanoGPT                     # six configurations, ten minutes
    python bench/cpu.py path/to/nanoGPT --only tiny --threads 1
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import mean, median, quantiles

from nanogpt import Knobs, environment, write_config, write_zipf_tokens

VOCAB = 65
WARM = 20  # rows before the first turn
STEPS = 5  # at least, per turn: fewer are too coarse a measure
WIDTHS = (10, 10, 8, 8, 16, 8, 8, 8)
PATIENCE = 120  # seconds to wait for them
_STAMP = re.compile(rb'^{"event":"step".*"at_ms":([\d.]+)}$', re.MULTILINE)
_ROW = re.compile(rb"^iter \d+: loss [^,]+, time ([\d.]+)ms", re.MULTILINE)


def _knobs(layers: int, heads: int, width: int, length: int, batch: int, **more: float) -> Knobs:
    shape = {"n_layer": layers, "n_head": heads, "n_embd": width, "block_size": length, "batch_size": batch}
    return {**shape, "dropout": 0.0, "gradient_accumulation_steps": 1, **more}


CONFIGURATIONS: dict[str, Knobs] = {
    "tiny": _knobs(1, 1, 16, 16, 4),
    "small": _knobs(2, 2, 64, 32, 8),
    "readme": _knobs(4, 4, 128, 64, 12),  # what nanoGPT's README trains on a laptop
    "readme, dropout 0.2": _knobs(4, 4, 128, 64, 12, dropout=0.2),
    "readme, accumulation 4": _knobs(4, 4, 128, 64, 12, gradient_accumulation_steps=4),
    "384 wide": _knobs(6, 6, 384, 64, 4),
}


@dataclass
class Trainer:
    """A process that is stopped except during its turns."""

    process: subprocess.Popen[bytes]
    log: Path
    rates: list[float] = field(default_factory=list)  # rows per second in each turn
    cpu_s: float = 0.0  # CPU seconds in all turns
    counted: int = 0  # rows in all turns

    def rows(self) -> list[float]:
        """The times of all rows so far."""
        return [float(found) for found in _ROW.findall(self.log.read_bytes())]

    def between(self) -> list[float]:
        """Milliseconds from row to row. nanoGPT prints exactly that; for ours, the ledger has timestamps."""
        ledger = self.log.parent / "out" / "ledger.jsonl"
        if not ledger.exists():
            return self.rows()
        at = [float(found) for found in _STAMP.findall(ledger.read_bytes())]
        return [after - before for before, after in pairwise(at)]

    def warm_up(self) -> None:
        until = time.monotonic() + PATIENCE
        while len(self.rows()) < WARM:
            if self.process.poll() is not None or time.monotonic() > until:
                sys.exit(f"{self.log}: no rows:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.1)
        self.process.send_signal(signal.SIGSTOP)

    def turn(self, seconds: float) -> None:
        before, spent, begin = len(self.rows()), self._spent(), time.perf_counter()
        self.process.send_signal(signal.SIGCONT)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGSTOP)
        took = time.perf_counter() - begin
        done = len(self.rows()) - before
        self.rates.append(done / took)
        self.cpu_s += self._spent() - spent
        self.counted += done

    def _spent(self) -> float:
        """CPU seconds of all its threads, which hardly depend on what else the machine does."""
        fields = Path("/proc", str(self.process.pid), "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nanogpt", type=Path)
    parser.add_argument("--only", action="append", choices=list(CONFIGURATIONS), help="repeatable (default: all)")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a turn")
    parser.add_argument("--threads", type=int, help="threads per trainer (default: torch decides)")
    args = parser.parse_args()
    columns = ("nanoGPT", "nanopace", "ratio", "median", "middle half", "fastest", "CPU", "rows")
    print(f"{'configuration':24}" + "".join(f"{name:>{width}}" for name, width in zip(columns, WIDTHS, strict=True)))
    with tempfile.TemporaryDirectory() as folder:
        data = write_zipf_tokens(Path(folder, "data"), 1_000_000, 100_000, VOCAB)
        for name in args.only or CONFIGURATIONS:
            print(_compared(name, args, Path(folder), data), flush=True)
    print("nanoGPT, nanopace: steps per second of wall-clock time. All other columns are ratios: ratio: of these two;")
    print("median, middle half: of the rounds; fastest: of the fastest tenth of all steps, row to row; CPU: of the CPU")
    print("time per step; rows: of the median printed times, which for nanopace cover the step alone.")


def _compared(name: str, args: argparse.Namespace, room: Path, data: Path) -> str:
    theirs = _started([sys.executable, "-u", "train.py"], name, "theirs", args, room, data)
    theirs.warm_up()
    ours = _started([sys.executable, "-m", "nanopace", "train", "--no-report"], name, "ours", args, room, data)
    ours.warm_up()
    seconds = max(args.seconds, STEPS * max(theirs.rows()[WARM // 2 :]) / 1000)
    try:
        for number in range(args.rounds):
            for each in (theirs, ours) if number % 2 else (ours, theirs):
                each.turn(seconds)
        rows = median(theirs.rows()[WARM:]) / median(ours.rows()[WARM:])
        quick = _quick(theirs.between()[WARM:]) / _quick(ours.between()[WARM:])
    finally:
        theirs.end()
        ours.end()
    ratios = [mine / other for mine, other in zip(ours.rates, theirs.rates, strict=True)]
    low, _, high = quantiles(ratios, n=4)
    cpu = (theirs.cpu_s / theirs.counted) / (ours.cpu_s / ours.counted)
    their_rate, our_rate = mean(theirs.rates), mean(ours.rates)
    texts = [f"{their_rate:.1f}", f"{our_rate:.1f}", f"{our_rate / their_rate:.3f}", f"{median(ratios):.3f}"]
    texts += [f"{low:.3f} to {high:.3f}", f"{quick:.3f}", f"{cpu:.3f}", f"{rows:.3f}"]
    return f"{name:24}" + "".join(f"{text:>{width}}" for text, width in zip(texts, WIDTHS, strict=True))


def _quick(times: list[float]) -> float:
    """The fastest tenth: on a busy machine, the steps that nothing interrupted."""
    return quantiles(times, n=10)[0]


def _started(command: list[str], name: str, who: str, args: argparse.Namespace, room: Path, data: Path) -> Trainer:
    place = room / f"{who} {name}"
    place.mkdir()
    common: Knobs = {"dataset": str(data), "device": "cpu", "dtype": "float32", "compile": False, "log_interval": 1}
    often: Knobs = {"max_iters": 10**9, "eval_interval": 10**9, "eval_iters": 1, "out_dir": str(place / "out")}
    config, log = write_config(place / "config.py", {**CONFIGURATIONS[name], **common, **often}), place / "log"
    threads = {} if args.threads is None else {"OMP_NUM_THREADS": str(args.threads)}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, str(config)],
            cwd=args.nanogpt if who == "theirs" else place,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment(**threads),
        )
    return Trainer(process, log)


if __name__ == "__main__":
    main()
