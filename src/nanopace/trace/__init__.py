"""Summaries of torch.profiler traces: what the GPU computed, and what it waited for when idle.

read.py parses the JSON, kernels.py classifies each kernel, summary.py adds them up. Nothing here needs torch.
"""
