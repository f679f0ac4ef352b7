"""The trainer. Only these packages import torch, so commands that do not train, sample or convert never load it.

`run.py` is one training from request to outcome: `plan/` decides and checks, `setup.py` builds, `loop/` trains,
`clock/` measures, `checkpoint/` saves. `ranks.py`, `parallel.py` and `launch.py` handle several processes.
A step uses `models/`, `optim/`, `kernels/` and `fused/`; `formats/` reads and writes other programs' weights.
"""
