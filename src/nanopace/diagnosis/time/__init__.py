"""Where the time went.

`rows.py` and `levels.py` tell normal rows from slow ones, `slow_rows.py` says what a slow one is made of, `costs.py`
what an evaluation and a checkpoint cost, and `wall_time.py` accounts for every second. `time_left.py` looks ahead.
`time_findings.py` and `pace_findings.py` are what is worth saying of it.
"""
