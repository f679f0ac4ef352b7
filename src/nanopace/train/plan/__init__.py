"""The plan of a run: every decision once, with its reason, in one RunPlan (`run_plan.py`).

`resolve.py` makes it before anything is written, from `settings.py` (the config), `device.py` (the machine),
`origin.py` (where the weights come from), `batch_sizes.py`, `ladder.py` (how to save memory) and `size.py` (what is too
large for any computer). `measure.py` then adds what has to be tried on the device.
"""
