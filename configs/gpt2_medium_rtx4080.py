# gpt2-medium, 353.6M parameters, on one RTX 4080 (16 GB): nanopace recommend.
# Expected: 32.0k tokens/s (23.4k to 39.0k), 2 d 13 h in all (2 d 2 h to 3 d 12 h).
# Final loss on web text: about 3.06 (2.90 to 3.21).
# This micro-batch does not fit with nanoGPT: use batch_size=4 and gradient_accumulation_steps=128 there.
out_dir = "out-gpt2-medium"  # checkpoints and the ledger go here
eval_interval = 200  # 67 evaluations over the run, in 1% of its time at most
eval_iters = 49  # 401.4k tokens per split: more precision would not help
log_interval = 10  # divides eval_interval, so the log shows every evaluation
dataset = "fineweb-edu"  # the folder under data/; nanopace prepare creates it
gradient_accumulation_steps = 64  # 524,288 tokens per step, however small the micro-batch
batch_size = 8  # the fastest that leaves a tenth of the memory free
block_size = 1024  # tokens the model sees at once
n_layer = 24  # 353.6M parameters in all
n_head = 16  # 64 wide each
n_embd = 1024  # 353.6M parameters in all
dropout = 0.0  # hardly any token is seen twice
bias = False  # slightly faster without, and no worse
learning_rate = 0.0003  # GPT-3's value for 353.6M parameters, interpolated between the sizes in its table
min_lr = 3e-05  # a tenth of learning_rate
max_iters = 13487  # 7.07B tokens: 20 per parameter, the lowest loss for the compute (Hoffmann et al. 2022)
lr_decay_iters = 13487  # the learning rate is lowest where the run ends
warmup_iters = 539  # 282.6M tokens: 1/25 of the run, and GPT-3's 375M at most
weight_decay = 0.1  # same as GPT-3 and nanoGPT
beta2 = 0.95  # same as GPT-3, for large batches
grad_clip = 1.0  # against the odd bad batch
dtype = "bfloat16"  # the card supports it, and it needs no loss scaling

# nanopace's own settings, which nanoGPT ignores:
save_interval = 100  # at most 27 min 19 s of work is lost if the run stops; written in the background
recipe = "gpt2"  # same as nanoGPT; 'fast' reached the same loss sooner at GPT-2's size, but is not a GPT-2
