"""The parts of `make mutate`: mutants of a source file, the tests that can notice them, and running those tests."""
