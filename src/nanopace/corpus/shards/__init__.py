"""Tokens on disk, ready to train on: nanopace's shards, nanoGPT's .bin files, and llm.c's.

`corpus.py` opens any of them, `order.py` determines the windows of each step, and `fingerprint.py` detects changed
files.
"""
