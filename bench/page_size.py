"""Size of a page without its data: structure, styles and scripts, gzipped. The bar is 60 KB.

The data are the charts' points; the report's sentences and tables count.

    python bench/page_size.py
"""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path

from nanopace.diagnosis.compare.compare import compare
from nanopace.diagnosis.diagnose import diagnose
from nanopace.sources.runs import open_runs
from nanopace.views.page.page import compare_page, explain_page
from nanopace.wording.catalog import words

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
BAR_KB = 60.0


def kilobytes(page: str) -> float:
    return len(gzip.compress(page.encode(), 9, mtime=0)) / 1000


def without_data(page: str) -> str:
    page, charts = re.subn(r'(id="report-data">)[^<]*', r"\1", page)
    assert charts == 1
    return page


def pages() -> dict[str, str]:
    english = words("en")
    slow = diagnose(open_runs(EXAMPLES / "slow-rows.log")[0])
    narrow = diagnose(open_runs(EXAMPLES / "narrow.log", config=EXAMPLES / "narrow.py", gpu="RTX 4070")[0])
    wide = diagnose(open_runs(EXAMPLES / "wide-header.log", gpu="RTX 4070")[0])
    return {"explain": explain_page([slow], english), "compare": compare_page([compare(narrow, wide)], english)}


def main() -> int:
    for name, page in pages().items():
        print(f"{name}: {kilobytes(without_data(page)):.1f} KB without data, {kilobytes(page):.1f} KB with data")
    return 0 if all(kilobytes(without_data(page)) < BAR_KB for page in pages().values()) else 1


if __name__ == "__main__":
    sys.exit(main())
