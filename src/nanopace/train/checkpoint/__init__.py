"""Checkpoints: a directory that is whole or is not there, saved while training goes on.

`layout.py` is what lies on the disk, `write.py` how it gets there, `saver.py` when; `best.py` and `choose.py` say
which one is the model, `verify.py` which are whole. `run_dir.py` and `lock.py` see to it that a directory has one
training.
"""
