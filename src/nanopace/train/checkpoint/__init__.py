"""Checkpoints: each is a directory that is complete or absent, written while training continues.

`layout.py` defines the files on disk, `write.py` writes them, `saver.py` decides when; `best.py` and `choose.py` pick
the checkpoint that is the model, `verify.py` finds the intact ones. `run_dir.py` and `lock.py` reserve a directory for
one run.
"""
