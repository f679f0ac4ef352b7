# A nanoGPT config, as train.py takes it.
out_dir = 'out-fineweb'
dataset = 'fineweb'
eval_interval = 500
eval_iters = 200
log_interval = 200
always_save_checkpoint = True
batch_size = 8
gradient_accumulation_steps = 64  # 8 * 64 * 1024 = 524,288 tokens per iteration
block_size = 1024
n_layer = 12
n_head = 12
n_embd = 768
vocab_size = 50304
dropout = 0.0
bias = False
learning_rate = 3e-4
max_iters = 12000
compile = True
