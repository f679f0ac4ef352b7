"""Forward and backward passes as sequences of kernels: the fast twins of the models.

model.py has what both recipes share; gpt2.py and fast.py have the differences.
"""
