"""The parts of bench/fuzz.py: what it throws at nanopace, and the processes that run it (docs/fuzzing.md)."""
