"""What prebuild.py compiles ahead, against what whole passes launch; and that it is compiled.

A process of its own, because Triton must not interpret in it.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
import triton
from targets import BATCH, Target, launches_of, shape_of

from nanopace.train.prebuild import Building, Launch, begin_to_build, code_of, kernels_of

WAYS = (
    ("gpt2", "", ()),
    ("gpt2", "", ("activation", "averages")),
    ("gpt2", "", ("activation", "hidden", "attention")),
    ("fast", "", ()),
    ("fast", "", ("hidden",)),
    ("fast", "relu2", ()),
    ("fast", "relu2", ("activation",)),
    ("fast", "relu2", ("activation", "hidden")),
    ("fast", "rope,normuon", ()),
    ("fast", "embed_skip,value_embeddings,soft_cap,qk_norm,cautious", ()),
    ("fast", "rope,qk_norm,muon", ()),
)


def check_foresight() -> None:
    for recipe, without, saving in WAYS:
        shape = shape_of(recipe, 384, without)
        foreseen = {code_of(each) for each in kernels_of(shape, BATCH, saving)}
        launched = {code_of(each) for each in launches_of(shape, saving)}
        assert foreseen == launched, (recipe, without, saving, foreseen ^ launched)
    print("all were foreseen")


def check_building() -> None:
    """By threads; and one that cannot be compiled takes none with it."""
    triton.runtime.driver.set_active(Target(89))
    shape, cache = shape_of("gpt2", 384), Path(os.environ["TRITON_CACHE_DIR"])
    launches = kernels_of(shape, BATCH)[:3]
    broken = Launch(launches[0].kernel, (), {})
    Building([broken, *launches], torch.device("cpu")).wait()
    assert len([*cache.rglob("*.cubin")]) == len(launches)
    begin_to_build(shape, BATCH, (), torch.device("cpu")).wait()
    names = sorted(each.kernel.__name__ for each in kernels_of(shape, BATCH))
    assert sorted(each.stem for each in cache.rglob("*.cubin")) == names
    print("all were compiled")


if __name__ == "__main__":
    check_foresight()
    check_building()
