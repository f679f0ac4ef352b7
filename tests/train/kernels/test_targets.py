"""Cards of other generations are not here, but Triton's wheel has the assembler for all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
MOST_SHARED = 99 << 10  # bytes that a program may have on a GeForce card; the large cards have 163 KB and more


def alone(script: str, cache: Path, *arguments: str) -> list[str]:
    """Its output, in a process in which Triton compiles."""
    kept = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", HERE / script, *arguments],
        env={**kept, "TRITON_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_kernel_is_compiled_for_a_geforce_card_and_fits(tmp_path: Path) -> None:
    """Ampere, Ada for 8 bits, and the widest rows; targets.py shows how to test all of them."""
    kernels = [json.loads(line) for line in alone("targets.py", tmp_path, "86", "4096")]
    sources = (HERE.parents[2] / "src/nanopace/train/kernels").glob("*.py")
    modules = {path.stem for path in sources if "@triton.jit" in path.read_text()}
    assert {each["kernel"].split(".")[0] for each in kernels} == modules
    assert {each["generation"] for each in kernels if each["8 bits"]} == {89}
    on_hopper = [each for each in kernels if each["generation"] == 90]
    assert {each["kernel"].split(".")[0] for each in on_hopper} == {"attention"}
    assert all("wgmma" in each["later"] for each in on_hopper)
    assert [each for each in kernels if each["spilled"]] == []
    kernels = [each for each in kernels if each not in on_hopper]
    assert [each for each in kernels if each["shared"] > MOST_SHARED] == []
    assert [each for each in kernels if each["later"]] == []
    pipelined = [each for each in kernels if each["options"].get("STAGES", 1) > 1]
    row = 4096 * 2  # bytes
    assert pipelined
    assert all(each["shared"] >= (each["options"]["STAGES"] - 1) * row for each in pipelined)  # rows do wait there
