"""One command, one file, with its name."""
