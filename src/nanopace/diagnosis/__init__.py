"""What a run means: takes a Run, returns a Diagnosis. It only calculates; the sentences are in wording.

`diagnose.py` calls the steps in order: `time/` (every second of the run), `mfu/`, `loss/`, then `advice.py`; `compare/`
is for several runs. `result.py` and `comparison.py` define the results, `codes.py` lists every finding, and
`invariants.py` withholds findings whose figures are impossible.
"""
