"""From a log, wherever it is and whoever wrote it, to Runs.

`runs.py` is the way in. It opens the bytes (`opening.py`, `text.py`), finds out which trainer wrote them (`detect.py`,
by what `formats/table.py` declares), and hands the lines to that trainer's reader in `formats/`, which feeds
`build.py`. `head/` reads what stands before the rows, `processes/` tells several processes apart, `bulk/` is for logs
of many megabytes, and `infer/` adds the facts that follow from others.
"""
