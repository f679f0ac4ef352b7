"""What stands before the rows of a process: the card, an echoed config, settings in a fork's own words."""
