"""`python -m nanopace` is `nanopace`."""

from __future__ import annotations

import sys

from nanopace.cli.main import main

sys.exit(main())
