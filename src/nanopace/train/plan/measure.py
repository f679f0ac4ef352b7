"""Measures on the device which attention kernel is fastest, and which products are faster in 8 bits.

With deterministic=True nothing is measured: rules pick both, so that every start picks the same.
"""

from __future__ import annotations

import os
from dataclasses import replace

import torch

from nanopace.train.clock.clock import Clock
from nanopace.train.fused.attention import pick_attention, pick_fixed_order
from nanopace.train.kernels.fp8 import pick_products, products_by_rule
from nanopace.train.plan.device import set_tf32
from nanopace.train.plan.run_plan import Choice, RunPlan
from nanopace.train.warm_start import keep_compiled


def measure(plan: RunPlan, clock: Clock) -> RunPlan:
    """The plan with these results, before anything is built. The clock counts the time it takes."""
    config, device, dtype = plan.config, plan.device, getattr(torch, plan.config.dtype)
    plan = replace(plan, tf32=set_tf32(plan.machine))
    if config.deterministic:
        _fix_libraries(device)
        kernel, reason = pick_fixed_order(plan.shape, device, dtype, ours=plan.kernels.value == "fused")
        plan = replace(plan, attention=reason, attention_kernel=kernel)
    else:
        plan = replace(plan, attention=pick_attention(plan.shape, config.batch_size, device, dtype))
    clock.mark("startup", 0, "trying attention kernels")
    if config.compile:
        keep_compiled()
    if config.fp8:
        rows = config.batch_size * config.block_size
        picked = products_by_rule(plan.shape) if config.deterministic else pick_products(plan.shape, rows, device)
        plan = replace(plan, fp8=Choice(*picked))
        clock.mark("startup", 0, "trying products in 8 bits")
    return plan


def _fix_libraries(device: torch.device) -> None:
    """cuBLAS and the compiler read these when they are first used. Who has set them decides."""
    if device.type != "cuda":
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    os.environ.setdefault("TORCHINDUCTOR_DETERMINISTIC", "1")
