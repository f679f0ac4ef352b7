"""Measures on the device which attention kernel is fastest, and which products are faster in 8 bits.

With deterministic=True nothing is measured: rules pick both, so that every start picks the same.
"""

from __future__ import annotations

import os
from dataclasses import replace

import torch

from nanopace.errors import ConfigError
from nanopace.literals import shown
from nanopace.train.clock.clock import Clock
from nanopace.train.fused.attention import pick_attention, pick_fixed_order
from nanopace.train.kernels.fp8 import pick_products, products_by_rule
from nanopace.train.plan.device import set_tf32
from nanopace.train.plan.run_plan import Choice, RunPlan
from nanopace.train.warm_start import keep_compiled

_WORKSPACES = (":4096:8", ":16:8")  # of cuBLAS: those with which it has the same bits every time


def measure(plan: RunPlan, clock: Clock) -> RunPlan:
    """The plan with these results, before anything is built. The clock counts the time it takes."""
    plan = with_attention(replace(plan, tf32=set_tf32(plan.machine)))
    clock.mark("startup", 0, "trying attention kernels")
    if plan.config.compile:
        keep_compiled()
    if plan.config.fp8:
        plan = with_products(plan)
        clock.mark("startup", 0, "trying products in 8 bits")
    return plan


def with_attention(plan: RunPlan) -> RunPlan:
    config, dtype = plan.config, getattr(torch, plan.config.dtype)
    if config.deterministic:
        _fix_libraries(plan)
        picked = pick_fixed_order(plan.shape, plan.device, dtype, ours=plan.kernels.value == "fused")
    else:
        picked = pick_attention(plan.shape, config.batch_size, plan.device, dtype)
    return replace(plan, attention=picked.reason, attention_kernel=picked.kernel)


def with_products(plan: RunPlan) -> RunPlan:
    """In 8 bits."""
    config, rows = plan.config, plan.config.batch_size * plan.config.block_size
    picked = products_by_rule(plan.shape) if config.deterministic else pick_products(plan.shape, rows, plan.device)
    return replace(plan, fp8=Choice(*picked))


def _fix_libraries(plan: RunPlan) -> None:
    """cuBLAS and the compiler read these when they are first used. Who has set them decides, unless torch refuses it:
    it only checks the products that are not ours."""
    if plan.device.type != "cuda":
        return
    workspace = os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", _WORKSPACES[0])
    if workspace not in _WORKSPACES and plan.kernels.value != "fused":
        raise ConfigError(
            "deterministic=True needs CUBLAS_WORKSPACE_CONFIG=:4096:8 or :16:8 in the environment, not {value}; unset "
            "it",
            value=shown(workspace),
        )
    os.environ.setdefault("TORCHINDUCTOR_DETERMINISTIC", "1")
