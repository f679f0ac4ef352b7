"""How fast nanoGPT, modded-nanogpt and nanopace reach a loss: same data, same card, one after the other, seed by seed.

nanoGPT's train.py runs unchanged. From modded-nanogpt, record #27 and the newest one run with the changes in modded.py.
One evaluator then evaluates the last weights of each run on the same windows of the validation data, so the losses that
trainers report themselves do not matter. loss_clock.py describes what is timed.

    python bench/python_corpus.py data/code
    python bench/time_to_loss.py path/to/nanoGPT --corpus data/code --reference \\
        --theirs batch=64,accum=2,lr=1e-3,iters=360 --ours recipe=fast,batch=64,accum=4,iters=150 --seeds 3 --keep kept
    python bench/time_to_loss.py --table kept/results.jsonl more/results.jsonl      # the results of several calls
    python bench/time_to_loss.py --against modded path/to/modded-nanogpt --corpus data/code --windows 2048 \\
        --theirs record=27,tokens=107e6 --theirs record=newest,tokens=17e6,accum=2 --ours recipe=fast,batch=64,accum=1

The first of --reference and --theirs is the baseline for the others. --shared sets knobs for all runs. With --keep,
runs with results from an earlier call are not repeated, so a table may take several calls.
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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import modded
from loss_clock import (
    Value,
    complete,
    parse_setting,
    seconds_of_rows,
    seconds_of_steps,
    trace_of_ledger,
    trace_of_log,
)
from loss_tables import show_all
from modded_patches import described
from nanogpt import run_nanogpt, run_nanopace
from nanopace.corpus.tokenizers.nanogpt_meta import read_meta
from nanopace.ledger import read_ledger

if TYPE_CHECKING:
    from loss_judge import Judge

REFERENCE = "batch=64,accum=8,lr=6e-4,iters=180,warmup=30"
SHARED = parse_setting(
    "n_layer=12,n_embd=768,block_size=1024,device=cuda,dtype=bfloat16,compile=True,batch=64,accum=8,iters=180"
)
NANOGPT_SEED = 1337
THEIR_REACH = 2560  # tokens that the newest record's last evaluation looks back over

# A folder's train.py that sets another seed once and then runs theirs unchanged.
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
    def is_modded(self) -> bool:
        return self.trainer.startswith("modded")

    @property
    def file_name(self) -> str:
        """Without "=": nanoGPT would mistake a config's name for a flag."""
        return f"{self.trainer}-{re.sub(r'[^A-Za-z0-9._-]+', '-', self.setting)[:150]}-{self.seed}"


# --- one run ---------------------------------------------------------------------------------------------------------


def run(
    job: Job, checkouts: Mapping[str, Path | None], logs: Path, judge: Judge, data: Path | None = None
) -> dict[str, Any]:
    """Train, time and evaluate; the weights are deleted afterwards. A failed run is a result, too."""
    print(f"{time.strftime('%H:%M:%S')} {job.name} ...", flush=True)
    record: dict[str, Any] = {"trainer": job.trainer, "setting": job.setting, "seed": job.seed, "knobs": job.knobs}
    log = logs / f"{job.file_name}.log"
    with tempfile.TemporaryDirectory() as room:
        out = Path(room, "out")
        try:
            knobs = {**job.knobs, "out_dir": str(out)}
            if job.is_modded:
                checkout = checkouts["modded"]
                assert checkout is not None
                assert data is not None
                record |= _modded(job, checkout, Path(room), log, judge, data)
            elif job.trainer == "nanoGPT":
                checkout = checkouts["nanoGPT"]
                assert checkout is not None
                record |= _theirs(_sown(checkout, job.seed, Path(room)), knobs, out, log, judge)
            else:
                record |= _ours({**knobs, "seed": job.seed}, out, log, judge, documents=data is not None)
        except Exception as error:  # continue with the other runs
            record["failed"] = _why(error, log)
    print(f"  {_told(record)}", flush=True)
    return record


def _theirs(folder: Path, knobs: Mapping[str, Value], out: Path, log: Path, judge: Judge) -> dict[str, Any]:
    result = run_nanogpt(folder, knobs, log, tell_peak=True)
    per_step = int(knobs["batch_size"]) * int(knobs["gradient_accumulation_steps"]) * int(knobs["block_size"])
    trace = trace_of_log(result.run, per_step)
    return {
        **asdict(trace),
        "seconds_of_steps": seconds_of_rows(result.run, trace.steps),
        "process_seconds": result.seconds,
        "peak_bytes": result.peak_bytes,
        **judge.evaluate(out / "ckpt.pt"),
    }


