"""A trace of torch's profiler, read and summed up: what the GPU computed, and what it waited for when it did nothing.

read.py takes the JSON apart, kernels.py gives each kernel its class, summary.py adds them up. No torch is needed.
"""
