"""The trainer, and the only packages that import torch: commands that do not train, sample or convert skip it.

`run.py` is one training from request to outcome: `plan/` decides and checks, `setup.py` builds, `loop/` trains,
`clock/` measures, `checkpoint/` saves. `ranks.py`, `parallel.py` and `launch.py` are for several processes.
`models/`, `optim/`, `kernels/` and `fused/` are what a step is made of; `formats/` is for the weights of others.
"""
