# A small GPT on the characters of Shakespeare: nanopace prepare shakespeare --tokenizer chars --name shakespeare_char
# Minutes on any card; on a CPU add --max_iters=500 and some patience.
out_dir = "out-shakespeare-char"
dataset = "shakespeare_char"
eval_interval = 250
eval_iters = 50
log_interval = 10

gradient_accumulation_steps = 1
batch_size = 64
block_size = 256

n_layer = 6
n_head = 6
n_embd = 384
dropout = 0.2

learning_rate = 1e-3
min_lr = 1e-4
max_iters = 5000
lr_decay_iters = 5000
warmup_iters = 100
beta2 = 0.99
