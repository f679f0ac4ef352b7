"""The optimizers: `adamw.py`, `bf16_adamw.py` (averages in bfloat16) and `muon.py` (Muon together with AdamW).

`optimizer.py` has the table of them and what they share: checkpoints, learning rates. `groups.py` sorts a recipe's
weights by learning rate.
"""
