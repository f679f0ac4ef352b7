"""How soon nanoGPT and nanopace are at a loss: same data, same card, one after the other, seed by seed.

nanoGPT's train.py runs unchanged. The last weights of each run are then evaluated by one evaluator on the same windows
of the validation data, so what a trainer says of its own loss does not matter. loss_clock.py says what is clocked.

    python bench/python_corpus.py data/code
    python bench/time_to_loss.py path/to/nanoGPT --corpus data/code --reference \\
        --theirs batch=64,accum=2,lr=1e-3,iters=360 --ours recipe=fast,batch=64,accum=4,iters=150 --seeds 3 --keep kept
    python bench/time_to_loss.py --table kept/results.jsonl more/results.jsonl      # what several calls have found

The first of --reference and --theirs is what the others are measured against. --shared gives knobs to all runs.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loss_clock import Trace, Value, complete, parse_setting, trace_of_ledger, trace_of_log
from loss_tables import show_all
from nanogpt import run_nanogpt, run_nanopace
from nanopace.corpus.tokenizers.nanogpt_meta import read_meta
from nanopace.ledger import read_ledger

REFERENCE = "batch=64,accum=8,lr=6e-4,iters=180,warmup=30"
SHARED = parse_setting(
    "n_layer=12,n_head=12,n_embd=768,block_size=1024,device=cuda,dtype=bfloat16,compile=True,batch=64,accum=8,iters=180"
)
NANOGPT_SEED = 1337

# A folder's train.py that sows another seed, once, and then runs theirs as it is.
SOWN = """
import os, runpy, sys, torch
sow = torch.manual_seed
def sow_once(_):
    torch.manual_seed = sow
    return sow({seed})
torch.manual_seed = sow_once
os.chdir({checkout!r})
sys.path[0] = {checkout!r}
runpy.run_path("train.py", run_name="__main__")
"""


@dataclass(frozen=True, slots=True)
class Job:
    trainer: str
    setting: str
    seed: int
    knobs: Mapping[str, Value]

    @property
    def name(self) -> str:
        return f"{self.trainer} {self.setting} seed {self.seed}"

    @property
    def file_name(self) -> str:
        """nanoGPT takes a config's name for a flag if there is an = in it."""
        return f"{self.trainer}-{re.sub(r'[^A-Za-z0-9._-]+', '-', self.setting)[:150]}-{self.seed}"


class Judge:
    """One evaluator for the weights of both."""

    def __init__(self, corpus: Path, device: str, block_size: int, windows: int | None, batch_size: int) -> None:
        import torch

        from nanopace.corpus.shards.corpus import open_corpus
        from nanopace.train.loop.evaluate import Evaluator

        self._device = torch.device(device)
        self._model: Any = None
        self._first: dict[str, Any] | None = None
        self._evaluator = Evaluator(
            lambda tokens, targets: self._model.sequence_losses(tokens, targets),
            open_corpus(corpus).val,
            block_size=block_size,
            batch_size=batch_size,
            windows=windows or 1 << 30,
            seed=7,
            device=self._device,
        )

    def evaluate(self, weights: Path) -> dict[str, float | int | None]:
        """The loss, and how far it is from that of the first weights, window by window."""
        import torch

        from nanopace.train.formats.convert import open_pretrained

        self._model = open_pretrained(weights).model(self._device)
        if self._first is not None:
            self._evaluator.restore(self._first)
        half = torch.autocast("cuda", torch.bfloat16) if self._device.type == "cuda" else nullcontext()
        with torch.no_grad(), half:
            found = self._evaluator.evaluate(0)
        if self._first is None:
            self._first = self._evaluator.state()
        self._model = None
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        return {
            "loss": found.val,
            "error": found.val_error,
            "windows": found.windows,
            "difference": found.change,
            "difference_error": found.change_error,
        }


# --- one run ---------------------------------------------------------------------------------------------------------


def run(job: Job, checkout: Path, logs: Path, judge: Judge) -> dict[str, Any]:
    """Train, clock, evaluate; the weights are gone afterwards. A run that fails is a result, too."""
    print(f"{time.strftime('%H:%M:%S')} {job.name} ...", flush=True)
    record: dict[str, Any] = {"trainer": job.trainer, "setting": job.setting, "seed": job.seed, "knobs": job.knobs}
    log = logs / f"{job.file_name}.log"
    with tempfile.TemporaryDirectory() as room:
        out = Path(room, "out")
        try:
            knobs = {**job.knobs, "out_dir": str(out)}
            if job.trainer == "nanoGPT":
                seconds, trace = _theirs(_sown(checkout, job.seed, Path(room)), knobs, log)
                weights = out / "ckpt.pt"
            else:
                result = run_nanopace({**knobs, "seed": job.seed}, log)
                shutil.copy(out / "ledger.jsonl", log.with_suffix(".jsonl"))
                with (out / "ledger.jsonl").open("rb") as file:
                    trace = trace_of_ledger(read_ledger(file).events)
                seconds, weights = result.seconds, out / "checkpoints" / f"step-{trace.steps:08d}"
            record |= {**asdict(trace), "process_seconds": seconds, **judge.evaluate(weights)}
        except Exception as error:  # the other runs are worth having
            record["failed"] = _why(error, log)
    print(f"  {_told(record)}", flush=True)
    return record


