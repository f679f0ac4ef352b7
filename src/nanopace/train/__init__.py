"""The trainer, and the only rooms that import torch: who does not train, sample or convert never enters.

`run.py` is one training from request to outcome: `plan/` decides and checks, `setup.py` builds, `loop/` trains,
`clock/` measures, `checkpoint/` saves. `ranks.py`, `parallel.py` and `launch.py` are for several processes.
`models/`, `optim/`, `kernels/` and `fused/` are what a step is made of; `formats/` is for the weights of others.
"""
