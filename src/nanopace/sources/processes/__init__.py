"""Several processes in one log: separated by a prefix or by their iterations, and how each of them ended."""
