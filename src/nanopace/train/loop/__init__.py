"""The training loop and what it calls.

`loop.py` runs; `stepper.py` and `passes.py` do a step, `batches.py` supplies its data, `step_reports.py` reports its
loss; `evaluate.py` and `saves.py` run between steps; `loss_watch.py` and `evidence.py` handle losses that are not
finite.
"""
