"""Terminal output: reports, and lines that change while something runs."""
