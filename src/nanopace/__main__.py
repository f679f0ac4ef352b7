"""`python -m nanopace` is `nanopace`.

Python looks for modules in the current directory first when it is started like this, and whatever lies there may have
come from anywhere: a selectors.py in a downloaded directory must not run. PYTHONPATH stays in force.
"""

from __future__ import annotations

import sys

if not sys.flags.safe_path:
    del sys.path[0]

from nanopace.cli.main import main

sys.exit(main())
