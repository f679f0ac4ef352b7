"""One reader per format. No reader knows another.

`table.py` declares them all: how a log is recognised, who reads it, what its figures mean. `registry.py` adds those of
other packages. `nanogpt.py`, `nanochat.py` and `nanopace_log.py` parse lines; the first two have their expressions in a
separate module. `ledger.py` reads our ledger. To add one, see docs/adding-a-format.md.
"""
