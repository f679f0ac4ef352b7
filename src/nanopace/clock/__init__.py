"""A clock for any training loop. It writes the ledger that `nanopace explain` reads.

`clock.py` is the API, `phases.py` has the phases that a loop enters, `timeline.py` measures on the host or the card,
`late_values.py` reads a loss without waiting for it, `background.py` writes, `machine.py` describes the machine.
docs/clock.md shows how to use it. Nothing here imports torch: if the loop uses it, it is already loaded.
"""

from nanopace.clock.clock import Clock

__all__ = ["Clock"]