def _theirs(folder: Path, knobs: Mapping[str, Value], log: Path) -> tuple[float, Trace]:
    result = run_nanogpt(folder, knobs, log)
    per_step = int(knobs["batch_size"]) * int(knobs["gradient_accumulation_steps"]) * int(knobs["block_size"])
    return result.seconds, trace_of_log(result.run, per_step)


def _sown(checkout: Path, seed: int, room: Path) -> Path:
    folder = room / "sown"
    folder.mkdir()
    (folder / "train.py").write_text(SOWN.format(seed=seed, checkout=str(checkout.resolve())))
    return folder


def _why(error: Exception, log: Path) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = log.read_text(errors="replace").strip().splitlines()
        return f"exit status {error.returncode}: {lines[-1] if lines else 'it said nothing'}"
    return f"{type(error).__name__}: {error}"


def _told(record: Mapping[str, Any]) -> str:
    if "failed" in record:
        return f"FAILED: {record['failed']}"
    return (
        f"{record['steps']} steps, {record['tokens'] / 1e6:.2f}M tokens, {record['seconds']:.1f} s "
        f"({record['process_seconds']:.1f} s with start and compilation), "
        f"validation loss {record['loss']:.4f} ± {record['error']:.4f}"
    )


# --- all of it -------------------------------------------------------------------------------------------------------


def jobs(args: argparse.Namespace, corpus: Path) -> list[Job]:
    """Seed by seed, theirs and ours in turn: a card's speed wanders, and then it wanders for all."""
    shared = {**SHARED, **parse_setting(args.shared)}
    theirs = [*([args.reference] if args.reference else []), *args.theirs]
    plan: list[tuple[str, str, dict[str, Value]]] = []
    for trainer, setting in [*(("nanoGPT", each) for each in theirs), *(("nanopace", each) for each in args.ours)]:
        knobs = {"dataset": str(corpus), **complete(shared, parse_setting(setting))}
        if trainer == "nanopace" and (size := read_meta(corpus / "meta.pkl").vocab_size) is not None:
            knobs = {"vocab_size": size, **knobs}  # nanoGPT takes it from there itself
        plan.append((trainer, setting, knobs))
    return [Job(*each[:2], args.first_seed + number, each[2]) for number in range(args.seeds) for each in plan]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nanogpt", type=Path, nargs="?")
    parser.add_argument("--corpus", type=Path, help="a folder with train.bin, val.bin and meta.pkl")
    parser.add_argument("--reference", nargs="?", const=REFERENCE, metavar="SETTING", help=f"nanoGPT: {REFERENCE}")
    parser.add_argument(
        "--theirs", action="append", default=[], metavar="SETTING", help="nanoGPT otherwise; repeatable"
    )
    parser.add_argument("--ours", action="append", default=[], metavar="SETTING", help="nanopace; repeatable")
    parser.add_argument(
        "--shared",
        default="",
        metavar="SETTING",
        help="for all: the model, the device, ... (else GPT-2 124M on a card)",
    )
    parser.add_argument("--seeds", type=int, default=1, help="how many, from --first_seed on")
    parser.add_argument("--first_seed", type=int, default=NANOGPT_SEED, help="nanoGPT's own if not given")
    parser.add_argument("--windows", type=int, help="of validation data for the last weights (else all there are)")
    parser.add_argument("--target", type=float, help="the loss to reach (else the mean of the first setting)")
    parser.add_argument("--keep", type=Path, help="logs, ledgers and results.jsonl are added here")
    parser.add_argument("--table", type=Path, nargs="+", metavar="RESULTS", help="only show these results.jsonl")
    args = parser.parse_args()
    if args.table:
        show_all([json.loads(line) for path in args.table for line in path.read_text().splitlines()], args.target)
        return
    if args.nanogpt is None or args.corpus is None:
        parser.error("a checkout of nanoGPT and --corpus are needed, unless there is a --table to show")
    corpus = args.corpus.resolve()
    planned = jobs(args, corpus)
    if not planned:
        parser.error("nothing to do: give --reference, --theirs or --ours")
    first = planned[0].knobs
    with tempfile.TemporaryDirectory() as folder:
        logs = args.keep or Path(folder)
        logs.mkdir(parents=True, exist_ok=True)
        judge = Judge(corpus, str(first["device"]), int(first["block_size"]), args.windows, batch_size=8)
        records = []
        for job in planned:
            records.append({**about(corpus, args.shared), **run(job, args.nanogpt, logs.resolve(), judge)})
            with (logs / "results.jsonl").open("a") as results:
                results.write(json.dumps(records[-1]) + "\n")
        show_all(records, args.target)


def about(corpus: Path, shared: str) -> dict[str, str]:
    """What the figures depend on."""
    import torch

    from nanopace.corpus.shards.corpus import open_corpus

    return {
        "at": time.strftime("%Y-%m-%d %H:%M:%S"),
        "card": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "torch": torch.__version__,
        "corpus": f"{corpus.name} {open_corpus(corpus).fingerprint[:8]}",
        "shared": ",".join(f"{name}={value}" for name, value in {**SHARED, **parse_setting(shared)}.items()),
    }


if __name__ == "__main__":
    main()
