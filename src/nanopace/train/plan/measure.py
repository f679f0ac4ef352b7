"""Measures on the device which attention kernel is fastest, and which products are faster in 8 bits."""

from __future__ import annotations

from dataclasses import replace

import torch

from nanopace.train.clock.clock import Clock
from nanopace.train.fused.attention import pick_attention
from nanopace.train.kernels.fp8 import pick_products
from nanopace.train.plan.device import set_tf32
from nanopace.train.plan.run_plan import Choice, RunPlan
from nanopace.train.warm_start import keep_compiled


def measure(plan: RunPlan, clock: Clock) -> RunPlan:
    """The plan with these results, before anything is built. The clock counts the time it takes."""
    config, device = plan.config, plan.device
    plan = replace(
        plan,
        tf32=set_tf32(plan.machine),
        attention=pick_attention(plan.shape, config.batch_size, device, getattr(torch, config.dtype)),
    )
    clock.mark("startup", 0, "trying attention kernels")
    if config.compile:
        keep_compiled()
    if config.fp8:
        rows = config.batch_size * config.block_size
        plan = replace(plan, fp8=Choice(*pick_products(plan.shape, rows, device)))
        clock.mark("startup", 0, "trying products in 8 bits")
    return plan
