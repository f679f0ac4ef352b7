"""A small log of each trainer that reproduces GPT-2: their line formats, with made-up figures."""

from __future__ import annotations

BUILD_NANOGPT = """\
using device: cuda
total desired batch size: 524288
=> calculated gradient accumulation steps: 8
found 99 shards for split train
found 1 shards for split val
num decayed parameter tensors: 50, with 124,354,560 parameters
num non-decayed parameter tensors: 98, with 121,344 parameters
using fused AdamW: True
validation loss: 10.9517
HellaSwag accuracy: 2510/10042=0.2500
step     0 | loss: 10.955015 | lr 8.3916e-07 | norm: 15.3417 | dt: 37298.00ms | tok/sec: 14056.73
step     1 | loss: 10.902713 | lr 1.6783e-06 | norm: 14.8626 | dt: 1572.00ms | tok/sec: 333516.54
step     2 | loss: 10.803934 | lr 2.5175e-06 | norm: 14.4637 | dt: 1577.00ms | tok/sec: 332459.10
step     3 | loss: 10.662127 | lr 3.3566e-06 | norm: 12.9314 | dt: 1572.50ms | tok/sec: 333410.49
validation loss: 10.6012
HellaSwag accuracy: 2480/10042=0.2470
rank 0 sample 0: Hello, I'm a language model, and the
step 3 | loss: 1.000000 | lr 1.0000e-04 | norm: 1.0000 | dt: 1.00ms | tok/sec: 1.00
of it
rank 0 sample 1: Hello, I'm a language model, which
step     4 | loss: 10.518579 | lr 4.1958e-06 | norm: 10.5760 | dt: 36100.00ms | tok/sec: 14523.21
step     5 | loss: 10.376801 | lr 5.0350e-06 | norm: 8.8718 | dt: 1573.00ms | tok/sec: 333304.51
"""

BUILD_NANOGPT_LOG = """\
0 val 10.9512
0 hella 0.2470
0 train 10.954321
1 train 10.902713
2 train 10.803934
3 val 10.7010
3 hella 0.2480
3 train 10.662127
4 train nan
"""

LLAMA2C = """\
Overriding: dim = 288
Overriding: n_layers = 6
Overriding: max_iters = 20
tokens per iteration will be: 131,072
breaks down as: 4 grad accum steps * 1 processes * 128 batch size * 256 max seq len
Initializing a new model from scratch
num decayed parameter tensors: 43, with 15,187,968 parameters
num non-decayed parameter tensors: 13, with 3,744 parameters
using fused AdamW: True
compiling the model... (takes a ~minute)
Created a PretokDataset with rng seed 42
step 0: train loss 10.4173, val loss 10.4171
0 | loss 10.4137 | lr 0.000000e+00 | 14404.98ms | mfu -100.00%
5 | loss 10.2050 | lr 2.500000e-06 | 612.20ms | mfu -100.00%
step 10: train loss 9.9100, val loss 9.9200
saving checkpoint to out
wrote out/model.bin
10 | loss 9.9050 | lr 5.000000e-06 | 9220.75ms | mfu 0.54%
15 | loss 9.7150 | lr 7.500000e-06 | 612.90ms | mfu 1.29%
20 | loss 9.5250 | lr 1.000000e-05 | 613.10ms | mfu 1.97%
"""

