"""Turns logs of any trainer, wherever they are, into Runs.

`runs.py` is the entry point. It opens the bytes (`opening.py`, `text.py`), identifies the trainer (`detect.py`, from
the declarations in `formats/table.py`), and passes the lines to that trainer's reader in `formats/`, which feeds
`build.py`. `head/` reads what comes before the rows, `processes/` separates several processes, `bulk/` is for logs of
many megabytes, and `infer/` derives further facts.
"""
