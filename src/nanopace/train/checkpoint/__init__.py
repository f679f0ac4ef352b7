"""Checkpoints: each a directory that is complete or not there, written while training goes on.

`layout.py` is what is on the disk, `write.py` how it gets there, `saver.py` when; `best.py` and `choose.py` say which
one is the model, `verify.py` which are intact. `run_dir.py` and `lock.py` keep a directory to one training.
"""
