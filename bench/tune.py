"""Compares `nanopace tune` with an exhaustive sweep: every micro-batch that fits, with and without one knob (fp8 on a
card; compile on a CPU, if there is a C++ compiler).

Afterwards, the sweep's best setting and tune's choice run in turns, since the best of many trials was also lucky.

    python bench/tune.py                # GPT-2 124M on a card, a small model on a CPU
    python bench/tune.py --budget 5m
    python bench/tune.py --keep runs    # can be continued after an interruption
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from nanogpt import environment, write_config, write_zipf_tokens
from nanopace.config import TrainConfig
from nanopace.ledger import RunEvent
from nanopace.literals import Value
from nanopace.tune.results import keep_result, kept_results
from nanopace.tune.search.knob_trials import has_compiler
from nanopace.tune.search.memory_limit import fits_in
from nanopace.tune.search.micro_batch_search import candidates
from nanopace.tune.trial import Outcome, introduction, run_trial, settings_of_trial

CARD: dict[str, Value] = {"batch_size": 12, "gradient_accumulation_steps": 40, "bias": False, "device": "cuda"}
SMALL: dict[str, Value] = {
    **dict.fromkeys(("n_layer", "n_head", "batch_size"), 2),
    **dict.fromkeys(("n_embd", "block_size"), 64),
    "gradient_accumulation_steps": 48,
    "device": "cpu",
    "dtype": "float32",
    "compile": False,
}
TURNS = 4


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="3m")
    parser.add_argument("--keep", type=Path, help="keep all results in this folder; run again to continue")
    args = parser.parse_args()
    on_a_card = torch.cuda.is_available()
    vocab = 50304 if on_a_card else 2048
    with tempfile.TemporaryDirectory() as folder:
        room = args.keep.resolve() if args.keep else Path(folder)
        room.mkdir(parents=True, exist_ok=True)
        data = room / "data"
        if not data.exists():
            write_zipf_tokens(data, 6_000_000, 100_000, vocab)
        knobs = {"dataset": str(data), "vocab_size": vocab, **(CARD if on_a_card else SMALL)}
        steps = 6 if on_a_card else 20
        kept = room / "tune.json"
        if not kept.exists():
            kept.write_text(json.dumps(_tuned(room, knobs, args.budget)), encoding="utf-8")
        found, tuning_s = json.loads(kept.read_text(encoding="utf-8"))
        chosen: dict[str, Value] = found["settings"]
        best, swept, sweep_s = _sweep(room, knobs, steps, "fp8" if on_a_card else "compile" if has_compiler() else None)
        rates: tuple[list[float], list[float]] = [], []
        for turn in range(TURNS):
            for number, settings in enumerate((chosen, best)):
                rates[number].append(_trial(room, f"turn-{turn}-{number}", settings, steps).tokens_per_second or 0.0)
    ours, theirs = map(geometric_mean, rates)
    shown = [{name: each[name] for name in each if each[name] != knobs.get(name)} for each in (chosen, best)]
    print(f"tune:  {shown[0] or 'as given'}: {ours:,.0f} tokens/s, found in {tuning_s:.0f} s; {_gain(found)}")
    print(f"sweep: {shown[1] or 'as given'}: {theirs:,.0f} tokens/s, found in {sweep_s:.0f} s")
    print(
        f"{ours / theirs:.3f} of the speed in {tuning_s / sweep_s:.2f} of the time, "
        f"with {len(found['trials'])} trials instead of {swept}"
    )


def _gain(found: dict[str, Any]) -> str:
    """The gain that tune itself measured."""
    gain = found["gain"]
    if gain is None:
        return "nothing is faster than the given config"
    times, low, high = (math.exp(gain["value"] + sign * (gain["error"] or math.nan)) for sign in (0, -1, 1))
    return f"{times:.3f} times as fast as the given config ({low:.3f} to {high:.3f})"


def _tuned(room: Path, knobs: dict[str, Value], budget: str) -> tuple[dict[str, Any], float]:
    """Tune's result, and the seconds it took."""
    write_config(room / "given.py", knobs)
    command = [sys.executable, "-m", "nanopace", "tune", "given.py", f"--budget={budget}", "--json"]
    begin = time.monotonic()
    done = subprocess.run(command, cwd=room, env=environment(), check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout), time.monotonic() - begin


def _sweep(room: Path, knobs: dict[str, Value], steps: int, knob: str | None) -> tuple[dict[str, Value], int, float]:
    """The best setting, the number of trials, and their total time."""
    config = TrainConfig(**knobs)  # type: ignore[arg-type]
    sequences = config.batch_size * config.gradient_accumulation_steps
    trials = [_trial(room, "first", knobs, steps)]
    event = introduction(room / "first") or RunEvent("", "")
    found: dict[float, dict[str, Value]] = {}
    for count in candidates(sequences, fits_in(event, config)):
        for value in (False,) if knob is None else (False, True):
            settings = {**knobs, "batch_size": count, "gradient_accumulation_steps": sequences // count}
            settings |= {} if knob is None else {knob: value}
            trials.append(_trial(room, f"sweep-{count}-{value}", settings, steps))
            rate = trials[-1].tokens_per_second or 0.0
            print(f"{count} x {sequences // count} {knob or ''}={value}: {rate:,.0f}", file=sys.stderr, flush=True)
            found[rate] = settings
    return found[max(found)], len(trials), sum(each.seconds for each in trials)


def _trial(room: Path, name: str, settings: dict[str, Value], steps: int) -> Outcome:
    """Run a trial once and keep its result."""
    kept = {known: outcome for known, _, outcome in kept_results(room)}
    if name not in kept:
        shutil.rmtree(room / name, ignore_errors=True)  # left by an interrupted trial
        kept[name] = run_trial(settings_of_trial(settings, steps), room / name, 600)
        keep_result(room, name, 0, kept[name])
    return kept[name]


if __name__ == "__main__":
    main()
