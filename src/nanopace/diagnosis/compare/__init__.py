"""Compare two runs, or rank several: what changed, which is better, and why.

`compare.py` calls the rest; `attribution.py` finds the knob that may have made the difference, `verdict.py` writes the
findings.
"""
