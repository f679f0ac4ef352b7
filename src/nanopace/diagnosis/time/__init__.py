"""Where the time went.

`rows.py` and `levels.py` separate normal rows from slow ones, `slow_rows.py` splits a slow row into its parts,
`costs.py` finds what an evaluation and a checkpoint cost, and `wall_time.py` accounts for every second. `time_left.py`
looks ahead. `time_findings.py` and `pace_findings.py` turn this into findings.
"""
