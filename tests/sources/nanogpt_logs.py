"""Logs as nanoGPT prints them, of any length and era."""

from __future__ import annotations

HEADER = """\
$ python train.py config/train_web.py --batch_size=8
Overriding config with config/train_web.py:
# A GPT of 124M parameters – for cards of 12 GB and more, see the notes on memory in the wiki of the group
out_dir = 'out-web'
eval_interval = 500       # more often, since the data is small
log_interval = 200

gradient_accumulation_steps = 64     # the batch in sequences is then: 8 * 64 = 512, about half a million tokens
batch_size = 16
block_size = 1024
n_layer = 12
n_head = 12
n_embd = 768
max_iters = 3000                      # 1.5 billion tokens (more if the loss has not stopped falling by then)
compile = True            # 20–30% faster, after a minute of patience
weight_decay = 1e-1
Overriding: batch_size = 8
tokens per iteration will be: 524,288
Initializing a new model from scratch
defaulting to vocab_size of GPT-2 to 50304 (50257 rounded up for efficiency)
number of parameters: 123.59M
/home/me/nanoGPT/train.py:196: FutureWarning: `torch.cuda.amp.GradScaler(args...)` is deprecated. Use another one.
  scaler = torch.cuda.amp.GradScaler(enabled=(dtype == 'float16'))
num decayed parameter tensors: 50, with 124,354,560 parameters
num non-decayed parameter tensors: 25, with 19,200 parameters
using fused AdamW: True
compiling the model... (takes a ~minute)
"""


def print_rows(
    start: int = 0,
    stop: int = 3001,
    *,
    log_interval: int = 200,
    eval_interval: int = 500,
    step_ms: float = 9340.0,
    eval_ms: float = 19790.0,
    mfu: bool = True,
) -> str:
    """What a process of nanoGPT prints after its header."""
    printed = []
    running = None
    for iteration in range(start, stop):
        ms = step_ms + iteration % 7
        if iteration % eval_interval == 0:
            ms += eval_ms
            loss = 2 + 9 / (1 + iteration / 100)
            printed.append(f"step {iteration}: train loss {loss - 0.01:.4f}, val loss {loss:.4f}")
            if iteration > 0:
                printed.append("saving checkpoint to out-web")
        if iteration % log_interval:
            continue
        if iteration - start >= 5:
            true = 524_288 * 854_770_176 / (ms / 1000) / 312e12
            running = true if running is None else 0.9 * running + 0.1 * true
        line = f"iter {iteration}: loss {2 + 9 / (1 + iteration / 100):.4f}, time {ms:.2f}ms"
        if mfu:
            line += f", mfu {-100.0 if running is None else 100 * running:.2f}%"
        printed.append(line)
    return "\n".join(printed) + "\n"


WHOLE_LOG = HEADER + print_rows()
