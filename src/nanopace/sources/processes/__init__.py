"""Several processes in one log: told apart by a prefix or by their iterations, and how each of them ended."""
