"""The plan of a run: every decision is made once and kept with its reason in one RunPlan (`run_plan.py`).

`resolve.py` makes it before anything is written, from `settings.py` (the config), `device.py` (the machine),
`origin.py` (where the weights come from), `batch_sizes.py`, `ladder.py` (how to save memory) and `size.py` (what cannot
fit in this computer). `measure.py` then adds what has to be measured on the device.
"""
