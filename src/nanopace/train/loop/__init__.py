"""The training loop and all that it calls: steps, and nothing but steps between two marks of the clock.

`loop.py` runs; `stepper.py` and `passes.py` are a step, `batches.py` its data, `step_reports.py` its loss;
`evaluate.py` and `saves.py` are what comes between, `loss_watch.py` and `evidence.py` for losses that are not finite.
"""
