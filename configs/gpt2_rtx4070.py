# gpt2, 123.6M parameters, on one RTX 4070 (12 GB): nanopace recommend.
# Expected: 53.7k tokens/s (38.9k to 65.5k), 12.8 h in all (10.5 h to 17.6 h).
# Final loss on web text: about 3.52 (3.37 to 3.67).
out_dir = "out-gpt2"  # checkpoints and the ledger go here
eval_interval = 200  # 23 evaluations over the run, in 1% of its time at most
eval_iters = 49  # 401.4k tokens per split: more precision would not help
log_interval = 10  # divides eval_interval, so the log shows every evaluation
dataset = "fineweb-edu"  # the folder under data/; nanopace prepare creates it
gradient_accumulation_steps = 64  # 524,288 tokens per step, however small the micro-batch
batch_size = 8  # the fastest that nanoGPT can hold as well; 16 should gain 0.5% with nanopace
block_size = 1024  # tokens the model sees at once
n_layer = 12  # 123.6M parameters in all
n_head = 12  # 64 wide each
n_embd = 768  # 123.6M parameters in all
dropout = 0.0  # hardly any token is seen twice
bias = False  # slightly faster without, and no worse
learning_rate = 0.0006  # GPT-3's value for 123.6M parameters, interpolated between the sizes in its table
min_lr = 6e-05  # a tenth of learning_rate
max_iters = 4714  # 2.47B tokens: 20 per parameter, the lowest loss for the compute (Hoffmann et al. 2022)
lr_decay_iters = 4714  # the learning rate is lowest where the run ends
warmup_iters = 188  # 98.6M tokens: 1/25 of the run, and GPT-3's 375M at most
weight_decay = 0.1  # same as GPT-3 and nanoGPT
beta2 = 0.95  # same as GPT-3, for large batches
grad_clip = 1.0  # against the odd bad batch
dtype = "bfloat16"  # the card supports it, and it needs no loss scaling

# nanopace's own settings, which nanoGPT ignores:
save_interval = 100  # at most 16 min 16 s of work is lost if the run stops; written in the background
recipe = "gpt2"  # same as nanoGPT; 'fast' should reach the same loss in about 2.7 h (extrapolated), but is not a GPT-2
