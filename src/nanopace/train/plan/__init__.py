"""What a run shall be: every decision once, with its reason, in one RunPlan (`run_plan.py`).

`resolve.py` is the way in, before anything is written: `settings.py` (the config), `device.py` (the machine),
`origin.py` (whose weights), `batch_sizes.py`, `ladder.py` (what is done without to save memory), `size.py` (what is
too large for any computer). `measure.py` then adds what only trying on the device can tell.
"""
