"""Tiny training runs on the CPU, and what is kept of them: every ledger event and every printed line.

Whatever depends on the time, the machine or the version is blanked out. Checkpoints saved in the background may appear
a step earlier or later, so their events are moved to the end.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from .files import resume, train
from .session import session

CONFIG = """# a config file as people write it
dataset = 'bytes'
n_layer = 1
n_head = 2
n_embd = 16
batch_size = 4
gradient_accumulation_steps = 2
dropout = 0.1
bias = True
learning_rate = 1e-2
min_lr = 1e-3
eval_train = 'full'
documents = True
"""

_CALM = {"recipe": "fast", "matrix_lr": "0.002"}  # a ten times higher rate would make rounding errors ten times larger

COMMANDS: dict[str, list[list[str]]] = {
    "gpt2": [train("gpt2")],
    "config": [
        [
            *("train", "config.py", "--no-report", "--out_dir=config", "--device=cpu", "--dtype=float32"),
            *("--compile=False", "--block_size=16", "--max_iters=6", "--eval_interval=3", "--eval_iters=2"),
            *("--warmup_iters=2", "--lr_decay_iters=6", "--log_interval=2", "--keep_last=1"),
        ],
    ],
    "fast": [train("fast", memory="activation,hidden,attention,averages", eval_train="full", **_CALM)],
    "without": [train("without", without="rope,normuon", max_iters="4", eval_target_error="0.05", **_CALM)],
    "gradients": [train("gradients", memory="gradients", seed="7", decay_lr="False", grad_clip="0", max_iters="4")],
    "resumed": [
        train("resumed", max_iters="5", dropout="0.1", eval_train="steps", always_save_checkpoint="False"),
        resume("resumed"),
    ],
    "eval_only": [train("eval_only", eval_only="True")],
    "ddp": [train("ddp", "--gpus=2", backend="gloo", gradient_accumulation_steps="2", dropout="0.1", max_iters="4")],
}

_BLANK = (
    *("at_ms", "ms", "stall_ms", "background_ms", "wall_ms", "started", "monotonic_s"),  # times
    *("nanopace", "python", "torch", "code_hash", "bytes"),  # versions, which are in a checkpoint's header, too
    *("slowest_rank", "lag"),
)
_BLANKED_LINES = (
    (r"^nanopace \S+ train", "nanopace … train"),
    (r"time [\d.]+ms", "time …ms"),
    (r"background [\d.]+ms, [\d.]+ [kMG]B", "background …ms, …B"),
    (r"\d+ tok/s", "… tok/s"),
    (r"(finished after \d+ steps in) .*", r"\1 …"),
)


def recorded(directory: Path) -> dict[str, str]:
    """The runs, by the name of the file that freezes them."""
    (directory / "config.py").write_text(CONFIG)
    found = {}
    answers = iter(session(directory, [command for commands in COMMANDS.values() for command in commands]))
    for name, commands in COMMANDS.items():
        printed = ""
        for command in commands:
            answer = next(answers)
            assert answer.code == 0, (command, answer)
            printed += answer.out
        if "--gpus=2" not in commands[0]:  # its processes print on their own
            found[f"trainings/{name}.txt"] = lines(printed)
        if name != "eval_only":  # which leaves nothing behind
            found[f"trainings/{name}.jsonl"] = events(directory / name / "ledger.jsonl")
    return found


def events(ledger: Path) -> str:
    """The events of a ledger, one per line."""
    told = [json.loads(line) for line in ledger.read_text().splitlines()]
    spans = {event["phase"] for event in told if event["event"] == "span" and "what" not in event}  # once a second
    kept = [
        json.dumps({key: "…" if key in _BLANK else value for key, value in event.items()}, ensure_ascii=False)
        for event in told
        if event["event"] != "stall" and (event["event"] != "span" or "what" in event)
    ]
    return _late_last([*kept, json.dumps({"spans": sorted(spans)})], '{"event": "checkpoint"')


def lines(printed: str) -> str:
    """The lines of a log, without the note that logging was slow."""
    kept = [line for line in printed.splitlines() if not line.startswith("the times above leave out logging")]
    for index, line in enumerate(kept):
        for pattern, blanked in _BLANKED_LINES:
            line = re.sub(pattern, blanked, line)
        kept[index] = line
    return _late_last(kept, "saved ")


def _late_last(found: list[str], beginning: str) -> str:
    ordered = sorted(found, key=lambda line: line.startswith(beginning))
    return "".join(f"{line}\n" for line in ordered)
