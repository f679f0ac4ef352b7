"""No card of another generation is here, but all of them have their assembler in Triton's wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
MOST_SHARED = 99 << 10  # bytes that a program may have on a GeForce card; the large cards have 163 KB and more


def alone(script: str, cache: Path, *arguments: str) -> list[str]:
    """What it prints, in a process in which Triton compiles."""
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
    """Ampere, Ada where there are 8 bits, and the widest rows; targets.py tells how to have all of them."""
    kernels = [json.loads(line) for line in alone("targets.py", tmp_path, "86", "4096")]
    modules = {path.stem for path in (HERE.parents[2] / "src/nanopace/train/kernels").glob("*.py")}
    assert {each["kernel"].split(".")[0] for each in kernels} == modules - {
        "__init__",
        "rows",
        "fp8",
        "products",
        "cublaslt",
    }
    assert {each["generation"] for each in kernels if each["options"].get("EIGHTH")} == {89}
    assert [each for each in kernels if each["shared"] > MOST_SHARED] == []
    assert [each for each in kernels if each["later"]] == []
    assert [each for each in kernels if each["spilled"]] == []
    pipelined = [each for each in kernels if each["options"].get("STAGES", 1) > 1]
    row = 4096 * 2  # bytes
    assert pipelined
    assert all(each["shared"] >= (each["options"]["STAGES"] - 1) * row for each in pipelined)  # rows do wait there
