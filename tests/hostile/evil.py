"""Logs, ledgers and names that attack their reader."""

from __future__ import annotations

import json
from pathlib import Path

HTML = (
    "</script><script>window.ran=1;alert(1)</script><img src=x onerror=window.ran=2><svg onload=window.ran=3>"
    "<a href=javascript:window.ran=4>click</a><iframe src=//evil.example></iframe>\"'><b onmouseover=window.ran=5>"
    "<style>@import '//evil.example/x.css';*{display:none}</style><base href=//evil.example>{{7*7}}${7*7}<!--"
)
TERMINAL = (
    "\x1b[2J\x1b[31m\x1b]0;title\x07\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\"
    "\x1b]52;c;ZXZpbA==\x07\x1b[10A\x1bP+q\x1b\\\x9b31m\x9d0;t\x9c\x07\x08\x7f\r\x0b\x0c\u202egol.live\u2066\u200f\u2028\u2029\x85"
)
EVIL = HTML + TERMINAL
NAME = "<img src=x onerror=window.ran=6>\x1b[31m\x9b2J\u202e\n&amp;'\".log"


def rows(count: int = 40) -> str:
    """Rows with an evaluation at every tenth one."""
    lines = []
    for n in range(count):
        if n % 10 == 0:
            lines += [
                f"step {n}: train loss {5 - n / 20:.4f}, val loss {5.1 - n / 20:.4f}",
                f"saving checkpoint to {EVIL}",
            ]
        lines.append(f"iter {n}: loss {5 - n / 20:.4f}, time {100 + (900 if n % 10 == 0 else n % 3)}.00ms, mfu 12.00%")
    return "\n".join(lines) + "\n"


def nanogpt_log() -> str:
    """The config that nanoGPT prints may contain anything, and so may the text between its lines."""
    quoted = json.dumps(EVIL, ensure_ascii=False)
    header = "".join(f"{knob} = {quoted}\n" for knob in ("out_dir", "dataset", "wandb_run_name", "device", "dtype"))
    return (
        f"{EVIL}\nOverriding config with {EVIL}:\n{header}batch_size = 8\nblock_size = 128\n"
        f"Overriding: dataset = {HTML}\ntokens per iteration will be: 1,024\nnumber of parameters: 10.65M\n"
        f"{EVIL}\n{rows()}{EVIL}\n"
    )


def nanochat_log() -> str:
    lines = "".join(
        f"step {n:05d}/00100 ({n}.00%) | loss: {9 - n / 20:.6f} | lrm: 1.00 | dt: {300 + n % 3}.10ms | tok/sec: 1 "
        f"| bf16_mfu: 48.10 | epoch: 1 | total time: 0.05m\n"
        for n in range(20)
    )
    card = HTML[:90]
    return f"GPU: {card} | Peak FLOPS (BF16): 9.89e+14\n{lines}Saved model parameters to: {HTML}/model_00019.pt\n"


def ledger() -> str:
    known = {"started": EVIL, "nanopace": EVIL, "config": {"out_dir": EVIL, "dataset": EVIL, EVIL: EVIL}, "gpu": EVIL}
    known |= {"corpus": EVIL, "tokenizer": EVIL, "choices": {EVIL: EVIL}, "python": EVIL, "torch": EVIL, "host": EVIL}
    events: list[dict[str, object]] = [{"event": "run", **known}]
    events += [{"event": "step", "iteration": n, "ms": 100.0 + n % 3, "loss": 5 - n / 20} for n in range(40)]
    events += [
        {"event": "eval", "iteration": 40, "val": 3.0, "ms": 10.0, "metric": EVIL},
        {"event": "span", "phase": EVIL, "iteration": 40, "ms": 10.0, "note": EVIL},
        {"event": "checkpoint", "iteration": 40, "path": EVIL, "stall_ms": 1.0},
        {"event": "gpu", "iteration": 40, "throttle": EVIL, "watts": 100.0},
        {"event": "note", "text": EVIL},
        {"event": "end", "reason": EVIL, "wall_ms": 5000.0},
    ]
    return "".join(json.dumps(event) + "\n" for event in events)


def write_all(directory: Path) -> list[str]:
    """Write one log of each kind; their names are as hostile as their contents."""
    contents = {NAME: nanogpt_log(), f"chat-{NAME}": nanochat_log(), "ledger.jsonl": ledger()}
    for name, content in contents.items():
        (directory / name).write_text(content, encoding="utf-8", errors="surrogateescape")
    return list(contents)
