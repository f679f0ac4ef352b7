"""One reader per trainer's format; no reader knows another.

`table.py` declares them all: how a log is recognised, who reads it, what its figures mean. `registry.py` adds those of
other packages. `nanogpt.py`, `nanochat.py` and `nanopace_log.py` understand lines, the first two with their expressions
in a module beside them; `ledger.py` reads our own ledger. How to add one: docs/adding-a-format.md.
"""
