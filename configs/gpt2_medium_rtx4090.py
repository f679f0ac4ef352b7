# gpt2-medium, 353.6M parameters, on one RTX 4090 (24 GB): nanopace recommend.
# Expected: 45.2k tokens/s (33.4k to 53.4k), 1 d 19 h in all (1 d 13 h to 2 d 11 h).
# Loss at the end, on web text: about 3.06 (2.90 to 3.21).
out_dir = "out-gpt2-medium"  # checkpoints and the ledger go here
eval_interval = 250  # 53 evaluations over the run, within 1% of its time
eval_iters = 49  # 401.4k tokens of each split: as exact as is useful
log_interval = 10  # divides eval_interval, so that the log shows every evaluation
dataset = "fineweb-edu"  # the folder under data/; nanopace prepare makes it
gradient_accumulation_steps = 64  # 524,288 tokens a step, however small a micro-batch is
batch_size = 8  # the smallest within 2% of the fastest that fits; launching takes 2.9% of the time, whatever its size
block_size = 1024  # tokens that the model sees at once
n_layer = 24  # 353.6M parameters in all
n_head = 16  # 64 wide each
n_embd = 1024  # 353.6M parameters in all
dropout = 0.0  # hardly a token is seen twice
bias = False  # a little faster without, and no worse
learning_rate = 0.0003  # GPT-3's for 353.6M parameters, between the sizes of its table
min_lr = 3e-05  # a tenth of the peak
max_iters = 13487  # 7.07B tokens: 20 a parameter, the lowest loss for the arithmetic (Hoffmann et al. 2022)
lr_decay_iters = 13487  # the rate is lowest where the run ends
warmup_iters = 539  # 282.6M tokens: a 25th of the run, and GPT-3's 375M at most
weight_decay = 0.1  # GPT-3's and nanoGPT's
beta2 = 0.95  # GPT-3's, for large batches
grad_clip = 1.0  # against the odd bad batch
dtype = "bfloat16"  # the card has it, and it needs no loss scaling

# nanopace's own, over which nanoGPT passes:
save_interval = 100  # at most 19 min 19 s of work are lost if the run stops; written in the background
recipe = "gpt2"  # as nanoGPT trains it; 'fast' reaches the same loss sooner, and is no GPT-2
