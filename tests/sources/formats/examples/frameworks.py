"""Small logs of torchtitan, Megatron, litgpt, lingua and autoresearch, with made-up figures."""

from __future__ import annotations

import json


def clock(seconds: float) -> str:
    """A moment of one day."""
    return f"2025-06-04 {int(seconds) // 3600:02d}:{int(seconds) // 60 % 60:02d}:{int(seconds) % 60:02d}"


def titan(text: str, seconds: float, rank: int = 0) -> str:
    thousandths = round(1000 * seconds) % 1000
    return f"[rank{rank}]:[titan] {clock(seconds)},{thousandths:03d} - root - INFO - {text}\n"


def titan_row(step: int, loss: float, rate: float, *, mfu: str = "") -> str:
    return (
        f"step: {step:2}  loss: {loss:8.5f}  grad_norm:  1.2500  memory: 30.99GiB(32.62%)  tps: {round(rate):,}  "
        f"tflops: {rate * 0.05:,.2f}  mfu: {mfu or f'{rate * 5 / 989:.2f}%'}"
    )


TITAN_HEAD = "".join(
    titan(text, 5.0)
    for text in (
        "torchtitan version: 0.2.0 (0.0.0 means __version__ is not defined correctly).",
        "Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=4, cp=1, tp=2, ep=1, etp=1",
        "CUDA capacity: NVIDIA H100 80GB HBM3 with 79.11GiB memory",
        "\x1b[34mModel llama3 8B \x1b[31msize: 8,030,261,248 total parameters\x1b[39m",
        "Compiling each TransformerBlock with torch.compile",
        "Peak FLOPS used for computing MFU: 9.890e+14",
        "Trainer is initialized with local batch size 2, global batch size 8, gradient accumulation steps 1, "
        "sequence length 4096, total steps 40 (warmup 2).",
        "Training starts at step 1.",
    )
)


def titan_log() -> str:
    """4 x 2 GPUs, 32,768 tokens in a step of half a second: 8,192 tokens per second each."""
    lines, at = [TITAN_HEAD], 20.0
    lines.append(titan(titan_row(1, 12.25, 4096 / 20), at))
    for step in (10, 20, 30, 40):
        at += 0.5 * (9 if step == 10 else 10)
        lines.append(titan(titan_row(step, 11 - step / 10, 8192), at))
        if step == 20:
            lines.append(titan("Saving the checkpoint (or staging if async is enabled).", at))
            at += 3
            lines.append(titan("Finished saving the checkpoint (or staging if async is enabled) in 3.00 seconds.", at))
            at += 2
            lines.append(titan(f"validate step: {step}  loss:  9.5000  memory: 31.00GiB(32.62%)  tps: 20,000", at))
    lines.append(titan("Training completed", at + 2))
    return "".join(lines)


def megatron_row(step: int, ms: float, loss: float | None = 9.0, *, stamp: str = "", batch: int = 64) -> str:
    printed = "" if loss is None else f" lm loss: {loss:.6E} |"
    return (
        f" {stamp}iteration {step:8d}/     100 | consumed samples: {step * batch:12d} | elapsed time per iteration "
        f"(ms): {ms:.1f} | throughput per GPU (TFLOP/s/GPU): 200.0 | learning rate: 1.000000E-04 | global batch size: "
        f"{batch:5d} |{printed} loss scale: 1.0 | grad norm: 1.000 | number of skipped iterations:   0 | number of nan "
        "iterations:   0 |\n"
    )


MEGATRON_HEAD = (
    "using world size: 16, data-parallel-size: 4, tensor-model-parallel size: 4, pipeline-model-parallel size: 1 \n"
    "using torch.bfloat16 for parameters ...\n"
    "------------------------ arguments ------------------------\n"
    "  hidden_size ..................................... 2048\n"
    "  log_interval .................................... 10\n"
    "  num_layers ...................................... 24\n"
    "  params_dtype .................................... torch.bfloat16\n"
    "  seq_length ...................................... 2048\n"
    "-------------------- end of arguments ---------------------\n"
    " > padded vocab (size: 50257) with 47 dummy tokens (new size: 50304)\n"
    "    will not load any checkpoints and will start from random\n"
    "[before the start of training step] datetime: 2025-06-04 10:00:00 \n"
)


