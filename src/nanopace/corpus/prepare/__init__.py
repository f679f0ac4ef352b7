"""`nanopace prepare`: from files to shards, on all cores, resumable.

`prepare.py` is the way in. `intake.py` reads, drops duplicates and splits; `encode.py` has the tokens made;
`shard_writer.py` writes them; `journal.py` remembers how far it is.
"""
