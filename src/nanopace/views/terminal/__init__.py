"""A terminal: reports on it, and lines that change while something runs."""
