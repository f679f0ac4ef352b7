"""`nanopace prepare`: turns files into shards on all cores, and resumes after the last finished shard.

`prepare.py` is the entry point. `intake.py` reads, drops duplicates and splits; `encode.py` encodes; `shard_writer.py`
writes the tokens; `provenance.py` is prepare.json, by which a second run recognises the same work.
"""