LLMC = """\
Multi-GPU support is disabled. Using a single GPU.
+-----------------------+----------------------------------------------------+
| Parameter             | Value                                              |
+-----------------------+----------------------------------------------------+
| train data pattern    | dev/data/fineweb10B/fineweb_train_*.bin            |
| resume                | 0                                                  |
| micro batch size B    | 32                                                 |
| sequence length T     | 1024                                               |
| total batch size      | 524288                                             |
| learning rate (LR)    | 6.000000e-04                                       |
| warmup iterations     | 700                                                |
| val_loss_every        | 2                                                  |
+-----------------------+----------------------------------------------------+
| device                | NVIDIA A100-SXM4-80GB                              |
| peak TFlops           | 312.0                                              |
| precision             | BF16                                               |
+-----------------------+----------------------------------------------------+
| weight init method    | d12                                                |
| max_sequence_length T | 1024                                               |
| vocab_size V          | 50257                                              |
| padded_vocab_size Vp  | 50304                                              |
| num_layers L          | 12                                                 |
| num_heads NH          | 12                                                 |
| channels C            | 768                                                |
| num_parameters        | 124475904                                          |
+-----------------------+----------------------------------------------------+
| train_num_batches     | 4                                                  |
+-----------------------+----------------------------------------------------+
| num_processes         | 1                                                  |
| zero_stage            | 1                                                  |
+-----------------------+----------------------------------------------------+
num_parameters: 124475904 => bytes: 248951808
batch_size B=32 * seq_len T=1024 * num_processes=1 and total_batch_size=524288
=> setting grad_accum_steps=16
 -> estimated maximum batch size: 61
val loss 11.007921
step    1/4 | loss 11.009662 (+nanz)| norm 15.0789 (+nanz)| lr 8.57e-07 | 4230.00 ms | 31.9% bf16 MFU | 123945 tok/s
                compute 98.9% | memory: 45.2% | fan:  0% | 1275 MHz / 1410 MHz | 389 W / 400 W | 61°C / 92°C | power cap
skipping update due to loss z-score of 6.100000
step    2/4 | loss 10.956554 (+6.10z)| norm 15.2427 (+nanz)| lr 1.71e-06 | 2190.00 ms | 61.6% bf16 MFU | 239401 tok/s
val loss 10.900000
evaluating HellaSwag: 770/837
HellaSwag: 2510/10042 = 0.249950
generating:
---
step    3/9 | loss 1.000000 (+nanz)| norm 1.0000 (+nanz)| lr 1.00e-01 | 1.00 ms | 1.0% bf16 MFU | 1 tok/s
val loss 1.000000
---
Writing checkpoint at step 2
Writing model to log124M/model_00000002.bin
Writing state to log124M/state_00000002_00000.bin
step    3/4 | loss 10.848841 (+nanz)| norm 14.7707 (+nanz)| lr 2.57e-06 | 2200.00 ms | 61.3% bf16 MFU | 238843 tok/s
step    4/4 | loss     nan (+nanz)| norm    nan (+nanz)| lr 3.43e-06 | 2195.00 ms | 61.4% bf16 MFU | 238844 tok/s
val loss 10.700000
total average iteration time: 2195.000000 ms
"""

LLMC_PYTHON = """\
Running pytorch 2.4.0
using device: cuda:0
total desired batch size: 524288
=> calculated gradient accumulation steps: 8
num decayed parameter tensors: 50, with 124,318,464 parameters
num non-decayed parameter tensors: 98, with 121,344 parameters
using fused AdamW: True
compiling the model...
val loss 11.0079345703125
---------------
step    1/3 | train loss 1.000000 | norm 1.0000 | lr 1.00e-01 | (1.00 ms | 1 tok/s)
---------------
step    1/3 | train loss 11.009662 | norm 15.0789 | lr 8.57e-07 | (41230.50 ms | 12716 tok/s)
step    2/3 | train loss 10.956554 | norm 15.2427 | lr 1.71e-06 | (1450.25 ms | 361516 tok/s)
val loss 10.84321
step    3/3 | train loss 10.848841 | norm 14.7707 | lr 2.57e-06 | (7450.50 ms | 70370 tok/s)
val loss 10.62109375
final 2 iters avg: 4450.375ms
peak memory consumption: 61234 MiB
"""

LLMC_LOG = """\
s:0 tel:10.9885
s:0 trl:10.9819 lr:0.000000 norm:27.75
s:1 trl:10.8967 lr:0.000001 norm:27.61
s:2 tel:10.8012
s:2 eval:0.2480
s:2 trl:10.7363 lr:0.000001 norm:26.16
s:3 trl:10.5425 lr:0.000002 norm:21.32
s:4 tel:10.4011
"""

LLMQ = """\
[Options]
  recompute-norm    : true
  matmul-dtype      : F8_E4M3
  learning-rate     : 1e-05
  grad-accumulation : 8
  micro-batch       : 8
  seq-len           : 1024
  total-batch       : 65536
  steps             : 4
  eval-every-n-steps: 2

[System 0]
  Device 0: NVIDIA GeForce RTX 4090
  CUDA version: driver 13000, runtime 13000
  Memory: 906 MiB / 24080 MiB

[Speed of Light]
  Peak BF16:    165.2 TFLOP/s
  Blocks:      2145.3 MFLOP   in F8_E4M3
  LM-Head:      816.8 MFLOP   in BF16
  Attention:    132.1 MFLOP   in BF16
  SOL:          81723 tok/s

[T] step     0 [  0.0%] | time:  1869 ms | norm   4.315545 | loss   3.282568 | tps 35064 | sol 42.9%
[T] step     1 [ 25.0%] | time:  1709 ms | norm   8.423664 | loss   3.310652 | tps 38347 | sol 46.9%
saving checkpoint to `ckpt/run` ...
  done in 1250 ms

[V] step     2 [ 50.0%] | time:   165 ms | eval   2.945187 | train  3.296610 | tps  148k
[T] step     2 [ 50.0%] | time:  1708 ms | norm   4.818971 | loss   3.330125 | tps 38370 | sol 47.0%
[T] step     3 [ 75.0%] | time:   134  s | norm   5.247286 | loss   3.259991 | tps   489 | sol 0.6%
[V] step     4 [100.0%] | time:   170 ms | eval   2.901234 | train  3.295058 | tps  148k
Done. validation loss   2.901234
"""

