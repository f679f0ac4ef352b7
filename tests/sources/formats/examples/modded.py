"""modded-nanogpt's logs, in small."""

from __future__ import annotations

_CODE = """import os
print0(f"step:{step}/{train_steps} train_time:{approx:.0f}ms step_avg:{approx/(step + 1):.2f}ms", console=True)
"""
_RULE = "=" * 100
_ROWS = "".join(f"step:{step}/20 train_time:{100 * step}ms step_avg:100.00ms\n" for step in range(1, 20))
EXAMPLES = {
    "modded-nanogpt": f"{_CODE}{_RULE}\nRunning Python 3.12.7\n{_RULE}\n"
    "step:0/20 val_loss:10.8258 train_time:0ms step_avg:0.02ms\n"
    f"{_ROWS}step:20/20 val_loss:3.2781 train_time:2004ms step_avg:100.20ms\n"
    "peak memory allocated: 29818 MiB reserved: 44138 MiB\n"
}
