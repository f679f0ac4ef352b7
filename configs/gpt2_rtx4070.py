# gpt2, 123.6M parameters, on one RTX 4070 (12 GB): nanopace recommend.
# Expected: 63.4k tokens/s (46.1k to 74.8k), 10.8 h in all (9.2 h to 14.9 h).
# Loss at the end, on web text: about 3.52 (3.37 to 3.67).
out_dir = "out-gpt2"  # checkpoints and the ledger go here
eval_interval = 200  # 23 evaluations over the run, within 1% of its time
eval_iters = 49  # 401.4k tokens of each split: as exact as is useful
log_interval = 10  # divides eval_interval, so that the log shows every evaluation
dataset = "fineweb-edu"  # the folder under data/; nanopace prepare makes it
gradient_accumulation_steps = 64  # 524,288 tokens a step, however small a micro-batch is
batch_size = 8  # the smallest within 2% of the fastest that fits; launching takes 2.1% of the time, whatever its size
block_size = 1024  # tokens that the model sees at once
n_layer = 12  # 123.6M parameters in all
n_head = 12  # 64 wide each
n_embd = 768  # 123.6M parameters in all
dropout = 0.0  # hardly a token is seen twice
bias = False  # a little faster without, and no worse
learning_rate = 0.0006  # GPT-3's for 123.6M parameters, between the sizes of its table
min_lr = 6e-05  # a tenth of the peak
max_iters = 4714  # 2.47B tokens: 20 a parameter, the lowest loss for the arithmetic (Hoffmann et al. 2022)
lr_decay_iters = 4714  # the rate is lowest where the run ends
warmup_iters = 188  # 98.6M tokens: a 25th of the run, and GPT-3's 375M at most
weight_decay = 0.1  # GPT-3's and nanoGPT's
beta2 = 0.95  # GPT-3's, for large batches
grad_clip = 1.0  # against the odd bad batch
dtype = "bfloat16"  # the card has it, and it needs no loss scaling

# nanopace's own, over which nanoGPT passes:
save_interval = 200  # at most 27 min 33 s of work are lost if the run stops; written in the background
recipe = "gpt2"  # as nanoGPT trains it; 'fast' reaches the same loss sooner, and is no GPT-2