def _ours(knobs: Mapping[str, Value], out: Path, log: Path, judge: Judge, *, documents: bool) -> dict[str, Any]:
    result = run_nanopace(knobs, log, tell_peak=True)
    shutil.copy(out / "ledger.jsonl", log.with_suffix(".jsonl"))
    with (out / "ledger.jsonl").open("rb") as file:
        events = read_ledger(file).events
    trace = trace_of_ledger(events)
    weights = out / "checkpoints" / f"step-{trace.steps:08d}"
    record = {
        **asdict(trace),
        "seconds_of_steps": seconds_of_steps(events, trace.steps),
        "process_seconds": result.seconds,
        "peak_bytes": result.peak_bytes,
    }
    if not documents:
        return record | judge.evaluate(weights)
    own = int(knobs["block_size"]) - 1
    found = judge.evaluate(weights, modded.val_stream(judge.split), modded.END_OF_TEXT, (own, THEIR_REACH))
    return record | found | {"documents": found.get("documents_by_reach", {}).get(own)}


def _program(job: Job, checkout: Path) -> modded.Program:
    accum = int(job.knobs.get("gradient_accumulation_steps", 8))
    return modded.program(
        checkout, str(job.knobs["record"]), tokens=float(job.knobs["tokens"]), accum=accum, seed=job.seed
    )


def _modded(job: Job, checkout: Path, room: Path, log: Path, judge: Judge, data: Path) -> dict[str, Any]:
    from loss_judge import judged

    chosen = _program(job, checkout)
    print(described(chosen.patches), flush=True)
    found = modded.run_modded(chosen, room / "modded", data, judge.windows(), log)
    return {
        "steps": found.steps,
        "tokens": chosen.tokens,
        "seconds": found.seconds,
        "seconds_of_steps": found.seconds,
        "process_seconds": found.process_seconds,
        "evaluations": (),  # on its own windows; there are none before the last
        "documents": found.documents,
        "peak_bytes": found.peak_bytes,
        **judged(found.losses),
    }


def _sown(checkout: Path, seed: int, room: Path) -> Path:
    folder = room / "sown"
    folder.mkdir()
    (folder / "train.py").write_text(SOWN.format(seed=seed, checkout=str(checkout.resolve())))
    return folder


def _why(error: Exception, log: Path) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = log.read_text(errors="replace").strip().splitlines()
        return f"exit status {error.returncode}: {lines[-1] if lines else 'no output'}"
    return f"{type(error).__name__}: {error}"


def _told(record: Mapping[str, Any]) -> str:
    if "failed" in record:
        return f"FAILED: {record['failed']}"
    return (
        f"{record['steps']} steps, {record['tokens'] / 1e6:.2f}M tokens, {record['seconds']:.1f} s "
        f"({record['process_seconds']:.1f} s with start-up and compilation), "
        f"validation loss {record['loss']:.4f} ± {record['error']:.4f}"
    )


# --- all of it -------------------------------------------------------------------------------------------------------


def jobs(args: argparse.Namespace, corpus: Path) -> list[Job]:
    """All runs, seed by seed, theirs and ours in turns: if a card's speed drifts, it drifts for all."""
    shared = {**SHARED, **parse_setting(args.shared)}
    theirs = [*([args.reference] if args.reference else []), *args.theirs]
    plan: list[tuple[str, str, dict[str, Value]]] = []
    for each in (each for each in theirs if _is_record(each)):
        knobs = parse_setting(each)
        plan.append((f"modded-{knobs['record']}", each, knobs))
    theirs = [each for each in theirs if not _is_record(each)]
    for trainer, setting in [*(("nanoGPT", each) for each in theirs), *(("nanopace", each) for each in args.ours)]:
        knobs = {"dataset": str(corpus), **complete(shared, parse_setting(setting))}
        if trainer == "nanopace" and (size := read_meta(corpus / "meta.pkl").vocab_size) is not None:
            knobs = {"vocab_size": size, **knobs}  # nanoGPT reads it itself
        plan.append((trainer, setting, knobs))
    return [Job(*each[:2], args.first_seed + number, each[2]) for number in range(args.seeds) for each in plan]


