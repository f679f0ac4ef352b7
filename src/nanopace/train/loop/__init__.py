"""The training loop and all that it calls: steps, and nothing but steps between two marks of the clock.

`loop.py` runs; `stepper.py` and `passes.py` are a step, `batches.py` its data, `evaluate.py` what comes between,
`loss_watch.py` and `evidence.py` what happens where a loss is not finite.
"""
