# GPT-2 124M on an A100, H100 or H200: nanopace prepare fineweb-edu
# 64 sequences fill the card; the same 524,288 tokens a step as the other configs.
out_dir = "out-gpt2-80gb"
dataset = "fineweb-edu"
eval_interval = 250
eval_iters = 25
log_interval = 10

batch_size = 64
gradient_accumulation_steps = 8
block_size = 1024

learning_rate = 6e-4
min_lr = 6e-5
warmup_iters = 500
max_iters = 19000
lr_decay_iters = 19000
