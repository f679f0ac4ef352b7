"""Print the section of CHANGELOG.md for a release: python tools/release_notes.py v0.2.0

The release workflow runs this first. It fails unless the tag, the package's version and the changelog agree.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main(tag: str) -> str:
    (version,) = re.findall(r'__version__ = "(.+)"', (ROOT / "src" / "nanopace" / "version.py").read_text())
    if tag != f"v{version}":
        sys.exit(f"{tag}: src/nanopace/version.py has {version}")
    return notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)


def notes(changelog: str, version: str) -> str:
    """The section's text, without its heading."""
    section = re.search(rf"(?ms)^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", changelog)
    if section is None or not section[1].strip():
        sys.exit(f"CHANGELOG.md has no dated section for {version}")
    return section[1].strip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(main(*sys.argv[1:]))
