"""Reads logs of many megabytes: numpy parses the usual lines together, and similar rows are folded into one.

Each module is the fast version of another: those in `formats/` with the same names, and `numpy_fold.py` of `fold.py`.
"""
