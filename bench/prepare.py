"""Speed and memory of `nanopace prepare`, compared with the ten lines that people write by hand.

Those read all the text, encode it with tiktoken, and save it: nanoGPT's prepare.py for one file. Both get the same file
and use GPT-2's vocabulary. nanopace's own BPE, trained on the file, is also shown, without a baseline.

    python bench/prepare.py            # 300 MB of Python source, in the temporary directory
    python bench/prepare.py 50         # the same with 50 MB
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from big_log import measure
from nanopace.corpus.download.named import python_files

BAR_MB = 600

BY_HAND = """
import sys
import numpy as np
from nanopace.corpus.tokenizers.gpt2 import vocabulary
import tiktoken
words = r"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
ranks = {entry: rank for rank, entry in enumerate(vocabulary()[:-1])}
encoding = tiktoken.Encoding("gpt2", pat_str=words, mergeable_ranks=ranks, special_tokens={})
data = open(sys.argv[1]).read()
cut = int(len(data) * 0.9)
for name, text in (("train", data[:cut]), ("val", data[cut:])):
    np.array(encoding.encode_ordinary(text), dtype=np.uint16).tofile(f"{sys.argv[2]}/{name}.bin")
"""


def write_text(path: Path, megabytes: int) -> None:
    """Write the standard library repeatedly, each time with a number, so that no two copies are the same."""
    sources = [file.read_text(errors="replace") for file in python_files()]
    with path.open("w") as text:
        copy = 0
        while text.tell() < megabytes * 1_000_000:
            for source in sources:
                text.write(f"# copy {copy}\n{source}")
                if text.tell() >= megabytes * 1_000_000:
                    break
            copy += 1


def main() -> int:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    nanopace = str(Path(sys.executable).with_name("nanopace"))
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "text.txt")
        write_text(text, megabytes)
        prepare = [nanopace, "prepare", str(text), "--out"]
        costs = {
            "tiktoken by hand": measure([sys.executable, "-c", BY_HAND, str(text), folder]),
            "prepare, gpt2": measure([*prepare, f"{folder}/gpt2"]),
            "prepare, bpe": measure([*prepare, f"{folder}/bpe", "--tokenizer=bpe"]),
        }
    print(f"{megabytes} MB of text, {os.cpu_count()} cores")
    print(f"{'':18}{'seconds':>9}{'MB/s':>8}{'peak MB':>10}")
    for name, cost in costs.items():
        print(f"{name:18}{cost.seconds:9.1f}{megabytes / cost.seconds:8.1f}{cost.peak_mb:10.0f}")
    hand, ours = costs["tiktoken by hand"], costs["prepare, gpt2"]
    print(f"{hand.seconds / ours.seconds:.1f}x faster, with {ours.peak_mb / hand.peak_mb:.2f}x the memory")
    largest = max(cost.peak_mb for name, cost in costs.items() if name.startswith("prepare"))
    print(f"bar: {BAR_MB} MB for texts of any size: {'met' if largest <= BAR_MB else 'MISSED'}")
    return 0 if largest <= BAR_MB else 1


if __name__ == "__main__":
    raise SystemExit(main())
