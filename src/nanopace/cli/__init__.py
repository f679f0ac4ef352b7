"""The command line: `main.py` finds the requested module in `commands/` and imports no other.

Code shared by commands is here; what users see while something runs is in `display/`.
"""
