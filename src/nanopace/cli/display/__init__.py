"""What users see while something runs: bars, lines, and the live display of a training."""
