"""What `make mutate` is made of: mutants of a source file, which tests can notice them, and running those tests."""
