"""Kills training 200 times: losses, weights and averages must be those of a run that was never killed.

    python bench/kill.py [--kills 200] [--seed 1]

It uses the test's own code (tests/train/killing.py) for longer and with other seeds. The exit code is 1 if the results
are not bit-identical.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

TRAIN_TESTS = Path(__file__).resolve().parents[1] / "tests" / "train"
WRITE_CORPUS = "import sys, pathlib, conftest; conftest.write_corpus(pathlib.Path(sys.argv[1]))"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(TRAIN_TESTS)}
    with tempfile.TemporaryDirectory() as folder:
        corpus = str(Path(folder, "corpus"))
        subprocess.run([sys.executable, "-c", WRITE_CORPUS, corpus], env=environment, check=True)
        command = [sys.executable, str(TRAIN_TESTS / "killing.py"), corpus, folder]
        command += ["--kills", str(args.kills), "--seed", str(args.seed)]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    tally = json.loads(done.stdout)
    resumed = [step for step in tally["resumed_from"] if step]
    print(f"kills                      {tally['kills']}")
    print(f"  while writing            {tally['left']['.writing']}")
    print(f"  while removing           {tally['left']['.removing']}")
    print(f"runs completed             {tally['runs']}")
    print(f"resumed from a checkpoint  {len(resumed)} times, at steps {min(resumed)} to {max(resumed)}, ", end="")
    print(f"median {median(resumed):.0f}")
    print(f"no checkpoint, restarted   {len(tally['resumed_from']) - len(resumed)} times")
    print(f"bit-identical at the end   {'yes' if not tally['differences'] else 'no'}")
    for difference in tally["differences"]:
        print(f"  {difference}")
    return int(bool(tally["differences"]))


if __name__ == "__main__":
    sys.exit(main())
