"""Small logs of modded-nanogpt, three eras in one file, and of parameter-golf."""

from __future__ import annotations

_RULE = "=" * 100
_CARD = "|   0  NVIDIA H100 80GB HBM3          On  |   00000000:19:00.0 Off |                    0 |\n"
_OLD_CODE = """import os
class Hyperparameters:
    batch_size : int = 8*64 # in sequences
    sequence_length : int = 1024
print(f"step:{step+1}/{args.num_iterations} train_loss:{train_loss.item():.4f} train_time:{approx_time:.0f}ms")
"""
_CODE = """import os
    train_seq_len = 48*1024
assert world_size == 8
train_loader = distributed_data_generator(args.train_files, world_size * args.train_seq_len, rank, world_size)
print0(f"step:{step}/{train_steps} val_loss:{val_loss:.4f} train_time:{training_time_ms:.0f}ms", console=True)
"""
_OLD_ROWS = "".join(
    f"step:{step}/16 train_loss:{9 - step / 8:.4f} train_time:{(70_000 if step < 11 else 0) + 200 * step}ms "
    f"step_avg:{'nan' if step < 13 else '200.00'}ms\n"
    for step in range(1, 17)
)
_ROWS = "".join(f"step:{step}/20 train_time:{96 * step}ms step_avg:96.00ms\n" for step in range(1, 20))
_SECONDS = "".join(
    f"step:{step}/400 val_loss:{11 - step / 60:.5f} train_time:{0.15 * step:.3f}s step_avg:150.00ms\n"
    for step in (0, 125, 250, 375, 400)
)
_GOLF_ROWS = "".join(
    f"step:{step}/20000 train_loss:{7 - step / 200:.4f} train_time:{43 * step}ms step_avg:43.00ms\n"
    for step in (*range(1, 11), 200, 400, 600)
)

EXAMPLES = {
    "modded-nanogpt": f"{_RULE}\n{_OLD_CODE}{_RULE}\nRunning pytorch 2.6.0 compiled for CUDA 12.4\n{_CARD}{_RULE}\n"
    f"step:0/16 val_loss:10.8258 train_time:285ms step_avg:nanms\n{_OLD_ROWS}"
    f"step:16/16 val_loss:6.9000 train_time:1230ms step_avg:205.00ms\n"
    f"{_CODE}{_RULE}\nRunning Python 3.12.7\nRunning PyTorch 2.9.0 compiled for CUDA 12.6\n{_CARD}{_RULE}\n"
    f"step:0/20 val_loss:10.8258 train_time:0ms step_avg:0.02ms\n{_ROWS}"
    "step:20/20 val_loss:3.2781 train_time:2004ms step_avg:100.20ms\n"
    "peak memory allocated: 29818 MiB reserved: 44138 MiB\n"
    "Running PyTorch 2.11.0 compiled for CUDA 12.8 on NVIDIA H200 with world_size 8\n"
    f"{_SECONDS}",
    "parameter-golf": "model_params:17059912\nworld_size:8 grad_accum_steps:1\n"
    "train_batch_tokens:524288 train_seq_len:1024 iterations:20000 warmup_steps:2 max_wallclock_seconds:30.000\n"
    "warmup_step:1/2\nwarmup_step:2/2\n"
    "step:0/20000 val_loss:6.9357 val_bpb:4.1077 train_time:0ms step_avg:0.01ms\n"
    f"{_GOLF_ROWS}step:690/20000 val_loss:3.0598 val_bpb:1.8199 train_time:30061ms step_avg:43.57ms\n"
    "stopping_early: wallclock_cap train_time:30061ms step:690/20000\n"
    "Hyperparameters:\n  train_batch_tokens: 786432\n  world_size: 8\n"
    "1/20000 train_loss: 9.0122 train_time: 0.0m tok/s: 7864320\n"
    "500/20000 train_loss: 3.3363 train_time: 0.8m tok/s: 7864320\n"
    "1000/20000 train_loss: 3.1873 train_time: 1.7m tok/s: 7864320\n"
    "1000/20000 val_loss: 3.1184 val_bpb: 1.2298\n"
    "1100/20000 val_loss: 3.1177 val_bpb: 1.2290\n"
    "stopping_early: wallclock_cap train_time: 110138ms step: 1100/20000\n",
}
