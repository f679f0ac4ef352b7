"""Logs of many megabytes: the usual lines are read together by numpy, and rows that are alike become one.

Each module has a plain twin: `nanogpt.py`, `nanochat.py` and `ledger.py` in `formats/`, `numpy_fold.py` in `fold.py`.
"""
