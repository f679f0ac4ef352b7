"""The parts of bench/fuzz.py: what is thrown at nanopace, and the processes in which it is (docs/fuzzing.md)."""
