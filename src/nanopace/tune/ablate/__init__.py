"""`nanopace ablate`: measures which of the differing knobs of two configs made the difference (`ablate.py`), or what
each of several changes to one config does (`variants.py`)."""
