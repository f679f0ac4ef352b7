"""What a run means: Run in, Diagnosis out. Arithmetic only; sentences are in wording.

`diagnose.py` calls the steps in order: `time/` (every second of the run), `mfu/`, `loss/`, then `advice.py`;
`compare/` is for several runs. `result.py` and `comparison.py` are what comes out, `codes.py` lists every finding,
and `invariants.py` withholds findings whose figures are impossible.
"""
