"""Logs of many megabytes: the usual lines are read together by numpy, and rows that are alike become one.

Each module does quickly what another does line by line: `formats/` has the same names, `numpy_fold.py` is `fold.py`.
"""
