"""A clock for anybody's loop: it writes the ledger that `nanopace explain` reads.

`clock.py` is what people call; `phases.py` what they enter; `timeline.py` measures, on the host or on the card;
`late_values.py` reads a loss without waiting for it; `background.py` writes; `machine.py` knows where it runs.
docs/clock.md shows how it is used. Nothing here imports torch: where the loop uses it, it is there already.
"""

from nanopace.clock.clock import Clock

__all__ = ["Clock"]