def megatron_log(*, stamped: bool) -> str:
    """The old format's clock keeps running during the evaluation of 10 s and the save of 5 s after iteration 50."""
    lines = [MEGATRON_HEAD]
    for step in range(10, 101, 10):
        slow = step == 60 and not stamped
        stamp = f"[{clock(36000 + step + (15 if step > 50 else 0))}] " if stamped else ""
        lines.append(megatron_row(step, 2500.0 if slow else 1000.0, 10 - step / 20, stamp=stamp))
        if step == 50:
            timers = "(min, max) time across ranks (ms):\n    {} ...: (9999.90, {})\n"
            rule = "-" * 99 + "\n"
            lines.append(timers.format("evaluate", "10000.00"))
            lines.append(
                f"{rule} validation loss at iteration 50 | lm loss value: 7.250000E+00 | lm loss PPL: 1.E+03 | \n{rule}"
            )
            lines.append("  successfully saved checkpoint from iteration      50 to checkpoints\n")
            lines.append(timers.format("save-checkpoint", "5000.00"))
    lines.append("[after training is done] datetime: 2025-06-04 10:02:00 \n")
    return "".join(lines)


def litgpt_row(iteration: int, step: int, ms: float, *, update: bool) -> str:
    mark = " (step)" if update else ""
    return (
        f"Epoch 1 | iter {iteration} step {step} | loss train: {9 - iteration / 20:.3f}, val: n/a | iter time: "
        f"{ms:.2f} ms{mark} remaining time: 0:01:40\n"
    )


