"""Rewrite constraints.txt: every version that we test with, and the hashes of its files.

    python tools/lock.py            # keep the versions, add what new dependencies need
    python tools/lock.py --upgrade  # the newest versions of everything

uv does the work, for every platform. Packages that only torch for CUDA needs are left out: it pins them itself, and
they would add gigabytes to a CPU build of torch for nothing. That build has its own hash, which uv does not know: it is
taken from the file that pip finds here.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

LOCK = Path("constraints.txt")
HEADER = """\
# Every version that we test with, and the hashes of its files: `make lock` writes this. `make test` takes nothing else;
# torch on Linux may bring its own CUDA packages.
"""
ONLY_FOR_CUDA = re.compile(r"(?m)^(?:nvidia-(?!ml-py)|cuda-)[^\n]*(?:\n    [^\n]*)*\n")
TORCH = re.compile(r"(?m)^torch==[\w.]+")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        build = Path(folder, "build.in")
        build.write_text("hatchling\neditables\n")  # needed to build the package
        keeps = ["--upgrade"] if "--upgrade" in sys.argv[1:] else ["--constraint", str(_versions(Path(folder)))]
        command = ["uv", "pip", "compile", "pyproject.toml", str(build), "--extra", "dev", "--universal", *keeps]
        command += ["--python-version", "3.11", "--generate-hashes", "--no-header", "--no-annotate", "--quiet"]
        locked = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        here = f"--hash=sha256:{_found_here(TORCH.findall(locked)[0], Path(folder))}"
    locked = ONLY_FOR_CUDA.sub("", locked)
    if here not in locked:
        locked = TORCH.sub(lambda name: f"{name[0]} \\\n    {here}", locked)
    LOCK.write_text(HEADER + locked)


def _versions(folder: Path) -> Path:
    """The lock without its hashes."""
    plain = folder / "versions.txt"
    plain.write_text("\n".join(re.findall(r"(?m)^[\w.-]+==[^ \\\n]+", LOCK.read_text())))
    return plain


def _found_here(requirement: str, folder: Path) -> str:
    """The hash of the file that pip would install."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    subprocess.run([*pip, requirement], check=True)
    with next(folder.glob("*.whl")).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    main()
