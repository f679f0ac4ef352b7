"""What comes before the rows of a process: the card, an echoed config, a fork's settings."""
