# GPT-2 124M on a card with 12 GB: nanopace prepare fineweb-edu
# 16 sequences leave a quarter of the memory free (nanopace's memory model: 21 fit); 524,288 tokens a step.
out_dir = "out-gpt2-12gb"
dataset = "fineweb-edu"
eval_interval = 250
eval_iters = 100
log_interval = 10

batch_size = 16
gradient_accumulation_steps = 32
block_size = 1024

learning_rate = 6e-4
min_lr = 6e-5
warmup_iters = 500
max_iters = 19000
lr_decay_iters = 19000
