"""One reader per trainer's format; no reader knows another.

`nanogpt.py`, `nanochat.py` and `nanopace_log.py` understand lines, each with its expressions in a module beside it;
`ledger.py` reads our own ledger.
"""