def _is_record(setting: str) -> bool:
    return "record" in parse_setting(setting)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nanogpt", type=Path, nargs="?")
    parser.add_argument("--against", nargs=2, metavar=("modded", "PATH"), help="a modded-nanogpt checkout")
    parser.add_argument("--corpus", type=Path, help="folder with train.bin, val.bin and meta.pkl")
    parser.add_argument(
        "--reference",
        nargs="?",
        const=REFERENCE,
        metavar="SETTING",
        help=f"nanoGPT's reference run (without a setting: {REFERENCE})",
    )
    parser.add_argument(
        "--theirs",
        action="append",
        default=[],
        metavar="SETTING",
        help="another nanoGPT run, or record=27,tokens=... of modded-nanogpt; repeatable",
    )
    parser.add_argument("--ours", action="append", default=[], metavar="SETTING", help="a nanopace run; repeatable")
    parser.add_argument(
        "--shared",
        default="",
        metavar="SETTING",
        help="knobs for all runs: model, device, ... (default: GPT-2 124M on a card)",
    )
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds, from --first_seed on")
    parser.add_argument("--first_seed", type=int, default=NANOGPT_SEED, help="default: nanoGPT's own")
    parser.add_argument("--windows", type=int, help="validation windows for the last weights (default: all)")
    parser.add_argument("--target", type=float, help="loss to reach (default: mean of the first setting)")
    parser.add_argument(
        "--keep", type=Path, help="logs, ledgers and results.jsonl go here; what is there is not repeated"
    )
    parser.add_argument("--table", type=Path, nargs="+", metavar="RESULTS", help="only print tables of these files")
    args = parser.parse_args()
    if args.table:
        show_all([json.loads(line) for path in args.table for line in path.read_text().splitlines()], args.target)
        return
    if args.corpus is None:
        parser.error("give --corpus, or --table")
    if args.against is not None and args.against[0] != "modded":
        parser.error("--against: only modded, and the path of a checkout")
    corpus = args.corpus.resolve()
    planned = jobs(args, corpus)
    checkouts = {"modded": Path(args.against[1]) if args.against else None, "nanoGPT": args.nanogpt}
    if not planned:
        parser.error("nothing to do: give --reference, --theirs or --ours")
    if checkouts["modded"] is None and any(each.is_modded for each in planned):
        parser.error("record=...: give --against modded PATH")
    if checkouts["nanoGPT"] is None and any(each.trainer == "nanoGPT" for each in planned):
        parser.error("give the path of a nanoGPT checkout")
    with tempfile.TemporaryDirectory() as folder:
        show_all(measure(args, planned, checkouts, corpus, Path(folder)), args.target)


def measure(
    args: argparse.Namespace, planned: list[Job], checkouts: Mapping[str, Path | None], corpus: Path, room: Path
) -> list[dict[str, Any]]:
    """The results of all runs. Those that are kept from an earlier call on such a card are not repeated."""
    from loss_judge import Judge

    shared = {**SHARED, **parse_setting(args.shared)}
    logs = (args.keep or room).resolve()
    logs.mkdir(parents=True, exist_ok=True)
    judge = Judge(corpus, str(shared["device"]), int(shared["block_size"]), args.windows, batch_size=8)
    facts = about(corpus, args.shared)
    known = {**facts, "windows": len(judge.windows())}
    results = logs / "results.jsonl"
    kept = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    kept = [each for each in kept if all(each.get(name) == value for name, value in known.items())]
    done = {(each["trainer"], each["setting"], each["seed"]): each for each in kept}
    data = None
    if args.against:
        most = max((float(each.knobs.get("tokens", 0)) for each in planned), default=0.0)
        data = modded.write_data(room / "modded", corpus, most)
    records = []
    for job in planned:
        record = done.get((job.trainer, job.setting, job.seed))
        if record is None:
            record = {"at": time.strftime("%Y-%m-%d %H:%M:%S"), **facts, **run(job, checkouts, logs, judge, data)}
            with results.open("a") as file:
                file.write(json.dumps(record) + "\n")
        records.append(record)
    return records


def about(corpus: Path, shared: str) -> dict[str, str]:
    """What the figures depend on."""
    import torch

    from nanopace.corpus.shards.corpus import open_corpus

    return {
        "card": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "torch": torch.__version__,
        "corpus": f"{corpus.name} {open_corpus(corpus).fingerprint[:8]}",
        "shared": ",".join(f"{name}={value}" for name, value in {**SHARED, **parse_setting(shared)}.items()),
    }


if __name__ == "__main__":
    main()
