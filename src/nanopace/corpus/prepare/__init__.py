"""`nanopace prepare`: from files to shards, on all cores, and on from the last finished shard if it was interrupted.

`prepare.py` is the way in. `intake.py` reads, drops duplicates and splits; `encode.py` encodes; `shard_writer.py`
writes the tokens; `provenance.py` is prepare.json, from which a second run knows the same work.
"""
