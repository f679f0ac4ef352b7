"""Two runs beside each other, and more of them in an order: what changed, which is better, and why.

`compare.py` calls the rest; `attribution.py` says which knob may have done it, `verdict.py` writes the findings.
"""
