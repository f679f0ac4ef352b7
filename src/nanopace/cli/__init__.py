"""The command line: `main.py` finds the module in `commands/` that is asked for, and imports no other.

What commands share is here; what a person sees while something runs is in `display/`.
"""
