"""Time from the command to the first step: cold, with empty caches, and warm; compared with nanoGPT.

The clock runs from the start of the process until it prints its first iteration. nanoGPT's caches are emptied, too.
Python and torch take some time before either trainer can do anything: the second figure leaves it out.

    python bench/start.py path/to/nanoGPT        # two minutes on an H200
    python bench/start.py                        # only ours
    python bench/start.py --ours recipe=fast     # with other knobs; repeatable
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from loss_clock import parse_setting
from nanogpt import Knobs, environment, write_config, write_zipf_tokens

VOCAB = 50304
KNOBS: Knobs = {
    "batch_size": 8,
    "block_size": 1024,
    "gradient_accumulation_steps": 1,
    "max_iters": 10,
    "eval_interval": 100,
    "eval_iters": 1,
    "device": "cuda",
    "dtype": "bfloat16",
    "compile": True,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nanogpt", type=Path, nargs="?")
    parser.add_argument("--ours", action="append", metavar="SETTING", help="knobs of a nanopace run; repeatable")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        data = write_zipf_tokens(room / "data", 1_000_000, 100_000, VOCAB)
        knobs: Knobs = {**KNOBS, "dataset": str(data)}
        ours = [sys.executable, "-u", "-m", "nanopace", "train", "--no-report", "--overwrite=True"]
        theirs = [sys.executable, "-u", "train.py"]
        _import_torch()  # reads it from disk once, so that no start pays for that
        alone = median(_import_torch() for _ in range(3))
        print(f"Python and torch alone: {alone:.1f} s", flush=True)
        trainers = [(f"nanopace {each}".strip(), ours, room, parse_setting(each)) for each in args.ours or [""]]
        if args.nanogpt is not None:
            trainers.append(("nanoGPT", theirs, args.nanogpt, {}))
        for number, (name, command, directory, own) in enumerate(trainers):
            for start in ("cold", "warm"):
                out = room / f"run-{number}"
                seconds, row = _first_step(command, {**knobs, **own}, directory, out)
                left = f"{seconds - alone:.1f} s without Python and torch"
                print(f"{name}, {start}: {seconds:.1f} s to the first step, {left}", flush=True)
                if command is ours:
                    print(_spans(out / "ledger.jsonl"), flush=True)
                else:
                    print(f"  its log reports {_row_seconds(row):.1f} s for iter 0", flush=True)


def _first_step(command: list[str], knobs: Knobs, directory: Path, out: Path) -> tuple[float, str]:
    """Seconds until the first step is printed, and its line."""
    config, cache = write_config(out.with_suffix(".py"), {**knobs, "out_dir": str(out)}), out.with_suffix(".cache")
    variables = environment(
        XDG_CACHE_HOME=str(cache),
        TORCHINDUCTOR_CACHE_DIR=str(cache / "inductor"),
        TRITON_CACHE_DIR=str(cache / "triton"),
    )
    begin = time.perf_counter()
    seen: tuple[float, str] | None = None
    process = subprocess.Popen(
        [*command, str(config)],
        cwd=directory,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if seen is None and line.startswith("iter 0:"):
            seen = time.perf_counter() - begin, line
    assert process.wait() == 0, "".join(said)
    assert seen is not None, "".join(said)
    return seen


def _import_torch() -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch; torch.zeros(1, device='cuda')"], check=True)
    return time.perf_counter() - begin


def _row_seconds(row: str) -> float:
    """The time printed in a log's row, in seconds."""
    found = re.search(r"time ([\d.]+)ms", row)
    assert found is not None, row
    return float(found[1]) / 1000


def _spans(ledger: Path) -> str:
    """The phases before our first step."""
    events = [json.loads(line) for line in ledger.read_text().splitlines()]
    early = [each for each in events if each["event"] == "compile" or each.get("phase") == "startup"]
    return "  " + ", ".join(f"{each['what']} {each['ms'] / 1000:.2f} s" for each in early)


if __name__ == "__main__":
    main()
