"""The optimizers: `adamw.py`, `bf16_adamw.py` (its averages in bfloat16) and `muon.py` (Muon beside AdamW).

`optimizer.py` has the table of them, and what they have in common: checkpoints, learning rates. `groups.py` says which
weights of a recipe share a rate.
"""
