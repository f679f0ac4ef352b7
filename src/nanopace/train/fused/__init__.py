"""Forward and backward pass as a list of kernels: the fast twins of the models.

model.py has what both recipes share, gpt2.py and fast.py what differs.
"""
