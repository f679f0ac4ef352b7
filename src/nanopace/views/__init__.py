"""A Diagnosis laid out: terminal, HTML page, JSON."""
