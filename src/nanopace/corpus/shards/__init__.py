"""Tokens on disk, ready to train on: nanopace's shards, nanoGPT's .bin files and llm.c's.

`corpus.py` opens any of them, `order.py` says which windows a step trains on, and `fingerprint.py` whether the files
are still what they were.
"""
