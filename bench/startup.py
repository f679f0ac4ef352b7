"""How long the user waits: `nanopace --help` and `nanopace explain` on a log of about 300 lines.

The baseline is what people write by hand instead: ten lines of regex that print a mean. All commands take turns in one
run, so that a busy machine affects them all alike; the medians are compared.

    python bench/startup.py            # 20 rounds
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
LOG = ROOT / "examples" / "slow-rows.log"
ROUNDS = 20
BARS_MS = {"nanopace --help": 80, "nanopace explain": 200}

BY_HAND = """
import re, sys
times, losses = [], []
for line in open(sys.argv[1]):
    found = re.match(r"iter (\\d+): loss ([\\d.]+), time ([\\d.]+)ms", line)
    if found:
        times.append(float(found[3]))
        losses.append(float(found[2]))
print(f"{len(times)} rows, mean {sum(times) / len(times):.2f} ms, last loss {losses[-1]}")
"""

nanopace = [str(Path(sys.executable).with_name("nanopace"))]
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "regex by hand": [sys.executable, "-c", BY_HAND, str(LOG)],
    "nanopace --help": [*nanopace, "--help"],
    "nanopace explain": [*nanopace, "explain", str(LOG)],
    "nanopace explain --json": [*nanopace, "explain", str(LOG), "--json"],
}


def main() -> int:
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS + 1):  # the first round warms the file cache and is dropped
        for name, command in COMMANDS.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds[name].append(time.perf_counter() - start)
    medians = {name: 1000 * median(times[1:]) for name, times in seconds.items()}
    failed = False
    print(f"{'command':26}{'median':>10}{'vs. regex':>12}   bar      ({ROUNDS} rounds, {LOG.name})")
    for name, ms in medians.items():
        bar = BARS_MS.get(name)
        failed |= bar is not None and ms > bar
        verdict = "" if bar is None else f"< {bar} ms: {'met' if ms <= bar else 'MISSED'}"
        print(f"{name:26}{ms:7.1f} ms{ms / medians['regex by hand']:11.2f}x   {verdict}")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