LLMQ_JSON = """\
[
  {"log": "cmd", "time": "2026-01-02 10:00:00.000000000", "step": 0, "cmd": ["./train", "--gpus=1"]},
  {"log": "option", "time": "2026-01-02 10:00:00.100000000", "step": 0, "name": "grad-accumulation", "value": 8},
  {"log": "option", "time": "2026-01-02 10:00:00.100000000", "step": 0, "name": "micro-batch", "value": 8},
  {"log": "option", "time": "2026-01-02 10:00:00.100000000", "step": 0, "name": "seq-len", "value": 1024},
  {"log": "option", "time": "2026-01-02 10:00:00.100000000", "step": 0, "name": "total-batch", "value": 131072},
  {"log": "option", "time": "2026-01-02 10:00:00.100000000", "step": 0, "name": "matmul-dtype", "value": "BF16"},
  {"log": "gpu-model", "time": "2026-01-02 10:00:00.200000000", "rank": 0, "step": 0, "id": 0, "name": "NVIDIA L40S", \
"memory": 47810478080},
  {"log": "sol", "time": "2026-01-02 10:00:00.300000000", "rank": 0, "step": 0, "blocks": 2145300000, \
"lm_head": 816800000, "attention": 132100000, "tps": 81723},
  {"log": "step", "time": "2026-01-02 10:00:02.000000000", "step": 0, "step_tokens": 131072, "duration_ms": 1869, \
"norm": 4.315545, "loss": 3.25, "lr": 1e-05},
  {"log": "step", "time": "2026-01-02 10:00:04.000000000", "step": 1, "step_tokens": 131072, "duration_ms": 1709, \
"norm": nan, "loss": 3.35, "lr": 1e-05},
  {"log": "info", "time": "2026-01-02 10:00:05.000000000", "step": 2, "type": "message", \
"message": "saving checkpoint to `ckpt/run`", "duration_ms": 1250},
  {"log": "eval", "time": "2026-01-02 10:00:05.200000000", "step": 2, "eval_tokens": 24576, "duration_ms": 165, \
"loss": 2.945187},
  {"log": "step", "time": "2026-01-02 10:00:07.000000000", "step": 2, "step_tokens": 131072, "duration_ms": 1708, \
"norm": 4.8, "loss": nan, "lr": 1e-05}
]
"""

MINGPT = """\
system:
    seed: 3407
model:
    model_type: gpt-nano
    n_layer: None
    block_size: 128
trainer:
    device: auto
    max_iters: 40
    batch_size: 64
    learning_rate: 0.0005

number of parameters: 0.09M
running on device cuda
iter_dt 0.00ms; iter 0: train loss 4.21338
iter_dt 21.50ms; iter 10: train loss 3.90295
iter_dt 20.25ms; iter 20: train loss 3.41207
train final score: 12/9500 = 0.13% correct
saving model with new top score of 12.0
iter_dt 20.75ms; iter 30: train loss 3.20114
"""

MAKEMORE = """\
{'input_file': 'words.txt', 'work_dir': 'out', 'resume': False, 'max_steps': 40, 'device': 'cpu', 'seed': 3407, \
'type': 'rnn', 'n_layer': 4, 'n_embd': 64, 'batch_size': 32, 'learning_rate': 0.0005}
number of examples in the dataset: 4000
dataset determined that: vocab_size=27, block_size=16
model #params: 11051
step 0 | loss 3.2958 | step time 40.50ms
step 10 | loss 3.1042 | step time 12.25ms
step 20 | loss 2.9471 | step time 12.75ms
step 20 train loss: 2.9000 test loss: 2.9100
test loss 2.9100 is the best so far, saving model to out/model.pt
step 30 | loss 2.8112 | step time 12.50ms
--------------------------------------------------------------------------------
0 samples that are in train:
anora
"""

EXAMPLES: dict[str, str] = {
    "build_nanogpt": BUILD_NANOGPT,
    "build_nanogpt_log": BUILD_NANOGPT_LOG,
    "llama2c": LLAMA2C,
    "mingpt": MINGPT,
    "makemore": MAKEMORE,
    "llmc": LLMC,
    "llmc_python": LLMC_PYTHON,
    "llmc_log": LLMC_LOG,
    "llmq": LLMQ,
    "llmq_json": LLMQ_JSON,
}