def litgpt_log() -> str:
    """Pretraining: two micro-batches in a step."""
    rows = [litgpt_row(n, n // 2, 120.0 if n % 2 == 0 else 100.0, update=n % 2 == 0) for n in range(1, 41)]
    rows.insert(20, "Validating ...\niter 20: val loss 8.1250, val time: 1500.00 ms\n")
    return (
        "{'data': TextFiles(train_data_path=PosixPath('texts'), seed=42),\n 'devices': 2,\n 'num_nodes': 1,\n"
        " 'train': TrainArgs(save_interval=1000, log_interval=1, global_batch_size=16, micro_batch_size=4,"
        " max_tokens=1000000, max_seq_length=512, tie_embeddings=None)}\n"
        "Time to instantiate model: 0.05 seconds.\nTotal parameters: 1,100,048,384\nMeasured TFLOPs: 12.30\n"
        f"{''.join(rows)}Final evaluation | val loss: 7.000 | val ppl: 1096.633\n"
        "Saving checkpoint to 'out/final/lit_model.pth'\n"
        "----------------------------------------\n| Performance\n| - Total tokens  : 163,840\n"
        "| - Training Time : 6.40 s\n| - Tok/sec       : 12.34 tok/s\n"
    )


def lit_gpt_log() -> str:
    rows = [
        f"iter {n} step {n // 4 + 1}: loss {10 - n / 20:.4f}, LR: 0.000300, "
        f"iter time: {250.0 if n % 4 == 3 else 200.0:.2f}ms{' (optimizer.step)' if n % 4 == 3 else ''}\n"
        for n in range(40)
    ]
    return "".join([*rows[:20], "step 19: val loss 9.0625, val time: 3000.00ms\n", *rows[20:]])


def lingua_log() -> str:
    """Two GPUs; a step takes 0.9 s, and the GPU is busy for 0.85 s of it."""

    def line(rank: int, seconds: float, text: str) -> str:
        return f"{rank}: INFO    {clock(seconds)[2:]}.{round(1e6 * seconds) % 1_000_000:06d} - 0:00:07 - {text}\n"

    head = [line(rank, 7, text) for text in ("Starting job: debug",) for rank in (0, 1)]
    head += [line(rank, 8, "Model size: 1,809,946,624 total parameters") for rank in (0, 1)]
    head += [line(0, 8, "GPU capacity: NVIDIA A100-SXM4-80GB (0) with 79.33GiB memory")]
    for step in range(1, 41):
        first = step == 1
        for rank in (1, 0):
            row = (
                f"step: {step}  acc: 0  loss: {12 - step / 10 + rank / 10:7.4f}  grad: 1.06e+01  flops: 1.97e+14  wps: "
                f"{4.1e2 if first else 1.82e4:.2e}  iter: {8.2 if first else 0.85:7.4f}  "
                f"data: {31.8 if first else 0.01}  lr: 6.00e-07  mem: 59%  pow: 392.956 W"
            )
            head.append(line(rank, 48 + 0.9 * (step - 1) + rank / 1000, row))
    return "".join(head)


def lingua_metrics() -> str:
    """Eight GPUs, 131,072 tokens in a step of 0.9 s, and 9 s for a checkpoint after step 50."""
    rows = []
    for step in range(10, 101, 10):
        at = 100 + 0.9 * step + (9 if step > 50 else 0)
        wps = 16384 / 0.9 / (2 if step == 60 else 1)
        rows.append(
            {
                "global_step": step,
                "acc_step": 0,
                "speed/wps": wps,
                "speed/FLOPS": wps * 1e10,
                "speed/curr_iter_time": 0.85,
                "speed/data_load_time": 0.01,
                "optim/grad_norm": 1.0,
                "optim/lr": 3e-4,
                "optim/total_tokens": 131072 * step,
                "loss/out": 11 - step / 20,
                "created_at": f"{clock(at).replace(' ', 'T')}.{round(1e6 * at) % 1_000_000:06d}+00:00",
            }
        )
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def autoresearch_log(steps: int = 40) -> str:
    """524,288 tokens in a step of 310 ms; rows overwrite each other."""
    rows = "".join(
        f"\rstep {n:05d} ({n / steps:.1f}%) | loss: {9 - n / 20:.6f} | lrm: 1.00 | dt: {310 + n % 2}ms | tok/sec: "
        f"{int(524288 / (0.310 + n % 2 / 1000)):,} | mfu: {100 * 2.4e8 * 524288 / 0.31 / 989.5e12:.1f}% | epoch: 1 | "
        f"remaining: {300 - n}s    "
        for n in range(steps)
    )
    return (
        "Vocab size: 8,192\nModel config: {'sequence_len': 2048, 'vocab_size': 8192, 'n_layer': 8, 'n_head': 4, "
        "'n_kv_head': 4, 'n_embd': 512, 'window_pattern': 'SSSL'}\nParameter counts:\n"
        "  wte                     : 4,194,304\n  total                   : 50,332,176\n"
        "Estimated FLOPs per token: 2.400000e+08\nTime budget: 300s\n"
        f"Gradient accumulation steps: 2\n{rows}\n---\nval_bpb:          0.997900\ntraining_seconds: 300.1\n"
        "total_seconds:    325.9\npeak_vram_mb:     45060.2\nmfu_percent:      39.80\ntotal_tokens_M:   21.0\n"
        f"num_steps:        {steps}\nnum_params_M:     50.3\ndepth:            8\n"
    )


EXAMPLES = {
    "torchtitan": titan_log(),
    "megatron": megatron_log(stamped=True),
    "megatron-2021": megatron_log(stamped=False),
    "litgpt": litgpt_log(),
    "lit-gpt": lit_gpt_log(),
    "lingua": lingua_log(),
    "lingua-metrics": lingua_metrics(),
    "autoresearch": autoresearch_log(),
}
