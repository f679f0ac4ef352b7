"""`python -m nanopace` runs the `nanopace` command.

Started this way, Python searches the current directory for modules first. In a downloaded directory, a selectors.py
from anyone would then run. So that entry is removed; PYTHONPATH still applies.
"""

from __future__ import annotations

import sys

if not sys.flags.safe_path:
    del sys.path[0]

from nanopace.cli.main import main

sys.exit(main())
